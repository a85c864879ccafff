"""The simulated Compute Engine."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError


def test_overlapping_subnetworks_are_refused(gcp) -> None:
    gcp.network()
    with pytest.raises(CloudError, match="conflicts with existing subnetwork 'sub'"):
        gcp.call(
            "compute",
            "subnetworks.insert",
            {"project": "acme", "region": "us-central1"},
            name="two",
            network="projects/acme/global/networks/net",
            ipCidrRange="10.10.8.0/24",
        )

"""cert-manager, which a stack with prometheus-adapter asks of its cluster (a stand-in)."""

from __future__ import annotations

from typing import Final

from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster import cert_manager
from slicewright.rehearsal.scenario.existing_cluster.objects import Owner

_TIMEOUT_S: Final = 120.0


def install(client: Client) -> None:
    """Returns when it runs. Raises ApiError, Unreachable, and RehearsalError after two minutes."""
    owner = Owner(client=client, manager="cert-manager", timeout_s=_TIMEOUT_S)
    owner.apply_crds(cert_manager.crds())
    made = [owner.apply(one) for one in cert_manager.objects()]
    # The last of them is its Deployment.
    owner.wait(made[-1], "Available")

"""Customer-managed keys of simulated clusters, as Google's own client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

CLUSTERS = "projects.locations.clusters"
KEY = "projects/keys-1/locations/us-central1/keyRings/gke/cryptoKeys/k"
ELSEWHERE = KEY.replace("us-central1", "us-east1")


def encrypt(gcp: Gcp, **encryption: Any) -> Any:
    """What the cluster then has."""
    clusters = client(gcp.cloud.call, "container")
    body = {"update": {"desiredDatabaseEncryption": encryption}}
    gcp.wait(clusters.call(f"{CLUSTERS}.update", name=gcp.cluster, body=body))
    return clusters.call(f"{CLUSTERS}.get", name=gcp.cluster)["databaseEncryption"]


def test_secrets_are_encrypted_with_a_key_of_the_region(gcp: Gcp) -> None:
    cluster = gcp.make_cluster()
    assert cluster["databaseEncryption"]["currentState"] == "CURRENT_STATE_DECRYPTED"
    found = encrypt(gcp, state="ENCRYPTED", keyName=KEY)
    assert found == {
        "state": "ENCRYPTED",
        "keyName": KEY,
        "currentState": "CURRENT_STATE_ENCRYPTED",
    }
    with pytest.raises(HttpError, match="must be in us-central1"):
        encrypt(gcp, state="ENCRYPTED", keyName=ELSEWHERE)
    with pytest.raises(HttpError, match=r"database_encryption\.key_name"):
        encrypt(gcp, state="ENCRYPTED")


def test_a_pool_cannot_have_disks_of_a_key_of_another_region(gcp: Gcp) -> None:
    gcp.make_cluster()
    with pytest.raises(CloudError, match="disks in us-central1 cannot use it"):
        gcp.make_pool(config={"machineType": "e2-standard-4", "bootDiskKmsKey": ELSEWHERE})

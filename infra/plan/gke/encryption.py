"""Customer-managed keys (CMEK) of a GKE cluster: their locations, and the accounts with rights."""

from __future__ import annotations

import re

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.clusters import GkeClusterPlan


@rule("gke-key-location")
def check_keys(cluster: stack_file.GkeCluster, region: str) -> Checked[None]:
    """region: of the cluster."""
    if cluster.kms_key is not None:
        location = _location(cluster.kms_key)
        # A multi-region, or global, has no number: us, europe, global.
        if re.search("-.*[0-9]$", location) and location != region:
            yield refuse(
                ("cluster", "kms_key"),
                f"the key is in {location}: disks in {region} cannot use it",
                f"name a key in {region}",
                "Compute Engine docs, protect resources by using Cloud KMS keys",
            )
    if cluster.secrets_key is not None:
        location = _location(cluster.secrets_key)
        if location != region:
            yield refuse(
                ("cluster", "secrets_key"),
                f"the key is in {location}, and the cluster's control plane in {region}",
                f"name a key in {region}",
                "GKE docs, encrypt secrets at the application layer",
            )


def key_notes(cluster: GkeClusterPlan) -> list[str]:
    """Notes on the accounts that need a right on a key. Only the key's owner may grant it. Sources:
    Compute Engine docs, protect resources by using Cloud KMS keys; GKE docs, encrypt secrets at
    the application layer.
    """
    role = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
    notes = []
    if cluster.kms_key is not None:
        notes.append(
            f"cluster {cluster.name}: Compute Engine's service agent, service-PROJECT_NUMBER@"
            f"compute-system.iam.gserviceaccount.com, needs {role} on {cluster.kms_key}; without "
            "it no node starts"
        )
    if cluster.secrets_key is not None:
        notes.append(
            f"cluster {cluster.name}: GKE's service agent, service-PROJECT_NUMBER@"
            f"container-engine-robot.iam.gserviceaccount.com, needs {role} on "
            f"{cluster.secrets_key}, as long as the cluster lives: without it, or without the "
            "key, the Secrets are lost"
        )
    return notes


def _location(key: str) -> str:
    return key.split("/")[3]

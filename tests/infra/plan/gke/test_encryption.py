"""Keys of the customer's for a GKE cluster: what the stack file may say, and what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

KEY = "projects/keys-1/locations/us-central1/keyRings/gke/cryptoKeys/disks"
FLEET = """\
cloud: gke
cluster:
  name: main
  location: us-central1-c
  kms_key: DISKS
  secrets_key: SECRETS
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""


def fleet(disks: str = KEY, secrets: str = KEY) -> str:
    return FLEET.replace("DISKS", disks).replace("SECRETS", secrets)


def test_every_boot_disk_and_the_secrets_have_the_key(
    record_cloud: Callable[..., list[Made]],
) -> None:
    made = record_cloud("gke-h100", fleet=fleet())
    pools = [m.inputs for m in made if m.type == "gcp:container/nodePool:NodePool"]
    assert len(pools) == 2
    (cluster,) = [m.inputs for m in made if m.type == "gcp:container/cluster:Cluster"]
    assert {p["nodeConfig"]["bootDiskKmsKey"] for p in [*pools, cluster]} == {KEY}
    assert cluster["databaseEncryption"] == {"state": "ENCRYPTED", "keyName": KEY}


def test_the_plan_says_whose_right_on_the_keys_is_needed() -> None:
    raw = yaml.safe_load(fleet())
    disks, secrets = [
        n
        for n in plan.notes(plan.read(json.dumps(raw), stack_file.Source("fleet", raw)))
        if n.startswith("cluster main:")
    ]
    assert "compute-system.iam.gserviceaccount.com" in disks
    assert "container-engine-robot.iam.gserviceaccount.com" in secrets


def test_keys_are_in_the_location_of_the_cluster(broken: Callable[[str], str]) -> None:
    elsewhere = KEY.replace("us-central1", "us-east1")
    said = broken(fleet(elsewhere, elsewhere))
    assert "cluster.kms_key: the key is in us-east1: disks in us-central1 cannot" in said
    assert "cluster.secrets_key: the key is in us-east1" in said


def test_disks_may_have_a_key_of_more_regions_and_secrets_may_not(
    broken: Callable[[str], str],
) -> None:
    wide = KEY.replace("us-central1", "us")
    said = broken(fleet(wide, wide))
    assert "cluster.secrets_key: the key is in us," in said
    assert "kms_key: the key" not in said


@pytest.mark.parametrize("key", ["disks", f"{KEY}/cryptoKeyVersions/1"])
def test_a_key_is_named_in_full(broken: Callable[[str], str], key: str) -> None:
    assert "is not the name of a Cloud KMS key" in broken(fleet(key))


def test_an_existing_cluster_keeps_its_keys(broken: Callable[[str], str]) -> None:
    said = broken(fleet().replace("  name: main", "  name: main\n  existing: true"))
    assert "cluster.kms_key: the cluster exists already" in said
    assert "cluster.secrets_key: the cluster exists already" in said

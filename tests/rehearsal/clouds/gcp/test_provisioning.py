"""Node pools whose machines come later or for a limited time: flex-start, queued, run times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.account import write_account
from tests.rehearsal.clouds.gcp.test_autoscaler import TOLERATION, look, waiting

A100 = {
    "machineType": "a2-highgpu-1g",
    "accelerators": [{"acceleratorType": "nvidia-tesla-a100", "acceleratorCount": "1"}],
    "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
}
QUEUED_TOLERATION = {"key": "cloud.google.com/gke-queued", "operator": "Exists"}


def flex_start(**config: Any) -> dict[str, Any]:
    return {
        "initialNodeCount": 0,
        "autoscaling": {"enabled": True, "totalMaxNodeCount": 3},
        "management": {"autoRepair": False, "autoUpgrade": True},
        "config": {**A100, "flexStart": True, "maxRunDuration": "7200s", **config},
    }


def queued(**config: Any) -> dict[str, Any]:
    return {
        "initialNodeCount": 0,
        "autoscaling": {"enabled": True, "totalMaxNodeCount": 3},
        "queuedProvisioning": {"enabled": True},
        "config": {**A100, **config},
    }


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (flex_start() | {"autoscaling": {}}, "Flex start node pools require autoscaling enabled."),
        (
            flex_start() | {"initialNodeCount": 1},
            "Flex start node pools require initial node count to be set to 0.",
        ),
        (
            flex_start(reservationAffinity={"consumeReservationType": "ANY_RESERVATION"}),
            "Flex start node pools don't support reservations.",
        ),
        (flex_start(reservationAffinity={}), "don't support reservations."),
        (flex_start() | {"management": {"autoRepair": True, "autoUpgrade": True}}, "auto-repair"),
        (flex_start(spot=True), "Spot"),
        (flex_start(maxRunDuration="604801s"), "Invalid max run duration 604801s"),
        (
            queued(reservationAffinity={}),
            "Queued_provisioning requires reservation affinity to be set to none",
        ),
        (queued() | {"autoscaling": {}}, "autoscaling with a minimum of 0"),
        (
            queued() | {"autoscaling": {"enabled": True, "totalMinNodeCount": 1}},
            "autoscaling with a minimum of 0",
        ),
        (queued() | {"initialNodeCount": 1}, "initial node count"),
        (queued(spot=True), "Spot"),
        ({"config": {**A100, "maxRunDuration": "29s"}}, "must be 30s to 10368000s"),
        ({"config": {**A100, "maxRunDuration": "2h"}}, "Invalid max run duration 2h"),
    ],
)
def test_unsupported_provisioning_is_refused(gcp, pool: dict[str, Any], said: str) -> None:
    gcp.make_cluster()
    with pytest.raises(CloudError) as caught:
        gcp.make_pool(**pool)
    assert (caught.value.code, said in caught.value.message) == (400, True), caught.value.message


def test_a_flex_start_pool_grows_for_waiting_pods_from_preemptible_quota(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(**flex_start())
    assert gcp.nodes("pool") == []
    write_account(gcp.environment, {"quotas": {"PREEMPTIBLE_NVIDIA_A100_GPUS": 0}})
    assert look(gcp, waiting("a")) == []
    write_account(gcp.environment, {"quotas": {"NVIDIA_A100_GPUS": 0}})
    (node,) = look(gcp, waiting("a"))
    labels = node["metadata"]["labels"]
    assert labels["cloud.google.com/gke-flex-start"] == "true"
    assert labels["cloud.google.com/gke-provisioning"] == "flex-start"
    assert labels["cloud.google.com/gke-max-run-duration-seconds"] == "7200"


def test_a_flex_start_pool_stays_one_that_can_be_flex_start(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(**flex_start())
    with pytest.raises(CloudError, match="require autoscaling enabled"):
        gcp.on_pool("setAutoscaling", autoscaling={"enabled": False})
    with pytest.raises(CloudError, match="auto-repair"):
        gcp.on_pool("setManagement", management={"autoRepair": True, "autoUpgrade": True})
    gcp.wait(gcp.on_pool("setAutoscaling", autoscaling={"enabled": True, "totalMaxNodeCount": 5}))


def test_a_queued_pool_does_not_grow_for_waiting_pods(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(**queued())
    assert look(gcp, waiting("a", tolerations=[TOLERATION, QUEUED_TOLERATION])) == []


def test_nodes_of_a_queued_pool_keep_away_pods_that_do_not_tolerate_it(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(**queued())
    gcp.wait(gcp.on_pool("setSize", nodeCount=1))
    (node,) = gcp.nodes("pool")
    taint = {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"}
    assert taint in node["spec"]["taints"]
    assert node["metadata"]["labels"]["cloud.google.com/gke-queued"] == "true"
    assert taint["key"] not in str(gcp.pool()["config"].get("taints"))


def test_any_pool_may_limit_how_long_its_machines_run(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(config={**A100, "maxRunDuration": "864000s"})
    (node,) = gcp.nodes("pool")
    assert node["metadata"]["labels"]["cloud.google.com/gke-max-run-duration-seconds"] == "864000"


BLUE_GREEN = {
    "strategy": "BLUE_GREEN",
    "blueGreenSettings": {"standardRolloutPolicy": {"batchNodeCount": 1}},
}
COMPACT = {"placementPolicy": {"type": "COMPACT"}}


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (COMPACT | {"locations": ["us-central1-a", "us-central1-c"]}, "in a single zone"),
        (COMPACT | {"upgradeSettings": BLUE_GREEN}, "blue-green"),
        (COMPACT | queued(), "queued provisioning"),
        (COMPACT | flex_start(), "not supported on machine type a2-highgpu-1g"),
        (COMPACT | {"config": {"machineType": "n1-standard-8"}}, "n1-standard-8"),
        ({"upgradeSettings": {**BLUE_GREEN, "maxSurge": 1}}, "need the strategy SURGE"),
        (
            {
                "upgradeSettings": {
                    "strategy": "BLUE_GREEN",
                    "blueGreenSettings": {"nodePoolSoakDuration": "604801s"},
                }
            },
            "Invalid soak duration",
        ),
    ],
)
def test_placements_and_upgrades_that_gke_does_not_have_are_refused(
    gcp, pool: dict[str, Any], said: str
) -> None:
    gcp.make_cluster()
    with pytest.raises(CloudError) as caught:
        gcp.make_pool(**({"config": A100} | pool))
    assert (caught.value.code, said in caught.value.message) == (400, True), caught.value.message


def test_a_blue_green_upgrade_has_all_nodes_twice_before_the_first_goes(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(config=A100, initialNodeCount=2, upgradeSettings=BLUE_GREEN)
    before = {n["metadata"]["name"] for n in gcp.nodes("pool")}
    stock = {"fault": "stock-out", "pool": "pool", "node": 3}
    (gcp.environment / "faults.json").write_text(json.dumps([stock]))
    done = gcp.settle(gcp.on_pool("update", nodeVersion="-"))
    assert "GCE_STOCKOUT" in done["error"]["message"]
    assert before < {n["metadata"]["name"] for n in gcp.nodes("pool")}, "no old node has gone"
    (gcp.environment / "faults.json").write_text("[]")
    gcp.wait(gcp.on_pool("update", nodeVersion="-"))
    after = {n["metadata"]["name"] for n in gcp.nodes("pool")}
    assert (len(after), after & before) == (2, set())


def test_a_pool_changes_between_the_ways_to_upgrade(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(config=A100)
    gcp.wait(gcp.on_pool("update", upgradeSettings=BLUE_GREEN))
    assert gcp.pool()["upgradeSettings"] == {
        "strategy": "BLUE_GREEN",
        "blueGreenSettings": {
            "nodePoolSoakDuration": "3600s",
            "standardRolloutPolicy": {"batchNodeCount": 1, "batchSoakDuration": "0s"},
        },
    }
    surge = {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1}
    gcp.wait(gcp.on_pool("update", upgradeSettings=surge))
    assert gcp.pool()["upgradeSettings"] == surge

"""Node pools whose machines come later or for a limited time: flex-start, queued, run times."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.gcp.account import write_account
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
def test_what_gke_cannot_provision_is_refused(gcp, pool: dict[str, Any], said: str) -> None:
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

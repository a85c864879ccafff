"""What `make rehearse` counts as proven, for every way in which a pool can offer its GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from slicewright.apis import desired_state
from slicewright.infra import plan, stack_file
from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario import proof
from slicewright.rehearsal.scenario.existing_cluster import Differences
from slicewright.rehearsal.scenario.proof import ProvenNode
from slicewright.rehearsal.scenario.walkthrough import WALKTHROUGHS, Health, Landing

POOLS: Mapping[str, dict[str, Any]] = {
    "whole": {"machine_type": "a2-highgpu-2g", "zones": ["us-central1-c"]},
    "time-sliced": {
        "machine_type": "g2-standard-24",
        "zones": ["us-central1-a"],
        "sharing": {"mode": "time-slicing", "replicas": 4},
    },
    "mps": {
        "machine_type": "g2-standard-24",
        "zones": ["us-central1-a"],
        "sharing": {"mode": "mps", "replicas": 4},
    },
    "partitioned": {
        "machine_type": "a2-highgpu-2g",
        "zones": ["us-central1-c"],
        "partition": {"mode": "native", "profile": "3g.20gb"},
    },
    "partitioned-and-time-sliced": {
        "machine_type": "a2-highgpu-2g",
        "zones": ["us-central1-c"],
        "partition": {"mode": "native", "profile": "3g.20gb"},
        "sharing": {"mode": "time-slicing", "replicas": 3},
    },
}
EXPECTED = {
    "whole": ("2 × whole GPU", "2 × nvidia.com/gpu"),
    "time-sliced": ("2 × whole GPU", "8 × nvidia.com/gpu"),
    "mps": ("2 × whole GPU", "8 × nvidia.com/gpu"),
    "partitioned": ("4 × 3g.20gb", "4 × nvidia.com/gpu"),
    "partitioned-and-time-sliced": ("4 × 3g.20gb", "12 × nvidia.com/gpu"),
}


def planned(pool: str) -> desired_state.Desired:
    raw = {
        "cloud": "gke",
        "cluster": {"name": "dev", "location": "us-central1"},
        "node_pools": [{"name": pool, "nodes": {"count": 1}, **POOLS[pool]}],
    }
    (only,) = plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools
    return desired_state.parse(only.offer.desired)


def test_the_fleet_is_read_again_until_every_node_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, open_ = node("whole", tainted=True), node("whole")
    unverified = node("whole", condition="Unknown (NoReport)")
    reads = iter([(open_, held), (open_, unverified), (open_, open_), (held,)])
    monkeypatch.setattr(proof, "read_fleet", lambda _: next(reads))
    monkeypatch.setattr(proof, "_AGAIN_S", 0)
    assert proof.read_released_fleet(cast(Client, None)) == (open_, open_)
    assert proof.read_released_fleet(cast(Client, None), timeout_s=-1) == (held,)


def node(pool: str, **changed: Any) -> ProvenNode:
    """A node that is as its plan says."""
    wanted = planned(pool)
    facts: dict[str, Any] = {
        "name": "n1",
        "pool": pool,
        "tainted": False,
        "condition": "True (PartitionsMatch)",
        "allocatable": dict(wanted.resources),
        "gpus": tuple(
            {
                "index": i,
                "mig": "enabled" if wanted.gpu(i).mig else "disabled",
                "instances": wanted.gpu(i).instances,
            }
            for i in range(wanted.gpu_count)
        ),
        "desired": wanted,
    }
    return ProvenNode(**{**facts, **changed})


def held(*fleet: ProvenNode, nodes: int | None = None) -> list[bool]:
    return [check.holds for check in proof.of_fleet("x", fleet, nodes=nodes)]


@pytest.mark.parametrize("pool", POOLS)
def test_a_node_that_is_as_the_plan_says_is_proven(pool: str) -> None:
    checks = proof.of_fleet("x", [node(pool)], nodes=1)
    assert [check.holds for check in checks] == [True, True, True], checks
    assert [(c.wanted, c.found) for c in checks[1:]] == [(e, e) for e in EXPECTED[pool]]


@pytest.mark.parametrize("pool", POOLS)
def test_one_resource_too_few_is_no_proof(pool: str) -> None:
    allocatable = {name: count - 1 for name, count in planned(pool).resources.items()}
    assert held(node(pool, allocatable=allocatable)) == [True, True, False]


def test_a_partition_on_a_gpu_that_should_be_whole_is_no_proof() -> None:
    gpus = (
        {"index": 0, "mig": "enabled", "instances": {"3g.20gb": 2}},
        {"index": 1, "mig": "disabled"},
    )
    assert held(node("whole", gpus=gpus)) == [True, False, True]


def test_a_gpu_without_mig_support_is_whole() -> None:
    gpus = tuple({"index": i, "mig": "unsupported"} for i in range(2))
    assert held(node("time-sliced", gpus=gpus)) == [True, True, True]


def test_a_gpu_that_did_not_answer_is_no_proof() -> None:
    gpus = ({"index": 0, "mig": "unknown", "error": "nvmlDeviceGetMigMode: Unknown Error"},)
    assert held(node("whole", gpus=gpus)) == [True, False, True]


def test_two_nodes_that_are_wrong_in_opposite_ways_are_no_proof() -> None:
    """In sum they have what the plan says."""
    more, fewer = ({"nvidia.com/gpu": count} for count in (3, 1))
    assert held(node("whole", allocatable=more), node("whole", allocatable=fewer))[2] is False


def test_nothing_is_verified_without_the_plan() -> None:
    assert held(node("whole", desired=None)) == [True, False, False]


def test_resources_with_count_zero_are_ignored() -> None:
    allocatable = {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 0}
    assert held(node("whole", allocatable=allocatable)) == [True, True, True]


@pytest.mark.parametrize(
    ("changed", "nodes", "holds"),
    [
        ({}, 1, True),
        ({}, None, True),
        ({}, 2, False),
        ({"tainted": True}, 1, False),
        ({"condition": "False (WrongLayout)"}, 1, False),
    ],
)
def test_every_node_that_the_plan_asks_for_must_be_released(
    changed: dict[str, Any], nodes: int | None, holds: bool
) -> None:
    assert held(node("whole", **changed), nodes=nodes)[0] is holds


def test_a_fleet_that_starts_with_no_node_is_proven_and_an_unexpected_one_is_not() -> None:
    assert held(nodes=0) == [True, True, True]
    assert held()[0] is False


def test_changed_existing_cluster_is_reported_with_its_first_difference() -> None:
    others = ("namespaces/left is new", "nodes/a is gone")
    check = proof.of_existing_cluster(
        "existing-a100-t4", Differences(of_operator=("x",), others=others)
    )
    assert not check.holds
    assert check.found == "2 of the stack, such as namespaces/left is new"


def test_operators_leftovers_are_counted_and_the_cluster_is_not_called_unchanged() -> None:
    check = proof.of_existing_cluster(
        "existing-a100-t4", Differences(of_operator=("x", "y"), others=())
    )
    assert check.holds
    assert check.found == "2, all of them the operators'"
    assert "as it was" not in f"{check.fact} {check.wanted} {check.found}"
    none = proof.of_existing_cluster("existing-a100-t4", Differences(of_operator=(), others=()))
    assert none.found == "none: it is as it was"


@pytest.mark.parametrize(
    ("health", "bound", "holds", "found"),
    [
        (Health(16, ""), 16, True, "16 of 16 Running and Ready, no restart"),
        (
            Health(0, "llm-x: CrashLoopBackOff, 2 restarts"),
            16,
            False,
            "0 of 16 Running and Ready, no restart: llm-x: CrashLoopBackOff, 2 restarts",
        ),
        (Health(15, ""), 15, False, "15 of 16 bound"),
    ],
)
def test_pods_that_are_bound_and_do_not_run_are_not_proven(
    health: Health, bound: int, holds: bool, found: str
) -> None:
    check = proof.of_landing(WALKTHROUGHS["gke-h100"], Landing(16, bound, 0, ""), health)
    assert (check.holds, check.found) == (holds, found)
    assert check.wanted == "16 of 16 Running and Ready, no restart"


def test_table_marks_pods_whose_program_does_not_run() -> None:
    check = proof.of_landing(WALKTHROUGHS["eks-a100"], Landing(100, 56, 44, "full"), Health(56, ""))
    assert check.holds
    assert check.fact == "pods of mig1.5 (program not run)"
    assert (check.wanted, check.found) == ("56 of 100 bound", "56 of 100 bound")


def test_pods_that_fail_are_named() -> None:
    assert proof.of_other_pods("gke-h100", ()).holds
    check = proof.of_other_pods("gke-h100", ("kube-system/a: CrashLoopBackOff",))
    assert (check.holds, check.found) == (False, "1 failing (kube-system/a: CrashLoopBackOff)")


def test_leftovers_in_the_cloud_are_listed_by_kind_and_name() -> None:
    assert proof.of_empty_cloud("gke-h100", {}).holds
    left = {"compute.disk": ["acme/us-central1-a/pvc-1"], "ec2.volume": ["a", "b", "c", "d"]}
    check = proof.of_empty_cloud("gke-h100", left)
    assert not check.holds
    assert check.found == "1 compute.disk (acme/us-central1-a/pvc-1); 4 ec2.volume (a, b, c, …)"

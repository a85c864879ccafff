"""The text of `slicewright plan --diff`."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from slicewright.infra import plan, stack_file
from slicewright.infra.geometry import Placement
from slicewright.show import plan_text
from slicewright.show.change_text import step_text

ROOT = Path(__file__).resolve().parents[2]


def written(stack: str) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())[
        "config"
    ]["slicewright:fleet"]
    return raw


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def told(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    console = Console(file=io.StringIO(), width=140)
    plan_text.show_changes(plan.compare(planned(before), planned(after)), console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_existing_nodes_stay_when_their_pool_is_removed() -> None:
    after = written("existing-a100-t4")
    del after["node_pools"][1]
    assert told(written("existing-a100-t4"), after) == [
        "pool a100-40gb: unchanged",
        "pool tesla-t4: gone, its nodes and the pods on them stay",
    ]


def test_nodes_of_a_cloud_are_deleted_with_their_pool() -> None:
    after = written("gke-h100")
    after["node_pools"][0]["name"] = "other"
    assert told(written("gke-h100"), after) == [
        "pool h100-partition-3g: gone, with its nodes and the pods on them",
        "pool other: new",
    ]


def test_another_existing_cluster_is_shown_without_contradiction() -> None:
    lines = told(written("fractional"), written("existing-a100-t4"))
    assert [line for line in lines if "replace:" in line] == [
        "fleet: replace: cluster.context shared -> gpu-sharing",
        "fleet: replace: fractional.provider hami -> none",
        "fleet: replace: fractional.existing False -> none",
    ]
    assert [line for line in lines if line.startswith("pool")] == [
        "pool shared: gone, its nodes and the pods on them stay",
        "pool a100-40gb: new, its GPUs are partitioned",
        "pool tesla-t4: new",
    ]
    assert not [line for line in lines if "no node is touched" in line or "every pool" in line]


@pytest.mark.parametrize(
    ("stack", "key", "last"),
    [
        ("gke-h100", "name", "pool h100-partition-3g: replace, with its cluster"),
        (
            "fractional",
            "context",
            "pool shared: in place, its nodes are those of the other cluster",
        ),
    ],
)
def test_an_equal_pool_in_another_cluster_is_not_called_unchanged(
    stack: str, key: str, last: str
) -> None:
    after = written(stack)
    after["cluster"][key] = "other"
    assert told(written(stack), after)[-1] == last


def test_only_the_difference_of_a_workload_is_shown() -> None:
    after = written("fractional")
    after["fractional"] |= {"node_policy": "spread", "gpu_policy": "binpack"}
    (line,) = (line for line in told(written("fractional"), after) if "workloads" in line)
    assert line == (
        "fleet: in place: workloads app-a annotations hami.io/node-scheduler-policy "
        "binpack -> spread; "
        "hami.io/gpu-scheduler-policy spread -> binpack"
    )


def test_only_the_difference_of_an_add_on_is_shown() -> None:
    before, after = written("eks-a100"), written("eks-a100")
    before["cluster"]["addons"] = {"eks-pod-identity-agent": {}}
    after["cluster"]["addons"] = {"coredns": {"settings": {"replicaCount": 3}}}
    (line,) = (line for line in told(before, after) if "addons" in line)
    assert line == (
        'fleet: in place: cluster.addons coredns settings none -> {"replicaCount": 3}; '
        "eks-pod-identity-agent the version of EKS -> none"
    )


def test_a_changed_autoscaler_shows_only_the_difference() -> None:
    without, before, after = (written("eks-a100") for _ in range(3))
    for fleet in (without, before, after):
        fleet["cluster"]["version"] = "1.35"
    before["cluster"]["autoscaler"] = {"mode": "cluster-autoscaler"}
    after["cluster"]["autoscaler"] = {
        "mode": "cluster-autoscaler",
        "scale_down": {"unneeded_minutes": 30},
    }
    added = "cluster.autoscaler none -> cluster-autoscaler v1.35.1"
    assert any(added in line for line in told(without, before))
    (line,) = (line for line in told(before, after) if "cluster.autoscaler" in line)
    assert line == "fleet: in place: cluster.autoscaler scale_down unneeded_minutes 10 -> 30"


def test_a_changed_karpenter_shows_only_the_difference() -> None:
    before, after = written("eks-a100"), written("eks-a100")
    before["cluster"]["autoscaler"] = "karpenter"
    after["cluster"]["autoscaler"] = {"mode": "karpenter", "empty_minutes": 5}
    (line,) = (line for line in told(before, after) if "cluster.autoscaler" in line)
    assert line == "fleet: in place: cluster.autoscaler empty_minutes 10 -> 5"


def test_only_access_entries_that_change_are_shown() -> None:
    arn, fleets = "arn:aws:iam::111122223333:role", []
    for policies in ([], [{"name": "AmazonEKSViewPolicy", "namespaces": ["a", "b"]}]):
        fleet = written("eks-a100")
        changed = {"principal": f"{arn}/ml", "groups": ["ml"], "policies": policies}
        same = {"principal": f"{arn}/ops", "groups": ["ops"]}
        fleet["cluster"]["access"] = {"entries": [changed, same]}
        fleets.append(fleet)
    (line,) = (line for line in told(*fleets) if "cluster.access" in line)
    assert line == (
        f"fleet: in place: cluster.access {arn}/ml {arn}/ml (group ml) -> "
        f"{arn}/ml (AmazonEKSViewPolicy in a b, group ml)"
    )


def test_a_cluster_gets_a_key_of_secrets_in_place_and_another_cluster_another() -> None:
    without, first, second = (written("eks-a100") for _ in range(3))
    for fleet, name in ((first, "a"), (second, "b")):
        region = fleet["cluster"]["region"]
        fleet["cluster"]["secrets_key"] = f"arn:aws:kms:{region}:111122223333:key/{name}"
    given = told(without, first)
    assert given[0].startswith("fleet: in place: cluster.secrets_key none -> arn:aws:kms:")
    assert "encrypted with the key when they are written again" in " ".join(given)
    for before, after in ((first, second), (first, without)):
        lines = told(before, after)
        assert lines[0].startswith("fleet: replace: cluster.secrets_key arn:aws:kms:")
        assert "EKS neither changes nor removes the key" in " ".join(lines)
        assert lines[-1].endswith("replace, with its cluster")


def test_added_removed_and_reordered_workloads_are_shown() -> None:
    two = written("fractional")
    two["workloads"].append(two["workloads"][0] | {"name": "app-b"})
    turned = copy.deepcopy(two)
    turned["workloads"].reverse()
    assert any(
        "workloads app-a (nvidia.com/gpu 3" in line and "-> app-a" in line
        for line in told(written("fractional"), two)
    )
    assert "fleet: in place: workloads the same in another order" in told(two, turned)


def test_changes_of_a_server_are_shown_key_by_key() -> None:
    text = (ROOT / "tests/infra/golden/vllm.yaml").read_text()
    before: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    after = copy.deepcopy(before)
    after["workloads"][0] |= {"replicas": 8, "max_model_len": 4096}
    lines = told(before, after)
    changed = "llm-deployment replicas 16 -> 8; max_model_len 8192 -> 4096"
    assert f"fleet: in place: deployments {changed}" in lines
    assert lines[-2:] == ["pool h100-partition-3g: unchanged", "pool whole: unchanged"]
    del after["workloads"]
    assert any(
        line.endswith("deployments llm-deployment (16 x vllm), large (2 x vllm) -> none")
        for line in told(before, after)
    )


def test_a_larger_pool_changes_no_server() -> None:
    text = (ROOT / "tests/infra/golden/vllm.yaml").read_text()
    before: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    after = copy.deepcopy(before)
    after["node_pools"][0]["nodes"]["count"] = 2
    assert not any("deployments" in line for line in told(before, after))


SHARE = plan.ReplicatedResource(
    resource="nvidia.com/gpu",
    advertised="nvidia.com/gpu",
    strategy="mps",
    replicas=2,
    fail_requests_greater_than_one=False,
)
HOST_GPU = plan.HostGpuPlan(index=0, mig=False, persistence=True, instances=())
WORKLOAD = plan.WorkloadPlan(
    name="a",
    cards=1,
    memory_mib_per_card=256,
    compute_percent_per_card=10,
    requests={"gpu": 1},
    annotations={"k": "v"},
)


@pytest.mark.parametrize(
    ("value", "others"),
    [
        (
            SHARE,
            {
                "resource": "nvidia.com/mig-1g.5gb",
                "advertised": "nvidia.com/gpu.shared",
                "strategy": "time-slicing",
                "replicas": 3,
                "fail_requests_greater_than_one": True,
            },
        ),
        (
            HOST_GPU,
            {
                "index": 1,
                "mig": True,
                "persistence": False,
                "instances": (Placement(profile="3g.20gb", start=0, size=4),),
            },
        ),
        (plan.NodeCount(min=2, max=2, autoscaled=True), {"min": 1, "max": 3, "autoscaled": False}),
        (
            plan.Taint(key="a", value="b", effect="NoSchedule"),
            {"key": "c", "value": "c", "effect": "NoExecute"},
        ),
        (
            WORKLOAD,
            {
                "cards": 2,
                "memory_mib_per_card": 512,
                "compute_percent_per_card": 20,
                "requests": {"gpu": 2},
                "annotations": {"k": "w"},
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_change_is_shown_from_a_value_to_the_same_text(
    value: Any, others: dict[str, Any]
) -> None:
    for field, other in others.items():
        step = step_text((value,), (dataclasses.replace(value, **{field: other}),))
        before, _, after = step.rpartition(" -> ")
        if isinstance(value, plan.WorkloadPlan):
            before = before.split()[-1]  # only what differs is told, after its name
        assert before != after


def test_the_text_of_a_change_fits_the_effect_on_its_pool() -> None:
    """Its only node is replaced: nothing is said to stay, in no row."""
    after = written("gke-h100")
    after["node_pools"][0] |= {"zones": ["us-central1-a"], "labels": {"role": "x"}}
    lines = told(written("gke-h100"), after)
    assert "pool h100-partition-3g: replace" in lines
    text = " ".join(" ".join(lines).split())
    assert "no zone stays: all nodes of the pool are deleted" in text
    assert "all nodes are replaced anyway; the new ones have it" in text
    for said in ("stay,", "others stay", "pods stay"):
        assert said not in text


def test_a_pool_that_is_spread_over_more_zones_loses_nodes() -> None:
    before, after = written("gke-h100"), written("gke-h100")
    before["node_pools"][0] |= {"nodes": {"count": 2}}
    after["node_pools"][0] |= {"nodes": {"count": 2}, "zones": ["us-central1-a", "us-central1-c"]}
    text = " ".join(" ".join(told(before, after)).split())
    assert "pool h100-partition-3g: roll" in text
    assert "nodes beyond that number and in removed zones are deleted" in text
    assert "others stay" not in text


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100"])
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"count": 1}, {"count": 2}, "1 node is added; the other stays"),
        ({"count": 2}, {"count": 4}, "2 nodes are added; the other 2 stay"),
        ({"count": 4}, {"count": 1}, "3 nodes are removed; the other stays"),
        ({"count": 2}, {"min": 2, "max": 2}, "the nodes that are there stay"),
        ({"count": 2}, {"min": 0, "max": 4}, "the nodes that are there stay"),
        ({"min": 0, "max": 4}, {"min": 1, "max": 4}, "where there are fewer than 1, nodes are"),
        ({"min": 1, "max": 4}, {"count": 1}, "where there are more than 1, nodes are removed"),
    ],
)
def test_a_changed_number_of_nodes_is_shown_in_numbers(
    stack: str, before: dict[str, int], after: dict[str, int], said: str
) -> None:
    old, new = written(stack), written(stack)
    old["node_pools"][0]["nodes"], new["node_pools"][0]["nodes"] = before, after
    lines = told(old, new)
    assert any(line.startswith("pool ") and line.endswith("in place") for line in lines), lines
    assert said in " ".join(" ".join(lines).split())


def test_gkes_autoscaler_ends_no_node_for_a_lower_limit() -> None:
    for number in ({"count": 4}, {"min": 0, "max": 4}):
        old, new = written("gke-h100"), written("gke-h100")
        old["node_pools"][0]["nodes"] = number
        new["node_pools"][0]["nodes"] = {"min": 0, "max": 2}
        said = " ".join(" ".join(told(old, new)).split())
        assert "GKE's autoscaler takes nodes beyond 2 away when it can spare them" in said
        assert "removed" not in said


def test_the_order_of_the_pools_moves_nothing() -> None:
    """A regional cluster's system pool has a zone of its own."""
    before = written("gke-h100")
    (pool,) = before["node_pools"]
    before["node_pools"] = [pool, {**pool, "name": "b", "zones": ["us-central1-a"]}]
    after = {**before, "node_pools": before["node_pools"][::-1]}
    assert [line for line in told(before, after) if "unchanged" not in line] == []
    found = plan.compare(planned(before), planned(after))
    assert found.fleet == ()

"""Any two stack files can be compared, whatever kinds of cluster and of system pool they have."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ChangeEffect
from slicewright.preview import fleets
from slicewright.show import plan_json, plan_text
from tests.infra.stack_files import stack_files
from tests.properties import examples
from tests.repository_stacks import DIRECTORY, NAMES


def written(stack: str) -> dict[str, Any]:
    text = (DIRECTORY / f"Pulumi.{stack}.yaml").read_text()
    raw: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    return raw


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def in_existing_cluster(stack: str, **fleet: Any) -> dict[str, Any]:
    """The same pools in a cluster that the stack does not create."""
    raw = written(stack)
    kept = ("name", "location", "region", "zones")
    raw["cluster"] = {key: raw["cluster"][key] for key in kept if key in raw["cluster"]}
    raw["cluster"]["existing"] = True
    raw.pop("system_pool", None)
    return raw | fleet


def changed(stack: str, **cluster: Any) -> dict[str, Any]:
    raw = written(stack)
    return raw | {"cluster": raw["cluster"] | cluster}


GKE_WITHOUT_SYSTEM_POOL = planned(in_existing_cluster("gke-h100"))
KINDS: dict[str, plan.FleetPlan] = {
    **{name: planned(written(name)) for name in NAMES if name != "fractional"},
    "GKE, existing, no system pool": GKE_WITHOUT_SYSTEM_POOL,
    "GKE, existing, a system pool": planned(
        in_existing_cluster("gke-h100", system_pool={"nodes": {"count": 2}})
    ),
    "GKE, existing, a scaled system pool": planned(
        in_existing_cluster("gke-h100", system_pool={"nodes": {"min": 1, "max": 2}})
    ),
    "EKS, cluster-autoscaler": planned(
        changed("eks-a100", version="1.35", autoscaler="cluster-autoscaler")
    ),
    "EKS, Karpenter": planned(changed("eks-a100", version="1.35", autoscaler="karpenter")),
    "hosts and a cluster": planned(
        written("existing-a100-t4") | {"hosts": written("hosts-a100")["hosts"]}
    ),
}


def show(before: plan.FleetPlan, after: plan.FleetPlan) -> str:
    """What `plan --diff` and `preview-report --before` print of a change."""
    change = plan.compare(before, after)
    console = Console(file=io.StringIO(), width=140)
    plan_text.show_changes(change, console)
    json.dumps(plan_json.change_json(change))
    compared = fleets.Fleets(after=after, before=before)
    fleets.cost(compared)
    return fleets.pools(compared)


@pytest.mark.parametrize("after", KINDS)
@pytest.mark.parametrize("before", KINDS)
def test_every_pair_of_kinds_can_be_compared_and_shown(before: str, after: str) -> None:
    report = show(KINDS[before], KINDS[after])
    # A report is about pools, and lists no hosts.
    same_pools = before == after or {before, after} == {"existing-a100-t4", "hosts and a cluster"}
    assert bool(report) != same_pools


@given(st.data())
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_any_two_stack_files_can_be_compared_and_shown(data: st.DataObject) -> None:
    clouds = st.sampled_from(("gke", "eks"))
    before, after = (planned(data.draw(stack_files(data.draw(clouds)))) for _ in range(2))
    show(before, after)
    show(before, KINDS[data.draw(st.sampled_from(sorted(KINDS)))])


def test_a_deleted_system_pool_is_reported_once_with_its_nodes() -> None:
    existing = KINDS["GKE, existing, a system pool"]
    (deleted,) = plan.compare(existing, GKE_WITHOUT_SYSTEM_POOL).fleet
    assert (deleted.rule.field, deleted.effect) == ("system", ChangeEffect.REPLACE)
    assert "its nodes are deleted" in show(existing, GKE_WITHOUT_SYSTEM_POOL)


def test_a_new_system_pool_is_reported_once_and_ends_no_node() -> None:
    existing = KINDS["GKE, existing, a system pool"]
    (created,) = plan.compare(GKE_WITHOUT_SYSTEM_POOL, existing).fleet
    assert (created.rule.field, created.effect) == ("system", ChangeEffect.IN_PLACE)


def test_a_created_cluster_that_becomes_an_existing_one_is_named() -> None:
    fields = [
        change.rule.field
        for change in plan.compare(KINDS["gke-h100"], GKE_WITHOUT_SYSTEM_POOL).fleet
    ]
    assert "cluster.existing" in fields
    assert "system" in fields

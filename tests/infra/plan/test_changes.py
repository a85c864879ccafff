"""Changes between two stack files: in place, roll, or replace; every field of a plan has a rule."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ChangeEffect
from slicewright.infra.plan.changes.rules import RuleTable, rules_of
from slicewright.infra.plan.model.offers import Offer
from slicewright.infra.plan.model.pools import PlannedPool

TEMPLATE = {
    "templated",
    "template.interfaces",
} | {f"template.{name}" for name in ("disk_gb", "encrypted", "hop_limit", "tags")}
"""What a launch template without any more than the usual brings."""
ROOT = Path(__file__).resolve().parents[3]


def written(stack: str) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())[
        "config"
    ]["slicewright:fleet"]
    return raw


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def changed(stack: str, **pool: Any) -> plan.PartChange:
    after = written(stack)
    after["node_pools"][0] |= pool
    (one,) = plan.compare(planned(written(stack)), planned(after)).pools
    return one


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (("c", {"count": 2}), ("ac", {"count": 4}), ChangeEffect.IN_PLACE),
        (("c", {"count": 2}), ("ac", {"count": 2}), ChangeEffect.ROLL),
        (("ac", {"count": 2}), ("c", {"count": 2}), ChangeEffect.ROLL),
        (("ac", {"count": 2}), ("abc", {"count": 3}), ChangeEffect.IN_PLACE),
        (("c", {"min": 1, "max": 2}), ("ac", {"min": 1, "max": 2}), ChangeEffect.IN_PLACE),
        (("ac", {"min": 1, "max": 2}), ("c", {"min": 1, "max": 2}), ChangeEffect.ROLL),
        (("c", {"count": 1}), ("a", {"count": 1}), ChangeEffect.REPLACE),
    ],
)
@pytest.mark.parametrize("pool", ["node_pools", "system_pool"])
def test_zones_of_gke_change_in_place_only_if_no_node_ends(
    pool: str,
    before: tuple[str, dict[str, int]],
    after: tuple[str, dict[str, int]],
    effect: ChangeEffect,
) -> None:
    def fleet(zones: str, nodes: dict[str, int]) -> plan.FleetPlan:
        raw = written("gke-h100")
        own = {"zones": [f"us-central1-{zone}" for zone in zones], "nodes": nodes}
        if pool == "node_pools":
            raw["node_pools"][0] |= own | {"machine_type": "a2-highgpu-1g", "partition": "none"}
            raw["node_pools"][0].pop("local_ssd", None)
        else:
            raw["system_pool"] = {"machine_type": "e2-standard-4", **own}
        return planned(raw)

    found = plan.compare(fleet(*before), fleet(*after))
    effects = [change.effect for change in found.fleet] + [one.effect for one in found.pools]
    assert max(effects) is effect


@pytest.mark.parametrize(
    ("stack", "pool", "effect", "fields"),
    [
        ("gke-h100", {}, ChangeEffect.NONE, set()),
        ("gke-h100", {"labels": {"role": "x"}}, ChangeEffect.IN_PLACE, {"labels"}),
        ("gke-h100", {"taints": []}, ChangeEffect.IN_PLACE, {"taints"}),
        ("gke-h100", {"nodes": {"count": 2}}, ChangeEffect.IN_PLACE, {"nodes"}),
        ("gke-h100", {"zones": ["us-central1-a"]}, ChangeEffect.REPLACE, {"zones"}),
        (
            "gke-h100",
            {"zones": ["us-central1-a", "us-central1-c"], "nodes": {"count": 2}},
            ChangeEffect.IN_PLACE,
            {"zones", "nodes"},
        ),
        ("gke-h100", {"disk": {"type": "pd-ssd", "size_gb": 1000}}, ChangeEffect.ROLL, {"disk"}),
        ("gke-h100", {"features": {"gcfs": True}}, ChangeEffect.ROLL, {"features"}),
        ("gke-h100", {"driver": "DEFAULT"}, ChangeEffect.REPLACE, {"driver"}),
        ("gke-h100", {"capacity": "on-demand"}, ChangeEffect.REPLACE, {"capacity"}),
        ("gke-h100", {"local_ssd": {"raw": 16}}, ChangeEffect.REPLACE, {"local_ssd"}),
        ("gke-h100", {"max_pods_per_node": 110}, ChangeEffect.REPLACE, {"max_pods_per_node"}),
        (
            "gke-h100",
            {"partition": {"mode": "native", "profile": "7g.80gb"}},
            ChangeEffect.REPLACE,
            {"partition_size", "resources"},
        ),
        (
            "gke-h100",
            {"sharing": {"mode": "time-slicing", "replicas": 2}},
            ChangeEffect.REPLACE,
            {"sharing_strategy", "shared_clients", "resources"},
        ),
        ("gke-h100", {"rollout": {"canary": 0}}, ChangeEffect.IN_PLACE, {"rollout"}),
        (
            "eks-a100",
            {"partition": {"mode": "operator", "config": "all-balanced"}},
            ChangeEffect.ROLL,
            {"mig_config", "resources"},
        ),
        ("eks-a100", {"partition": "none"}, ChangeEffect.ROLL, {"mig_config", "resources"}),
        (
            "eks-a100",
            {"partition": {"mode": "operator", "layout": {"1g.5gb": 7}}},
            ChangeEffect.NONE,
            set(),
        ),
        ("eks-a100", {"disk": {"size_gb": 300}}, ChangeEffect.REPLACE, {"disk_size_gb"}),
        ("eks-a100", {"capacity": "spot"}, ChangeEffect.REPLACE, {"capacity_type"}),
        ("eks-a100", {"instance_metadata": {}}, ChangeEffect.REPLACE, {"disk_size_gb", *TEMPLATE}),
        ("eks-a100", {"zones": ["eu-west-1b"]}, ChangeEffect.REPLACE, {"zones"}),
        (
            "eks-a100",
            {"release_version": "1.34.0-20260714"},
            ChangeEffect.ROLL,
            {"release_version"},
        ),
        ("eks-a100", {"tags": {"a": "b"}}, ChangeEffect.IN_PLACE, {"tags"}),
        ("eks-a100", {"nodes": {"count": 2}}, ChangeEffect.IN_PLACE, {"nodes"}),
        (
            "eks-a100",
            {"sharing": {"mode": "time-slicing", "replicas": 2}},
            ChangeEffect.IN_PLACE,
            {"sharing", "resources", "labels"},
        ),
        ("existing-a100-t4", {"select": {"a": "b"}}, ChangeEffect.IN_PLACE, {"select"}),
    ],
)
def test_the_effect_of_a_change(
    stack: str, pool: dict[str, Any], effect: ChangeEffect, fields: set[str]
) -> None:
    after = written(stack)
    after["node_pools"][0] |= pool
    one = plan.compare(planned(written(stack)), planned(after)).pools[0]
    assert {c.rule.field for c in one.changes} == fields
    assert one.effect is effect


def test_a_machine_type_with_other_gpus_replaces_the_pool_instead_of_rolling_it() -> None:
    one = changed(
        "gke-h100",
        machine_type="a2-ultragpu-8g",
        local_ssd={"ephemeral": 8},
        features={"gvnic": True},
    )
    assert one.effect is ChangeEffect.REPLACE
    assert {"accelerator", "machine.name"} <= {c.rule.field for c in one.changes}


def test_a_renamed_pool_is_one_gone_and_one_new() -> None:
    after = written("gke-h100")
    after["node_pools"][0]["name"] = "other"
    found = plan.compare(planned(written("gke-h100")), planned(after))
    assert [(p.name, p.kind) for p in found.pools] == [
        ("h100-partition-3g", "gone"),
        ("other", "new"),
    ]


@pytest.mark.parametrize(
    ("stack", "part", "going", "coming"),
    [
        ("gke-h100", "pools", ChangeEffect.REPLACE, ChangeEffect.IN_PLACE),
        ("eks-a100", "pools", ChangeEffect.REPLACE, ChangeEffect.IN_PLACE),
        # Nodes and hosts that slicewright did not make stay; on them GPUs may be in use that are
        # cut.
        ("hosts-a100", "hosts", ChangeEffect.IN_PLACE, ChangeEffect.ROLL),
        ("fractional", "pools", ChangeEffect.IN_PLACE, ChangeEffect.IN_PLACE),
        ("existing-a100-t4", "pools", ChangeEffect.IN_PLACE, ChangeEffect.ROLL),
    ],
)
def test_new_and_gone_parts_are_never_unchanged(
    stack: str, part: str, going: ChangeEffect, coming: ChangeEffect
) -> None:
    after = written(stack)
    after["hosts" if part == "hosts" else "node_pools"][0]["name"] = "other"
    found = plan.compare(planned(written(stack)), planned(after))
    told = {p.kind: p.effect for p in (*found.pools, *found.hosts) if p.kind in ("gone", "new")}
    assert told == {"gone": going, "new": coming}


@pytest.mark.parametrize(
    ("stack", "key", "effects"),
    [
        ("gke-h100", "name", [ChangeEffect.REPLACE]),
        ("eks-a100", "name", [ChangeEffect.REPLACE]),
        ("fractional", "context", [ChangeEffect.IN_PLACE]),
        ("existing-a100-t4", "context", [ChangeEffect.ROLL, ChangeEffect.IN_PLACE]),
    ],
)
def test_an_equal_pool_in_another_cluster_is_another_pool(
    stack: str, key: str, effects: list[ChangeEffect]
) -> None:
    after = written(stack)
    after["cluster"][key] = "other"
    found = plan.compare(planned(written(stack)), planned(after))
    assert [(p.kind, p.effect) for p in found.pools] == [("same", effect) for effect in effects]


@pytest.mark.parametrize(
    ("key", "value", "effect"),
    [
        ("name", "other", ChangeEffect.REPLACE),
        ("location", "us-central1-c", ChangeEffect.REPLACE),
        ("version", "1.36", ChangeEffect.IN_PLACE),
    ],
)
def test_changes_of_the_cluster(key: str, value: str, effect: ChangeEffect) -> None:
    after = written("gke-h100")
    after["cluster"][key] = value
    found = plan.compare(planned(written("gke-h100")), planned(after))
    assert max(c.effect for c in found.fleet) is effect
    assert found.everything is (effect is ChangeEffect.REPLACE)


def test_attribution_restarts_the_agents_and_changes_no_pool() -> None:
    after = written("eks-a100") | {"node_agent": {"attribution": True}}
    found = plan.compare(planned(written("eks-a100")), planned(after))
    assert [(c.rule.field, c.rule.effect) for c in found.fleet] == [
        ("node_agent", ChangeEffect.IN_PLACE)
    ]
    assert [p.kind for p in found.pools] == ["same"]


def test_a_change_of_cloud_replaces_the_fleet() -> None:
    assert plan.compare(planned(written("gke-h100")), planned(written("eks-a100"))).everything


# What follows from other fields, or is not a pool's own.
_FOLLOWS = {
    "name",  # pools are known by it
    "machine",  # rule machine.name
    "gpu",  # follows from the machine
    "layouts",  # GKE: partition_size; else mig_config, which has its hash
    "devices",  # before sharing
    "expected",
    "offer",  # its own fields
    "settings",  # its own fields
}


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        (plan.GkeSettings, rules_of("gke_pool")),
        (plan.EksSettings, rules_of("eks_pool")),
        (plan.EksSettings, rules_of("karpenter_pool")),
        (plan.ExistingSettings, rules_of("existing_pool")),
    ],
)
def test_every_field_of_a_pool_has_a_rule(kind: type, rules: tuple[plan.Rule, ...]) -> None:
    ruled = {rule.field.split(".")[0] for rule in (*rules, *rules_of("every_pool"))}
    fields = {f.name for part in (PlannedPool, Offer, kind) for f in dataclasses.fields(part)}
    unruled = fields - ruled - _FOLLOWS
    if rules is rules_of("karpenter_pool"):
        # Those of a node group only: refused, in the template and in the image, or a budget's.
        unruled -= {"ami_type", "disk_size_gb", "release_version", "repair", "tags", "update"}
    if kind is plan.EksSettings:
        # The machine's, and as capacity_type and in the launch template.
        unruled -= {"gpu_count", "capacity"}
    assert unruled == set()


def test_every_field_of_a_launch_template_has_a_rule() -> None:
    ruled = {rule.field for rule in rules_of("eks_pool")}
    fields = {f"template.{f.name}" for f in dataclasses.fields(plan.EksTemplate)}
    # capacity_type says it.
    assert fields - ruled == {"template.block"}


def test_every_rule_names_its_source_and_reason() -> None:
    for rule in (rule for table in get_args(RuleTable) for rule in rules_of(table)):
        assert rule.source
        assert rule.why
        assert "{" not in rule.source + rule.why, "a text without a name"


def test_every_row_of_the_rules_has_a_table_and_known_keys() -> None:
    files = [
        tomllib.loads(path.read_text())
        for path in sorted((Path(plan.__file__).parent / "changes").glob("*.toml"))
    ]
    tables = [name for file in files for name in file if name != "texts"]
    assert sorted(tables) == sorted(get_args(RuleTable))
    known = {f.name for f in dataclasses.fields(plan.Rule)} - {"field", "cloud_field"} | {"fields"}
    for row in (row for file in files for name in tables for row in file.get(name, ())):
        assert row.keys() <= known


@pytest.mark.parametrize(
    ("kind", "at", "rules", "elsewhere"),
    [
        (
            plan.GkeFleetPlan,
            "",
            (*rules_of("gke_cluster"), *rules_of("settings")),
            # The last two follow from `fractional`, the pools and the workloads.
            {"pools", "engine", "placement"},
        ),
        (
            plan.EksFleetPlan,
            "",
            (*rules_of("eks_cluster"), *rules_of("settings")),
            {"pools", "engine", "placement"},
        ),
        (
            plan.ExistingFleetPlan,
            "",
            (*rules_of("existing_cluster"), *rules_of("settings")),
            {"pools", "hosts", "engine", "placement"},
        ),
        # Both follow from the others.
        (plan.GkeClusterPlan, "cluster.", rules_of("gke_cluster"), {"region", "node_account_id"}),
        # Its own rules are those of own_vpc, nat_zones and node_subnets.
        (plan.EksClusterPlan, "cluster.", rules_of("eks_cluster"), {"network"}),
        (plan.ExistingClusterPlan, "cluster.", rules_of("existing_cluster"), set()),
        # Only EKS has launch templates.
        (plan.SystemPoolPlan, "system.", rules_of("gke_cluster"), {"name", "template"}),
        (plan.SystemPoolPlan, "system.", rules_of("eks_cluster"), {"name"}),
        (plan.HostPlan, "", rules_of("host"), {"name"}),
        (stack_file.GpuOperator, "operator.", rules_of("settings"), set()),
    ],
)
def test_every_field_beside_the_pools_has_a_rule(
    kind: Any, at: str, rules: tuple[plan.Rule, ...], elsewhere: set[str]
) -> None:
    fields = (
        set(kind.model_fields)
        if kind is stack_file.GpuOperator
        else {f.name for f in dataclasses.fields(kind)}
    )
    assert (
        fields
        - {rule.field.removeprefix(at).split(".")[0] for rule in rules if rule.field.startswith(at)}
        == elsewhere
    )


def test_a_renamed_host_is_one_gone_and_one_new_and_its_gpus_stay() -> None:
    after = written("hosts-a100")
    after["hosts"][0]["name"] = "other"
    found = plan.compare(planned(written("hosts-a100")), planned(after))
    assert [(h.name, h.kind) for h in found.hosts] == [("rnd3", "gone"), ("other", "new")]


def test_only_a_replaced_cluster_replaces_every_pool() -> None:
    after = written("eks-a100")
    after["gpu_operator"]["namespace"] = "other"
    after["system_pool"] = {"machine_type": "m7i.xlarge"}
    found = plan.compare(planned(written("eks-a100")), planned(after))
    assert {c.rule.field for c in found.fleet if c.effect is ChangeEffect.REPLACE} == {
        "operator.namespace",
        "system.machine.name",
    }
    assert not found.everything

"""Different layouts on one node, kinds of capacity, existing clusters, notes and prices."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan.machines import prices

EKS = """\
cloud: eks
cluster: {name: c, region: eu-west-1}
node_pools:
- {name: a, machine_type: p4d.24xlarge, nodes: {count: 1}}
"""
GKE = """\
cloud: gke
cluster: {name: c, location: us-central1-a}
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""


def planned(text: str, **pool: Any) -> plan.FleetPlan:
    raw = yaml.safe_load(text)
    raw["node_pools"][0] |= pool
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(text: str, **pool: Any) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(text, **pool)
    return str(refused.value)


def by_index(*groups: tuple[list[int], dict[str, int]]) -> dict[str, Any]:
    return {
        "mode": "operator",
        "gpus": [{"index": index, "layout": layout} for index, layout in groups],
    }


def test_different_layouts_on_one_node_add_up() -> None:
    (pool,) = planned(
        EKS, partition=by_index(([0, 1, 2, 3, 4, 5, 6], {"1g.5gb": 7}), ([7], {}))
    ).pools
    assert pool.offer.layout is None
    assert pool.offer.resources == {"nvidia.com/mig-1g.5gb": 49, "nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ((([0, 1], {"1g.5gb": 7}),), "no layout for GPU 2, 3, 4, 5, 6, 7"),
        ((([0, 0], {"1g.5gb": 7}),), "GPU 0 is listed twice"),
        ((([0, 8], {"1g.5gb": 7}),), "there is no GPU 8: the node has 8"),
        ((([*range(8)], {}),), "leaves every GPU unpartitioned"),
        ((([*range(8)], {"4g.20gb": 2}),), "8 of 7 compute slices"),
        ((([], {"1g.5gb": 7}), ([*range(8)], {"1g.5gb": 7})), "must not be empty"),
    ],
)
def test_layouts_by_index_that_are_refused(
    groups: tuple[tuple[list[int], dict[str, int]], ...], said: str
) -> None:
    assert said in refusal(EKS, partition=by_index(*groups))


@pytest.mark.parametrize(
    "groups",
    [
        (([0, 1, 2, 3], {"1g.5gb": 7}), ([4, 5, 6, 7], {"3g.20gb": 2})),
        (([0, 1, 2, 3], {"1g.5gb": 7}), ([4, 5, 6, 7], {})),
        (([*range(8)], {"1g.5gb": 2, "2g.10gb": 1}),),
    ],
)
def test_strategy_single_needs_one_profile_on_all_gpus(
    groups: tuple[tuple[list[int], dict[str, int]], ...],
) -> None:
    text = EKS + "gpu_operator: {mig_strategy: single}\n"
    assert "mig_strategy: single the device plugin refuses such a node" in refusal(
        text, partition=by_index(*groups)
    )


@pytest.mark.toolchain
def test_nvidias_parser_accepts_every_planned_layout(check_config: Any) -> None:
    for partition in (
        by_index(([0, 1], {"1g.5gb": 7}), ([2, 3, 4, 5, 6, 7], {})),
        {"mode": "operator", "config": "all-balanced"},
    ):
        check_config(manifests.mig_parted_config(planned(EKS, partition=partition).pools))


# What NVIDIA's own validator takes for possible; no GPU can be cut like that.
@pytest.mark.toolchain
@pytest.mark.parametrize("layout", [{"9g.5gb": 7}, {"4g.20gb": 2}, {"7g.40gb": 3, "1g.5gb": 7}])
def test_layouts_that_nvidias_parser_wrongly_accepts_are_refused(
    check_config: Any, layout: dict[str, int]
) -> None:
    entry = {"devices": "all", "mig-enabled": True, "mig-devices": layout}
    check_config({"version": "v1", "mig-configs": {"x": [entry]}})
    assert "1 problem" in refusal(EKS, partition={"mode": "operator", "layout": layout})


@pytest.mark.parametrize(
    ("text", "pool", "said"),
    [
        (GKE, {"capacity": "flex-start"}, "a flex-start pool cannot have a fixed number of nodes"),
        (GKE, {"capacity": "queued"}, "a queued pool starts at 0 nodes"),
        (
            GKE,
            {"capacity": "queued", "nodes": {"min": 1, "max": 2}},
            "a queued pool starts at 0 nodes",
        ),
        (
            GKE,
            {
                "capacity": "flex-start",
                "nodes": {"min": 0, "max": 2},
                "management": {"auto_repair": True},
            },
            "flex-start nodes cannot be repaired",
        ),
        (GKE, {"capacity": {"mode": "flex-start", "max_run_hours": 169}}, "max_run_hours"),
        (
            GKE,
            {"capacity": {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}},
            "capacity-block is available on EKS only",
        ),
        (EKS, {"capacity": "flex-start"}, "flex-start is available on GKE only"),
        (EKS, {"capacity": "queued"}, "queued is available on GKE only"),
        (EKS, {"capacity": "capacity-block"}, "capacity.reservation (pool a): is missing"),
        (EKS, {"capacity": {"mode": "capacity-block", "reservation": "x"}}, "capacity.reservation"),
        (
            EKS,
            {"capacity": {"mode": "reservation", "reservation": "mine"}},
            "is not an AWS capacity reservation",
        ),
        (
            EKS,
            {
                "capacity": {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"},
                "zones": ["eu-west-1a", "eu-west-1b"],
            },
            "a capacity block is in one zone",
        ),
    ],
)
def test_capacity_has_its_preconditions(text: str, pool: dict[str, Any], said: str) -> None:
    assert said in refusal(text, **pool)


@pytest.mark.parametrize(
    ("text", "pool"),
    [
        (GKE, {"capacity": "flex-start", "nodes": {"min": 0, "max": 2}}),
        (GKE, {"capacity": {"mode": "queued", "max_run_hours": 24}, "nodes": {"min": 0, "max": 2}}),
        (GKE, {"capacity": {"mode": "reservation", "reservation": "mine"}}),
        (EKS, {"capacity": {"mode": "reservation", "reservation": "cr-0123456789abcdef0"}}),
        (EKS, {"capacity": {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}}),
    ],
)
def test_capacity_that_is_planned(text: str, pool: dict[str, Any]) -> None:
    made = planned(text, **pool).pools[0]
    assert isinstance(made.settings, plan.CloudSettings)
    assert made.settings.capacity.mode == (
        pool["capacity"] if isinstance(pool["capacity"], str) else pool["capacity"]["mode"]
    )


def test_flex_start_nodes_are_not_repaired() -> None:
    made = planned(GKE, capacity="flex-start", nodes={"min": 0, "max": 1}).pools[0]
    assert isinstance(made.settings, plan.GkeSettings)
    assert made.settings.management.auto_repair is False


@pytest.mark.parametrize(
    ("rollout", "said"),
    [
        ({"max_failures_in_a_row": 2}, "stops at 1 failed node anyway"),
        ({"max_failures": 2, "max_failures_in_a_row": 3}, "stops at 2 failed nodes anyway"),
        ({"evict": "none", "on_drain_timeout": "force"}, "no pod is evicted"),
    ],
)
def test_rollout_keys_that_exclude_each_other_are_refused(
    rollout: dict[str, Any], said: str
) -> None:
    with pytest.raises(stack_file.SpecError, match=said):
        planned(EKS, rollout=rollout)


def test_a_rollout_policy_is_carried() -> None:
    assert planned(EKS, rollout={"max_unavailable": 3, "canary": 2}).pools[0].rollout.canary == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cloud: byo\nnode_pools: []\n", "node_pools: must not be empty"),
        (
            "cloud: byo\ncluster: {name: c, context: c}\nhosts: [{name: h, gpu: {model: "
            "T4, count: 1}, gpus: []}]\n",
            "is missing, so nothing",
        ),
        (
            "cloud: byo\nhosts: [{name: h, gpu: {model: a100-40, count: 1}, gpus: [{index: 0}]}]\n",
            "did you mean A100-40?",
        ),
        (
            "cloud: byo\nhosts: [{name: h, gpu: {model: A100-40, count: 1}, gpus: [{index: 1}]}]\n",
            "there is no GPU 1",
        ),
        (
            "cloud: byo\nhosts: [{name: h, gpu: {model: T4, count: 1}, gpus: [{index: 0}]}]\n",
            "T4 has no MIG",
        ),
        (
            "cloud: byo\nhosts: [{name: h, gpu: {model: T4, count: 1}, gpus: [{index: 0, "
            "mig: false}], in_use: wait}]\n",
            "in_use.minutes",
        ),
        (
            "cloud: byo\nhosts: [{name: h, gpu: {model: T4, count: 1}, gpus: [{index: 0, "
            "mig: false}], in_use: kill}]\n",
            "not one of refuse",
        ),
        (
            "cloud: byo\nnode_pools: [{name: a, gpu: {model: T4, count: 1}, nodes: {count: 1}}]\n",
            "cluster: is required by node_pools",
        ),
        (
            GKE.replace("location", "existing: true, version: '1.34', location"),
            "cluster.version: the cluster exists already, and slicewright does not change it",
        ),
    ],
)
def test_existing_things_that_are_refused(text: str, said: str) -> None:
    raw = yaml.safe_load(text)
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "pool", "said"),
    [
        (
            EKS,
            {"machine_type": "p5e.48xlarge"},
            "p5e.48xlarge is not offered as on-demand; write capacity-block",
        ),
        (
            EKS,
            {
                "partition": {"mode": "operator", "config": "all-1g.10gb"},
                "machine_type": "p5.48xlarge",
                "sharing": {"mode": "time-slicing", "replicas": 2},
            },
            "a node advertises 112 devices and runs about 10 other pods; p5.48xlarge has "
            "addresses for 100 pods",
        ),
        (
            GKE,
            {"machine_type": "g4-standard-48"},
            "g4-standard-48 cannot boot from pd-balanced; write hyperdisk-balanced",
        ),
    ],
)
def test_settings_that_a_machine_type_lacks_are_refused(
    text: str, pool: dict[str, Any], said: str
) -> None:
    assert said in refusal(text, **pool)


def test_two_profiles_together_may_need_a_newer_driver() -> None:
    """4g with 3g on Ampere: R510. Each alone does with the GPU's own minimum."""
    needs = []
    for layout in ({"3g.20gb": 2}, {"4g.20gb": 1, "3g.20gb": 1}):
        made = planned(EKS, partition={"mode": "operator", "layout": layout}).pools[0]
        needs.append(json.loads(made.offer.desired)["minimum_driver"])
    assert needs == ["450.80.02", "510.39.01"]


def test_doubts_that_are_no_reason_to_refuse_are_notes() -> None:
    fleet = planned(
        GKE,
        machine_type="a2-ultragpu-1g",
        zones=["us-central1-b"],
        capacity="spot",
        sharing={"mode": "time-slicing", "replicas": 2},
        driver="LATEST",
    )
    said = "\n".join(plan.notes(fleet))
    for part in (
        "does not list a2-ultragpu-1g in us-central1-b",
        "one preemption removes all 2",
        "driver LATEST",
        "share its memory too",
    ):
        assert part in said


def test_a_timeout_shorter_than_the_reboot_that_the_pool_needs_is_noted() -> None:
    split = {"mode": "operator", "layout": {"3g.20gb": 2}}
    short = plan.notes(planned(EKS + "verify_timeout_minutes: 1\n", partition=split))
    assert any("verify_timeout_minutes is 1, so that" in note for note in short)
    long = plan.notes(planned(EKS + "verify_timeout_minutes: 60\n", partition=split))
    assert not any("verify_timeout_minutes" in note for note in long)
    assert any("verified 25 to 60 minutes after it was ordered" in note for note in long)


def test_rollout_settings_without_effect_are_noted() -> None:
    def idle(text: str, **pool: Any) -> list[str]:
        rollout = {"max_unavailable": 2, "canary": 2, "max_unverified": 1}
        noted = plan.notes(planned(text, rollout=rollout, **pool))
        return [note for note in noted if "no effect" in note]

    (said,) = idle(GKE, partition={"mode": "native", "profile": "1g.5gb"})
    assert "rollout.canary, rollout.max_unavailable have no effect" in said
    (said,) = idle(EKS, machine_type="g5.xlarge")
    assert "rollout.canary has no effect" in said, "EKS's own updates obey the other"
    assert idle(EKS) == [], "mig-manager turns MIG off, for example"
    assert not any("no effect" in note for note in plan.notes(planned(GKE)))


def test_a_chart_that_the_catalog_does_not_know_is_noted() -> None:
    unknown = plan.notes(planned(EKS + "gpu_operator: {chart_version: v99.0.0}\n"))
    assert any("does not know chart v99.0.0" in note for note in unknown)
    assert not any("does not know chart" in note for note in plan.notes(planned(EKS)))


def test_a_note_says_if_it_is_unknown_whether_mps_starts() -> None:
    """Where all pools share alike, NVIDIA's MPS daemon has their config by default."""
    newer = "gpu_operator: {mig_strategy: single, device_plugin: {version: v0.20.2}}\n"
    mps = {"mode": "mps", "replicas": 4}
    alone = planned(EKS + newer, machine_type="g5.xlarge", sharing=mps)
    assert not any("MPS daemon does not get" in note for note in plan.notes(alone))
    whole = "- {name: b, machine_type: g5.xlarge, nodes: {count: 1}}\n"
    mixed = planned(EKS + whole + newer, machine_type="g5.xlarge", sharing=mps)
    assert any(
        note.startswith("pool a:") and "MPS daemon does not get" in note
        for note in plan.notes(mixed)
    )
    on_gke = planned(GKE, sharing=mps)
    assert not any("MPS daemon does not get" in note for note in plan.notes(on_gke))


def test_prices_are_of_the_fleets_own_region_or_unknown() -> None:
    (here,) = planned(GKE).pools
    assert isinstance(here.settings, plan.CloudSettings)
    quote = prices.pool_quote(here.settings, here.gpu_count, planned(GKE))
    assert quote.price is not None
    assert (quote.price.region, quote.price.capacity, quote.price.usd_per_hour) == (
        "us-central1",
        "on-demand",
        3.67339,
    )
    elsewhere = planned(EKS.replace("eu-west-1", "eu-central-1"), machine_type="g7e.2xlarge")
    (there,) = elsewhere.pools
    assert isinstance(there.settings, plan.CloudSettings)
    quote = prices.pool_quote(there.settings, there.gpu_count, elsewhere)
    assert quote.price is None
    assert quote.elsewhere is not None
    assert quote.elsewhere.region == "us-east-1"
    missing = "no known list price for {} on-demand in eu-central-1"
    assert quote.missing == missing.format("g7e.2xlarge")
    cost = prices.fleet_cost(elsewhere)
    assert (cost.priced, cost.most) == ((), 0.0)
    assert cost.missing == (
        ("a", missing.format("g7e.2xlarge")),
        ("system", missing.format("m7i.large")),
    )


def test_a_total_is_the_priced_pools_at_their_fewest_and_their_most_nodes() -> None:
    raw = yaml.safe_load(GKE)
    raw["node_pools"] = [
        {
            "name": "a",
            "machine_type": "a2-highgpu-1g",
            "nodes": {"min": 1, "max": 3},
            "zones": ["us-central1-a"],
        },
        {"name": "b", "machine_type": "a4-highgpu-8g", "nodes": {"count": 2}},
    ]
    raw["node_pools"][1] |= {"zones": ["us-central1-b"], "disk": {"type": "hyperdisk-balanced"}}
    cost = prices.fleet_cost(plan.read(json.dumps(raw), stack_file.Source("test", raw)))
    system = 0.134012
    assert (round(cost.fewest, 4), round(cost.most, 4)) == (
        round(3.67339 + system, 4),
        round(3 * 3.67339 + system, 4),
    )
    assert cost.priced == ("a", "system")
    assert [name for name, _ in cost.missing] == ["b"]


def test_capacity_without_a_list_price_has_none() -> None:
    fleet = planned(GKE, capacity="flex-start", nodes={"min": 0, "max": 2})
    (pool,) = fleet.pools
    assert isinstance(pool.settings, plan.CloudSettings)
    assert prices.pool_quote(pool.settings, pool.gpu_count, fleet) == prices.Quote(
        price=None, missing="there is no list price for flex-start"
    )

"""One run reports everything that is wrong and nothing else; what it proposes is not refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import plan, stack_file
from slicewright.infra.plan.model.nodes import GKE_LABELS
from slicewright.infra.stack_file import json_schema as schema
from slicewright.infra.stack_file.reading.annotations import example
from tests.properties import examples

A100 = "{name: a, gpu: {model: A100-40, count: 2}, nodes: {count: 1}"
BYO = f"cloud: byo\ncluster: {{name: c, context: c}}\nnode_pools:\n- {A100}}}\n"
EKS = (
    "cloud: eks\ncluster: {name: c, region: us-west-2}\nnode_pools:\n- {name: a, machine_type: "
    "g6.xlarge, nodes: {count: 1}}\n"
)
GKE = """\
cloud: gke
cluster: {name: c, location: us-central1-a}
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
POOL = ("node_pools", 0)
INDEX = (*POOL, "partition", "gpus", 0, "index")


def problems(text: str, **pool: Any) -> dict[stack_file.Path, str]:
    """Place -> what is wrong there and what to write."""
    raw = yaml.safe_load(text)
    if pool:
        raw["node_pools"][0] |= pool
    try:
        plan.read(json.dumps(raw), stack_file.Source("x", raw))
    except stack_file.SpecError as e:
        return {p.path: f"{p.reason}; {p.instead}" for p in e.problems}
    return {}


def host(gpus: str, model: str = "A100-40") -> dict[stack_file.Path, str]:
    found = problems(
        f"cloud: byo\nhosts: [{{name: h, gpu: {{model: {model}, count: 4}}, gpus: {gpus}}}]\n"
    )
    return {path[2:]: said for path, said in found.items()}


def operator(**said: Any) -> dict[str, Any]:
    return {"mode": "operator", **said}


@pytest.mark.parametrize("index", [[-1, 0, 1], ["x", 0, 1], [0, 1, -1], [-1, 0], [-1, -2, 1]])
def test_nothing_is_concluded_from_an_invalid_gpu_index_of_a_pool(index: list[Any]) -> None:
    wrong = {(*INDEX, i) for i, said in enumerate(index) if said not in (0, 1)}
    found = problems(BYO, partition=operator(gpus=[{"index": index, "layout": {"1g.5gb": 7}}]))
    assert set(found) == wrong


def test_nothing_is_concluded_from_an_invalid_gpu_index_of_a_host() -> None:
    assert set(host("[{index: -1}, {index: 0}]")) == {("gpus", 0, "index")}
    assert set(host("[{index: 0}, {index: 0}]")) == {("gpus", 1, "index")}


def test_nothing_is_concluded_from_an_invalid_name() -> None:
    pool, work, machine = (
        example(stack_file.ByoPool)["name"],
        example(stack_file.Workload)["name"],
        example(stack_file.Host)["name"],
    )
    share = "gpu_share: {memory: 1Gi, compute_percent: 10}"
    text = f"""\
cloud: byo
cluster: {{name: c, context: c}}
fractional: {{provider: hami}}
node_pools:
- {{name: A, gpu: {{model: T4, count: 1}}, nodes: {{count: 1}}, sharing: fractional}}
- {{name: {pool}, gpu: {{model: T4, count: 1}}, nodes: {{count: 1}}, sharing: fractional}}
workloads: [{{name: A, {share}}}, {{name: {work}, {share}}}]
hosts:
- {{name: -, gpu: {{model: T4, count: 1}}, gpus: [{{index: 0, mig: false}}]}}
- {{name: {machine}, gpu: {{model: T4, count: 1}}, gpus: [{{index: 0, mig: false}}]}}
"""
    assert set(problems(text)) == {
        (part, 0, "name") for part in ("node_pools", "workloads", "hosts")
    }


@pytest.mark.parametrize(
    ("said", "keys"),
    [
        ({"layout": {"3g.20gb": 2, "1g.5gb": 1}, "config": "all-balanced"}, {"layout"}),
        ({"layout": {"3g.20gb": 2, "1g.5gb": 1}, "config": "all-balance"}, {"layout", "config"}),
        (
            {"config": "all-balance", "gpus": [{"index": [0, 1], "layout": {"4g.20gb": 2}}]},
            {"config", "gpus"},
        ),
        ({"layout": {"1g.5gb": 7}, "config": "all-balanced"}, set()),
    ],
)
def test_a_layout_stated_in_two_ways_is_checked_in_both(
    said: dict[str, Any], keys: set[str]
) -> None:
    found = problems(BYO, partition=operator(**said))
    at = (*POOL, "partition")
    assert "only one of them can apply" in found.pop(at)
    assert {path[len(at)] for path in found} == keys


def test_partitions_that_are_never_advertised_are_checked_all_the_same() -> None:
    found = problems(
        BYO + "gpu_operator: {mig_strategy: none}\n", partition=operator(layout={"4g.20gb": 2})
    )
    assert set(found) == {(*POOL, "partition"), (*POOL, "partition", "layout")}


def test_starts_are_checked_even_with_too_many_instances() -> None:
    four = "{profile: 4g.20gb, start: %s}"
    found = host(
        f"[{{index: 0, instances: [{four % 1}, {{profile: 4g.20gb}}, {four % 0}, "
        f"{{profile: 9g.5gb, start: 0}}]}}]"
    )
    at = ("gpus", 0, "instances")
    assert set(found) == {at, (*at, 0, "start"), (*at, 1)}
    assert "cannot start at slot 1; write one of 0" in found[*at, 0, "start"]
    # Whether two of too many overlap depends on which of them goes.
    assert set(host(f"[{{index: 0, instances: [{four % 0}, {four % 0}]}}]")) == {at}


def test_errors_on_every_gpu_are_reported_with_an_unknown_model() -> None:
    assert set(host("[]", "A100-41")) == {("gpu", "model"), ("gpus",)}
    instances = "instances: [{profile: 3g.20gb, start: 0}, {profile: 3g.20gb}]"
    found = host(f"[{{index: 9}}, {{index: 0, mig: false, {instances}}}, {{index: 0}}]", "A100-41")
    at = "gpus"
    assert set(found) == {
        ("gpu", "model"),
        (at, 0, "index"),
        (at, 1, "mig"),
        (at, 1, "instances", 1),
        (at, 2, "index"),
    }


@pytest.mark.parametrize("mig", ["true", "false"])
def test_instances_on_a_gpu_without_mig_are_refused_with_a_remedy(mig: str) -> None:
    (said,) = host(f"[{{index: 0, mig: {mig}, instances: [{{profile: 1g.5gb}}]}}]", "T4").values()
    wanted = (
        "write mig: false and leave the instances out"
        if mig == "true"
        else "leave the instances out"
    )
    assert said == f"T4 has no MIG: it cannot be partitioned; {wanted}"


def test_a_wrong_key_and_its_wrong_value_are_both_reported() -> None:
    raw = yaml.safe_load(GKE)
    raw["node_pools"][0]["resource_labels"] = {"Team": "A B"}
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("x", raw))
    reasons = [p.reason.partition(" is not ")[0] for p in refused.value.problems]
    assert reasons == ['"Team"', '"A B"']


def test_instances_written_in_another_order_are_the_same_plan() -> None:
    def planned(*starts: int) -> plan.FleetPlan:
        instances = [{"profile": "3g.20gb", "start": start} for start in starts]
        gpus = [{"index": 2, "instances": instances}]
        raw = {
            "cloud": "byo",
            "hosts": [{"name": "h", "gpu": {"model": "A100-40", "count": 6}, "gpus": gpus}],
        }
        return plan.read(json.dumps(raw), stack_file.Source("x", raw))

    assert planned(0, 4) == planned(4, 0)


FRACTIONS = """\
cloud: byo
cluster: {name: c, context: c}
fractional: {provider: hami}
node_pools: [{name: a, gpu: {model: T4, count: 8}, nodes: {count: 1}, sharing: fractional}]
"""


@given(st.integers(1, 40_000), st.integers(1, 1000), st.integers(1, 8))
@settings(max_examples=examples(200), deadline=None)
def test_the_proposed_fraction_is_not_refused(mib: int, percent: int, cards: int) -> None:
    share = {"memory": f"{mib}Mi", "compute_percent": percent, "cards": cards}

    def refused(share: dict[str, Any]) -> dict[str, str]:
        found = problems(f"{FRACTIONS}workloads: [{{name: w, gpu_share: {json.dumps(share)}}}]\n")
        return {str(path[-1]): said.partition("; write ")[2] for path, said in found.items()}

    for key, proposed in refused(share).items():
        number = int(re.findall(r"\d+", proposed)[-1])
        assert key not in refused({**share, key: f"{number}Mi" if key == "memory" else number}), (
            share,
            key,
            proposed,
        )
        if more := re.match(r"cards: (\d+)", proposed):
            left = refused({**share, "cards": int(more[1])})
            assert not left.keys() - {"memory"}, (share, proposed, left)


@pytest.mark.parametrize(
    ("text", "pool", "place", "said"),
    [
        (EKS, {"tags": {"aws:x": "y"}}, ("tags", "aws:x"), "reserved prefix aws:"),
        (EKS, {"tags": {"AWS:x": "y"}}, ("tags", "AWS:x"), "reserved prefix aws:"),
        (EKS, {"tags": {"k" * 129: "y"}}, ("tags", "k" * 129), "1 to 128 characters"),
        (EKS, {"tags": {"k": "v" * 257}}, ("tags", "k"), "at most 256"),
        (
            GKE,
            {"resource_labels": {"team": "A B"}},
            ("resource_labels", "team"),
            "lowercase letters",
        ),
        (GKE, {"resource_labels": {"1": "a"}}, ("resource_labels", "1"), "starting with a letter"),
        (GKE, {"resource_labels": {"team": "a" * 64}}, ("resource_labels", "team"), "at most 63"),
        (EKS, {"zones": []}, ("zones",), "must not be empty: nodes run in at least one zone"),
        (GKE, {"zones": []}, ("zones",), "must not be empty: nodes run in at least one zone"),
        (
            BYO,
            {"labels": {"nvidia.com/mig.config.state": "success"}},
            ("labels", "nvidia.com/mig.config.state"),
            "mig-manager",
        ),
        *(
            (
                EKS,
                {
                    "labels": {key: "false"},
                    "machine_type": "p4d.24xlarge",
                    "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
                },
                ("labels", key),
                "the GPU Operator sets it",
            )
            for key in (
                "nvidia.com/gpu.deploy.mig-manager",
                "nvidia.com/gpu.deploy.device-plugin",
                "nvidia.com/mig.capable",
                "nvidia.com/gpu.present",
            )
        ),
        *(
            (text, {"labels": {key: "x"}}, ("labels", key), "GKE sets it")
            for text in (EKS, GKE, BYO)
            for key in sorted(GKE_LABELS)
        ),
    ],
)
def test_settings_that_a_cloud_or_operator_refuses_or_overwrites_are_refused(
    text: str, pool: dict[str, Any], place: stack_file.Path, said: str
) -> None:
    found = problems(text, **pool)
    assert set(found) == {(*POOL, *place)}
    assert said in found[*POOL, *place]


def test_settings_that_the_clouds_allow_are_accepted() -> None:
    assert not problems(EKS, tags={"k" * 128: "v" * 256, "Team": "A B", "awsome": ""})
    assert not problems(
        EKS, labels={"nvidia.com/gpu.deploy.dcgm-exporter": "false"}, partition="none"
    )
    assert not problems(
        GKE,
        resource_labels={"team": "", "équipe": "größe_1-a"},
        labels={"cloud.example.com/mine": "x"},
    )


def test_two_workloads_of_one_name_are_refused() -> None:
    share = "gpu_share: {memory: 1Gi, compute_percent: 10}"
    found = problems(
        f"{FRACTIONS}workloads: [{{name: w, {share}}}, {{name: v, {share}}}, {{name: w, "
        f"{share}}}]\n"
    )
    assert set(found) == {("workloads", 0, "name"), ("workloads", 2, "name")}


@pytest.mark.parametrize(
    ("selects", "refused"),
    [
        (({"x": "1"}, {"x": "1"}), {1}),
        (({"x": "1"}, {"x": "1", "y": "2"}), {1}),
        (({"x": "1", "y": "2"}, {"y": "2"}), {0}),
        (({}, {"slicewright.io/pool": "p0"}), {1}),
        (({"x": "1"}, {"x": "2"}), set()),
        (({"x": "1"}, {"y": "1"}), set()),
        (({}, {}), set()),
    ],
)
def test_a_node_belongs_to_one_pool(selects: tuple[dict[str, str], ...], refused: set[int]) -> None:
    raw = yaml.safe_load(BYO)
    (pool,) = raw["node_pools"]
    raw["node_pools"] = [
        {**pool, "name": f"p{i}"} | ({"select": select} if select else {})
        for i, select in enumerate(selects)
    ]
    found = {path[:3] for path in problems(json.dumps(raw))}
    assert found == {("node_pools", i, "select") for i in refused}


@pytest.mark.parametrize("text", [EKS, GKE])
def test_digits_of_other_scripts_are_refused(text: str) -> None:
    found = problems(text.replace("name: c,", 'name: c, version: "١.٣٤",'))
    assert set(found) == {("cluster", "version")}
    # \d and \w are of any script here, and of ASCII in an editor.
    assert r"\\d" not in schema.text()
    assert r"\\w" not in schema.text()


VKE = FRACTIONS.replace("hami", "vke")
CARDS = "workloads: [{name: w, gpu_share: {memory: 2Gi, compute_percent: 20, cards: %s}}]\n"


@pytest.mark.parametrize(("cards", "policy"), [(1, "fixed-share"), (2, "native-burst-share")])
def test_vke_nodes_and_pods_share_a_policy_that_allows_the_requested_cards(
    cards: int, policy: str
) -> None:
    raw = yaml.safe_load(VKE + CARDS % cards)
    fleet = plan.read(json.dumps(raw), stack_file.Source("x", raw))
    (pool,), (share,) = fleet.pools, fleet.workloads
    assert pool.labels["vke.node.gpu.schedule"] == "mgpu"
    assert pool.labels["vke.volcengine.com/mgpu-compute-policy"] == policy
    assert share.annotations["vke.volcengine.com/mgpu-compute-policy"] == policy


@pytest.mark.parametrize(
    ("provider", "policy", "cards", "refused"),
    [
        ("vke", "guaranteed-burst-share", 1, False),
        ("vke", "guaranteed-burst-share", 2, True),
        ("vke", "fixed-share", 2, True),
        ("vke", "native-burst-share", 2, False),
        ("hami", "native-burst-share", 1, True),
    ],
)
def test_a_policy_that_does_not_allow_several_cards_is_refused(
    provider: str, policy: str, cards: int, refused: bool
) -> None:
    text = (
        FRACTIONS.replace("provider: hami", f"provider: {provider}, compute_policy: {policy}")
        + CARDS % cards
    )
    assert set(problems(text)) == ({("fractional", "compute_policy")} if refused else set())

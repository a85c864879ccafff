"""The planner's pools are accepted by `check` as they are, and offer what the answer counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, planner, stack_file
from slicewright.infra.plan.demand.fragment import fragment, node_pools
from slicewright.infra.plan.demand.problem import read_demand
from slicewright.infra.planner.candidates import WHOLE
from slicewright.infra.planner.explanation import comparison

EKS = """
config:
  slicewright:fleet:
    cloud: eks
    cluster: { name: demand, region: us-east-1 }
    demand:
      machine_types: [p4d.24xlarge, p4de.24xlarge, p5.4xlarge, g6.xlarge]
      classes:
        - { name: embed, replicas: 60, memory: 8Gi }
        - { name: chat, replicas: 9, memory: 38Gi }
        - name: bert
          requests_per_second: 900
          throughput: { H100-80: { 1g.10gb: 80, 2g.20gb: 170, whole: 500.5 } }
"""
GKE = """
config:
  gcp:project: demand
  slicewright:fleet:
    cloud: gke
    cluster: { name: demand, location: us-central1 }
    demand:
      classes:
        - { name: embed, replicas: 60, memory: 8Gi, gpu_models: [A100-40, H100-80] }
        - { name: chat, replicas: 9, memory: 38Gi }
        - { name: tuned, replicas: 2, memory: 150Gi, gpus: 2 }
"""


def planned(tmp_path: Path, text: str) -> tuple[planner.Problem, planner.Answer, str]:
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text(text)
    fleet, problem = read_demand(file)
    answer = planner.optimise(problem)
    return problem, answer, fragment(fleet, problem, answer, node_pools(fleet, answer))


@pytest.mark.parametrize("text", [EKS, GKE], ids=["eks", "gke"])
def test_check_accepts_the_pools_unchanged(tmp_path: Path, text: str) -> None:
    _, answer, pools = planned(tmp_path, text)
    raw: dict[str, Any] = yaml.safe_load(text)["config"]["slicewright:fleet"]
    raw |= yaml.safe_load(pools)
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert Counter({pool.name: pool.nodes.min for pool in fleet.pools}).total() == answer.nodes
    offered: Counter[str] = Counter()
    for pool in fleet.pools:
        for resource, count in pool.offer.resources.items():
            offered[resource] += count * pool.nodes.min
    for pool in answer.pools:
        for profile, count in pool.node_type.devices(pool.layout).items():
            resource = "nvidia.com/gpu"
            if profile != WHOLE and text is EKS:
                resource = f"nvidia.com/mig-{profile}"
            offered[resource] -= count * pool.nodes
    assert set(offered.values()) == {0}


def test_the_same_demand_gives_the_same_bytes(tmp_path: Path) -> None:
    assert planned(tmp_path, EKS)[2] == planned(tmp_path, EKS)[2]


def test_a_changed_price_changes_the_hash_of_the_input(tmp_path: Path) -> None:
    first = planned(tmp_path, EKS)[2]
    priced = EKS.replace(
        "      classes:", "      usd_per_hour: { p4d.24xlarge: 20 }\n      classes:"
    )
    second = planned(tmp_path, priced)[2]
    line = "# input_sha256"
    assert [x for x in first.splitlines() if x.startswith(line)] != [
        x for x in second.splitlines() if x.startswith(line)
    ]


def test_no_machine_type_has_more_nodes_than_its_limit(tmp_path: Path) -> None:
    unlimited = planned(tmp_path, GKE)[1]
    nodes = Counter({pool.node_type.name: pool.nodes for pool in unlimited.pools})
    ((name, most),) = nodes.most_common(1)
    limit = f"      max_machines: {{ {name}: {most - 1} }}\n      classes:"
    problem, limited, _ = planned(tmp_path, GKE.replace("      classes:", limit))
    assert sum(p.nodes for p in limited.pools if p.node_type.name == name) < most
    assert limited.bounds.objective > unlimited.bounds.objective
    without = comparison(problem, problem)[f"without max_machines.{name}: {most - 1}"]
    assert without.answer is not None
    assert without.answer.bounds.objective == unlimited.bounds.objective


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("p4d.24xlarge,", "p4d.24xlage,", "did you mean p4d.24xlarge?"),
        ("memory: 38Gi", "memory: 900Gi", "no device of the allowed GPUs"),
        ("name: chat", "name: embed", "also the name of demand.classes[0]"),
        ("H100-80: {", "H100-81: {", "no device under throughput is on an allowed GPU"),
        ("requests_per_second: 900", "requests_per_second: -1", "above 0"),
        ("replicas: 60", "replicas: 0", "must be at least 1"),
        (
            "      classes:",
            "      max_machines: { p5.4xlarg: 2 }\n      classes:",
            "did you mean p5.4xlarge?",
        ),
        ("    demand:", "    demands:", "demand"),
    ],
)
def test_a_wrong_demand_is_refused_with_its_place(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    assert before in EKS
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text(EKS.replace(before, after))
    with pytest.raises(stack_file.SpecError) as refused:
        read_demand(file)
    assert message in str(refused.value)


def test_an_existing_cluster_has_nothing_to_order(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.demand.yaml"
    file.write_text("config: { slicewright:fleet: { cloud: byo } }")
    with pytest.raises(stack_file.SpecError) as refused:
        read_demand(file)
    assert "nothing to optimise" in str(refused.value)

"""Pools are planned only where the cluster's zones offer their machine type."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import catalog, plan, planner, stack_file
from slicewright.infra.plan.demand.fragment import node_pools
from slicewright.infra.plan.demand.offers import zones_for
from slicewright.infra.plan.demand.problem import read_demand


def document(cloud: str, cluster: dict[str, Any], **demand: Any) -> dict[str, Any]:
    demand = {"classes": [{"name": "a", "replicas": 3, "memory": "4Gi"}], **demand}
    fleet = {"cloud": cloud, "cluster": {"name": "c", **cluster}, "demand": demand}
    return {"config": {"gcp:project": "demand-1", "slicewright:fleet": fleet}}


def planned(tmp_path: Path, text: dict[str, Any]) -> tuple[planner.Problem, list[dict[str, Any]]]:
    file = tmp_path / "Pulumi.d.yaml"
    file.write_text(yaml.safe_dump(text))
    fleet, problem = read_demand(file)
    answer = planner.optimise(problem, search_nodes=1, break_ties=False)
    return problem, node_pools(fleet, answer)


LOCATIONS = sorted(
    place for region, zones in catalog.gcp().zones.items() for place in (region, zones[0])
)


def accepted(tmp_path: Path, text: dict[str, Any]) -> plan.FleetPlan | None:
    """The plan of the pools of an answer. None: nothing is offered there at a known price."""
    try:
        _, pools = planned(tmp_path, text)
    except stack_file.SpecError as e:
        if "no GPU machine type that the cluster's zones offer" in str(e):
            return None
        raise
    fleet = {**text["config"]["slicewright:fleet"], "node_pools": pools}
    return plan.read(json.dumps(fleet), stack_file.Source("test", fleet))


def test_check_accepts_the_pools_of_every_gke_location(tmp_path: Path) -> None:
    """Also where a machine type has a price in the region, and no zone in it."""
    plans = [accepted(tmp_path, document("gke", {"location": where})) for where in LOCATIONS]
    fleets = [fleet for fleet in plans if fleet is not None]
    assert len(fleets) > len(LOCATIONS) / 4
    notes = [note for fleet in fleets for note in plan.notes(fleet)]
    assert not [note for note in notes if "does not list" in note]


def test_check_accepts_the_pools_of_every_eks_region(tmp_path: Path) -> None:
    regions = sorted(catalog.aws().regions)
    plans = [accepted(tmp_path, document("eks", {"region": region})) for region in regions]
    assert len([fleet for fleet in plans if fleet is not None]) > len(regions) / 2


def test_a_pool_lies_in_a_zone_that_offers_its_machine_type(tmp_path: Path) -> None:
    """On EKS a pool is in the first zone of the cluster, unless it says another."""
    offered = catalog.offerings()["p4de.24xlarge"]["us-east-1"]
    other = "use1-az1"
    assert other not in offered
    zones = [other, offered[0]]
    text = document("eks", {"region": "us-east-1", "zones": zones}, machine_types=["p4de.24xlarge"])
    _, (pool,) = planned(tmp_path, text)
    assert pool["zones"] == [offered[0]]
    fleet = {**text["config"]["slicewright:fleet"], "node_pools": [pool]}
    plan.read(json.dumps(fleet), stack_file.Source("test", fleet))


@pytest.mark.parametrize(
    ("cloud", "cluster", "machine"),
    [
        ("gke", {"location": "asia-east1"}, "g2-standard-4"),
        ("gke", {"location": "us-central1-f"}, "a3-megagpu-8g"),
        ("eks", {"region": "eu-central-2"}, "p5.48xlarge"),
    ],
)
def test_a_stated_machine_type_that_no_zone_offers_is_refused(
    cloud: str, cluster: dict[str, Any], machine: str, tmp_path: Path
) -> None:
    usd = {machine: 10}
    text = document(cloud, cluster, machine_types=[machine], usd_per_hour=usd)
    with pytest.raises(stack_file.SpecError) as refused:
        planned(tmp_path, text)
    assert f"{machine} is offered in no zone of the cluster" in str(refused.value)
    assert "demand.machine_types[0]" in str(refused.value)


def test_zones_of_aws_are_unknown_where_the_file_has_names(tmp_path: Path) -> None:
    """us-east-1a is another zone in each account."""
    file = tmp_path / "Pulumi.d.yaml"
    cluster = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}
    file.write_text(yaml.safe_dump(document("eks", cluster)))
    fleet, _ = read_demand(file)
    assert zones_for(fleet, catalog.load().machines["eks", "p5.48xlarge"]) is None

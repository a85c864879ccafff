"""The system pool may have any machine type without GPUs, and a new one by `allow_unlisted`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.doctor.checks.eks.quotas import vcpus_needed
from slicewright.doctor.checks.gke.quotas import project_quotas_needed
from slicewright.infra import plan, stack_file
from slicewright.infra.catalog import general_machines
from slicewright.infra.plan.machines import prices
from tests.infra.applied import applied
from tests.properties import examples

CLUSTER = {
    "eks": {"name": "c", "region": "us-east-1", "zones": ["us-east-1a", "us-east-1c"]},
    "gke": {"name": "c", "location": "us-central1-a"},
}
POOL = {"eks": "g6.xlarge", "gke": "g2-standard-4"}


def planned(cloud: str, system: str, **fleet: Any) -> plan.FleetPlan:
    pool = {"name": "a", "machine_type": POOL[cloud], "nodes": {"count": 1}}
    raw = {
        "cloud": cloud,
        "cluster": CLUSTER[cloud],
        "system_pool": {"machine_type": system},
        "node_pools": [pool],
        **fleet,
    }
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def problem(cloud: str, system: str, **fleet: Any) -> stack_file.Problem:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(cloud, system, **fleet)
    (only,) = refused.value.problems
    return only


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(general_machines("eks")))
def test_every_type_of_ec2_is_a_system_pool_at_its_price(machine: Any) -> None:
    fleet = planned("eks", machine.name)
    assert isinstance(fleet, plan.EksFleetPlan)
    assert fleet.system.machine_type == machine.name
    quote = prices.system_quote(fleet.system, fleet)
    listed = [price.usd_per_hour for price in machine.prices]
    assert ([quote.price.usd_per_hour] if quote.price else []) == listed


@settings(max_examples=examples(400), deadline=None)
@given(st.sampled_from(general_machines("gke")))
def test_every_type_of_compute_engine_is_a_system_pool(machine: Any) -> None:
    fleet = planned("gke", machine.name)
    assert isinstance(fleet, plan.GkeFleetPlan)
    assert fleet.system is not None
    assert fleet.system.machine_type == machine.name


@pytest.mark.parametrize("name", ["m5.large", "t3.xlarge", "c7i.xlarge", "m7g.large"])
def test_common_types_of_ec2_are_accepted(name: str) -> None:
    fleet = planned("eks", name)
    assert "system" in prices.fleet_cost(fleet).priced


@pytest.mark.parametrize("name", ["n2d-standard-4", "c3-standard-4", "n4-standard-4"])
def test_common_types_of_compute_engine_are_accepted(name: str) -> None:
    fleet = planned("gke", name)
    assert "system" in prices.fleet_cost(fleet).priced


@pytest.mark.parametrize(("cloud", "name"), [("eks", "m12i.large"), ("gke", "n9-standard-4")])
def test_a_type_that_the_data_lacks_is_allowed_by_name(cloud: str, name: str) -> None:
    assert "allow_unlisted: true" in problem(cloud, name).instead
    fleet = planned(cloud, name, allow_unlisted=True)
    assert not isinstance(fleet, plan.ExistingFleetPlan)
    assert fleet.system is not None
    assert fleet.system.machine_type == name
    assert dict(prices.fleet_cost(fleet).missing)["system"] == f"{name} is not in the catalog"


@pytest.mark.parametrize("name", ["p4d.24xlarge", "e2-standard-4", "g6f.large"])
def test_allow_unlisted_waives_no_mistake(name: str) -> None:
    assert problem("eks", name, allow_unlisted=True).path == ("system_pool", "machine_type")


def test_quotas_do_not_count_a_machine_of_unknown_size() -> None:
    fleet = planned("eks", "m12i.large", allow_unlisted=True)
    assert isinstance(fleet, plan.EksFleetPlan)
    assert "L-1216C47A" not in vcpus_needed(fleet)
    google = planned("gke", "n9-standard-4", allow_unlisted=True)
    assert isinstance(google, plan.GkeFleetPlan)
    assert project_quotas_needed(google)["CPUS_ALL_REGIONS"] == 4


@pytest.mark.parametrize(
    ("machine", "image"),
    [("m7i.large", "AL2023_x86_64_STANDARD"), ("m7g.large", "AL2023_ARM_64_STANDARD")],
)
def test_a_system_group_of_eks_has_the_image_of_its_processors(machine: str, image: str) -> None:
    fleet = planned("eks", machine)
    with applied() as stack:
        stack.up(fleet)
    (group,) = (made for made in stack.made.values() if made.name.endswith("-system"))
    assert group.inputs["amiType"] == image


@pytest.mark.parametrize(
    ("machine", "taint"), [("e2-standard-4", None), ("c4a-standard-4", "NONE")]
)
def test_a_system_pool_of_gke_on_arm_has_no_architecture_taint(
    machine: str, taint: str | None
) -> None:
    fleet = planned("gke", machine)
    with applied() as stack:
        stack.up(fleet)
    (pool,) = (made for made in stack.made.values() if made.name.endswith("-system"))
    config = pool.inputs["nodeConfig"].get("taintConfig") or {}
    assert config.get("architectureTaintBehavior") == taint

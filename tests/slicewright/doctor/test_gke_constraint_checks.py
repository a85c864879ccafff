"""Constraints of an organisation against a GKE plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.doctor.checks.gke.constraints import (
    constraint_findings,
    constraints_needed,
    enforced,
)
from slicewright.doctor.findings import NotAnswered
from slicewright.infra import plan, stack_file

EXTERNAL = "compute.vmExternalIpAccess"


def planned(**cluster: Any) -> plan.GkeFleetPlan:
    pool = {
        "name": "a",
        "machine_type": "a2-highgpu-1g",
        "zones": ["us-central1-a"],
        "nodes": {"count": 1},
    }
    where = {"name": "main", "location": "us-central1", **cluster}
    raw = {"cloud": "gke", "cluster": where, "node_pools": [pool]}
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.GkeFleetPlan)
    return found


def test_external_addresses_are_checked_only_for_stacks_with_public_nodes() -> None:
    assert EXTERNAL in constraints_needed(planned())
    assert EXTERNAL not in constraints_needed(planned(private_nodes=True))
    assert EXTERNAL not in constraints_needed(planned(existing=True))


@pytest.mark.parametrize(
    ("rules", "forbids"),
    [
        ([], False),
        ([{"allowAll": True}], False),
        ([{"denyAll": True}], True),
        ([{"enforce": False}], False),
        ([{"enforce": True}], True),
        # Nodes have names that nobody can list before.
        ([{"values": {"allowedValues": ["projects/p/zones/z/instances/bastion"]}}], True),
        ([{"values": {"deniedValues": ["projects/p/zones/z/instances/bastion"]}}], False),
    ],
)
def test_an_effective_policy_is_enforced_by_its_rules(
    rules: list[dict[str, Any]], forbids: bool
) -> None:
    assert enforced({"name": "policies/a", "spec": {"rules": rules}}) is forbids
    assert not enforced({"name": "policies/a"})


def test_the_same_refusal_of_all_constraints_is_one_finding() -> None:
    fleet = planned(private_nodes=True)
    answers = dict.fromkeys(constraints_needed(fleet), NotAnswered(why="the API is off"))
    (found,) = constraint_findings(fleet, answers, project="acme")
    assert found.verdict == "not asked"
    assert "compute.requireShieldedVm, iam.disableServiceAccountCreation" in found.subject


def test_each_answer_is_a_line_with_its_remedy() -> None:
    fleet = planned()
    off = NotAnswered(why="orgpolicy.googleapis.com is off")
    answers = dict.fromkeys(constraints_needed(fleet), True) | {"compute.requireShieldedVm": off}
    public, shielded, accounts = constraint_findings(fleet, answers, project="acme")
    assert (public.verdict, public.remedy) == ("fails", "write private_nodes: true in cluster")
    assert shielded.verdict == "not asked"
    assert "disable-enforce iam.disableServiceAccountCreation" in str(accounts.remedy)

"""The permissions that are asked for are those of `slicewright rights`, 100 at most at a time."""

from __future__ import annotations

from pathlib import Path

from slicewright.doctor.checks.gke.rights import batches, needed
from slicewright.infra import manifests, plan
from slicewright.infra.plan import GkeFleetPlan

STACKS = Path(__file__).resolve().parents[3] / "stacks"


def test_the_checked_permissions_are_those_that_slicewright_rights_prints() -> None:
    fleet = plan.read_file(STACKS / "Pulumi.gke-h100.yaml")
    assert isinstance(fleet, GkeFleetPlan)
    assert list(needed(fleet)) == manifests.google_role(fleet)["includedPermissions"]
    assert {"container.clusters.create", "compute.networks.create"} <= {*needed(fleet)}


def test_no_question_has_more_than_google_takes_and_none_is_left_out() -> None:
    rights = [f"a.b.c{n}" for n in range(201)]
    found = list(batches(rights))
    assert [len(one) for one in found] == [100, 100, 1]
    assert [right for one in found for right in one] == rights

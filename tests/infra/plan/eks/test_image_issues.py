"""Releases of EKS images that are known to be broken for GPUs are refused or noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import catalog, plan, stack_file

BOTTLEROCKET = "BOTTLEROCKET_x86_64_NVIDIA"


def planned(machine: str, release: str | None, **pool: Any) -> plan.FleetPlan:
    one = {"name": "a", "machine_type": machine, "nodes": {"count": 1}, **pool}
    one |= {"release_version": release} if release else {}
    cluster = {"name": "c", "region": "us-east-1"}
    raw = {"cloud": "eks", "cluster": cluster, "node_pools": [one]}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(machine: str, release: str, **pool: Any) -> stack_file.Problem:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(machine, release, **pool)
    (problem,) = refused.value.problems
    return problem


@pytest.mark.parametrize(
    ("machine", "release", "instead", "issue"),
    [
        ("g6.xlarge", "1.33.1-20250715", "20250807 or later", "awslabs/amazon-eks-ami/issues/2346"),
        ("gr6.4xlarge", "1.33.1-20250716", "20250807 or later", "issues/2346"),
        ("gr6.4xlarge", "1.32.1-20250430", "20250501 or later", "issues/2236"),
        ("p4d.24xlarge", "1.32.1-20241109", "20241115 or later", "issues/2041"),
    ],
)
def test_a_release_that_aws_calls_broken_is_refused(
    machine: str, release: str, instead: str, issue: str
) -> None:
    problem = refusal(machine, release)
    assert problem.path == ("node_pools", 0, "release_version")
    assert problem.instead == f"write a release_version of {instead}"
    assert issue in problem.source


def test_another_machine_type_of_the_pool_counts() -> None:
    problem = refusal("g6.4xlarge", "1.32.1-20250430", other_machine_types=["gr6.4xlarge"])
    assert "(gr6.4xlarge)" in problem.reason


@pytest.mark.parametrize(
    ("machine", "release"),
    [
        ("g5.xlarge", "1.33.1-20250715"),
        ("g6.xlarge", "1.33.1-20250714"),
        ("g6.xlarge", "1.33.1-20250807"),
        ("p4d.24xlarge", "1.32.1-20241115"),
    ],
)
def test_a_release_beside_the_broken_ones_is_accepted(machine: str, release: str) -> None:
    assert planned(machine, release).pools


@pytest.mark.parametrize(
    ("release", "broken"), [("1.26.2-5ed15786", True), ("1.27.0-5ed15786", False)]
)
def test_a_broken_bottlerocket_is_refused(release: str, broken: bool) -> None:
    if broken:
        assert "1.27.0 or later" in refusal("g5.xlarge", release, ami_type=BOTTLEROCKET).instead
    else:
        assert planned("g5.xlarge", release, ami_type=BOTTLEROCKET).pools


@pytest.mark.parametrize(
    ("machine", "release", "noted"),
    [
        ("g6.xlarge", "1.34.1-20260818", True),
        ("g6.xlarge", "1.34.1-20261101", True),
        ("g6.xlarge", None, True),
        ("g6.xlarge", "1.34.1-20260810", False),
        ("g4dn.xlarge", None, False),
        ("p4d.24xlarge", None, False),
    ],
)
def test_a_reported_defect_is_a_note_with_the_issue(
    machine: str, release: str | None, noted: bool
) -> None:
    notes = [note for note in plan.notes(planned(machine, release)) if "users report" in note]
    assert len(notes) == noted
    for note in notes:
        assert "release_version of 20260810 or older" in note
        assert "https://github.com/awslabs/amazon-eks-ami/issues/2790" in note


def test_each_issue_names_known_images_a_way_out_and_its_address() -> None:
    images = {i.name for m in catalog.load().machines.values() for i in m.images}
    names = [m.name for m in catalog.load().machines.values() if m.cloud == "eks" and m.gpu]
    for issue in catalog.load().image_issues:
        assert set(issue.images) <= images
        assert issue.fixed or issue.good
        assert issue.source.startswith("https://github.com/")
        released = issue.first or "0"
        assert any(issue.affects(issue.images[0], name, released) for name in names)

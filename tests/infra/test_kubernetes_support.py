"""Ends of support of Kubernetes versions, and a test that fails once the record is too old."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.infra import catalog, plan, stack_file
from slicewright.infra.plan.machines.kubernetes_versions import support_notes

TODAY = datetime.now(UTC).date()
POOL = {"eks": "g6.xlarge", "gke": "g2-standard-4"}
CLUSTER = {
    "eks": {"name": "c", "region": "us-east-1"},
    "gke": {"name": "c", "location": "us-central1-a"},
}


def planned(cloud: str, version: str | None, **cluster: Any) -> plan.FleetPlan:
    pool = {"name": "a", "machine_type": POOL[cloud], "nodes": {"count": 1}}
    of = CLUSTER[cloud] | ({"version": version} if version else {}) | cluster
    raw = {"cloud": cloud, "cluster": of, "node_pools": [pool]}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(cloud: str, version: str, **cluster: Any) -> stack_file.Problem:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(cloud, version, **cluster)
    (problem,) = refused.value.problems
    return problem


def outdated(day: date) -> list[str]:
    """What must be updated on that day, because the record still accepts it."""
    aws, gcp = catalog.aws(), catalog.gcp()
    return [
        *(
            f"EKS ended {v.minor} on {v.extended}: set date in infra/catalog/data/aws.toml to a "
            "later day, add newer versions with their dates, and update autoscaler.toml"
            for v in aws.versions.values()
            if v.is_supported(aws.day) and not v.is_supported(day)
        ),
        *(
            f"GKE ended standard support of {v.minor} on {v.standard}: set date in "
            "infra/catalog/data/gcp.toml to a later day, and add newer versions with their dates"
            for v in gcp.versions.values()
            if v.has_standard_support(gcp.day) and not v.has_standard_support(day)
        ),
    ]


def test_no_version_of_the_record_has_ended_since() -> None:
    assert outdated(TODAY) == []


def test_the_test_above_fails_on_the_day_after_the_first_end() -> None:
    assert outdated(date(2027, 3, 23)) == []
    (message,) = outdated(date(2027, 3, 24))
    assert message.startswith("EKS ended 1.32 on 2027-03-23: set date in infra/catalog/data/aws.")
    assert any("GKE ended standard support of 1.35" in m for m in outdated(date(2027, 4, 12)))


def test_the_record_is_not_of_the_future() -> None:
    assert max(catalog.aws().day, catalog.gcp().day) <= TODAY


def test_versions_are_listed_in_order_and_standard_support_ends_first() -> None:
    for versions in (catalog.aws().versions, catalog.gcp().versions):
        numbers = [int(minor.removeprefix("1.")) for minor in versions]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        for version in versions.values():
            if version.standard and version.extended:
                assert version.standard < version.extended


def test_eks_refuses_a_version_after_extended_support_and_says_when_it_ended() -> None:
    problem = refusal("eks", "1.31")
    assert "extended support of Kubernetes 1.31 ended on 2026-11-26" in problem.reason
    assert problem.instead.startswith("write 1.36 or 1.35")
    assert "allow_unlisted" in problem.instead


def test_gke_has_a_version_after_standard_support_in_the_channel_extended_only() -> None:
    problem = refusal("gke", "1.34")
    assert "standard support of Kubernetes 1.34 ended on 2026-10-01" in problem.reason
    assert "release_channel: EXTENDED" in problem.instead
    assert planned("gke", "1.34.1-gke.1431000", release_channel="EXTENDED").pools


@pytest.mark.parametrize(("cloud", "version"), [("eks", "1.37"), ("gke", "1.38.0-gke.100")])
def test_a_newer_minor_version_is_a_note_that_names_doctor(cloud: str, version: str) -> None:
    notes = support_notes(planned(cloud, version), TODAY)
    assert any("is newer than slicewright's record" in note for note in notes)
    assert any("`slicewright doctor` asks the account" in note for note in notes)


@pytest.mark.parametrize("version", ["1.63", "1.3", "1.40"])
def test_a_version_that_is_far_off_is_a_typing_error(version: str) -> None:
    assert "is not a Kubernetes version that EKS had on" in refusal("eks", version).reason


@pytest.mark.parametrize(
    ("cloud", "version", "day", "words"),
    [
        ("eks", "1.34", "2026-08-01", ""),
        ("eks", "1.34", "2026-11-28", "standard support ends on 2026-12-02 (in 4 days)"),
        ("eks", "1.34", "2026-12-01", "(in 1 day)"),
        ("eks", "1.34", "2026-12-03", "in extended support, which AWS bills in addition"),
        ("eks", "1.34", "2027-11-30", "until 2027-12-02 (in 2 days)"),
        ("eks", "1.34", "2027-12-03", "extended support ended on 2027-12-02: EKS creates no"),
        ("gke", "1.35", "2026-11-28", ""),
        ("gke", "1.35", "2027-04-01", "standard support ends on 2027-04-11 (in 10 days)"),
        ("gke", "1.35", "2027-04-12", "standard support ended on 2027-04-11: only the release"),
        ("gke", "1.37", "2030-01-01", ""),
        ("gke", "latest", "2030-01-01", ""),
        ("eks", None, "2030-01-01", ""),
    ],
)
def test_a_note_names_the_end_of_support(
    cloud: str, version: str | None, day: str, words: str
) -> None:
    notes = support_notes(planned(cloud, version), date.fromisoformat(day))
    assert len(notes) == bool(words)
    assert words in "".join(notes)


@given(st.sampled_from(["1.32", "1.33", "1.34", "1.35", "1.36"]), st.integers(-900, 900))
def test_a_version_has_a_note_from_ninety_days_before_the_end_of_standard_support(
    version: str, days: int
) -> None:
    fleet, end = planned("eks", version), catalog.aws().versions[version].standard
    assert end is not None
    assert bool(support_notes(fleet, end + timedelta(days=days))) == (days >= -90)


def test_notes_do_not_depend_on_the_day_unless_it_is_given() -> None:
    fleet = planned("eks", "1.32")
    assert not any("support" in note for note in plan.notes(fleet))
    assert any("extended support" in note for note in plan.notes(fleet, today=TODAY))

"""Maintenance windows of a GKE cluster: what the stack file may say, and what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.recorder import Made

FLEET = """\
cloud: gke
cluster:
  name: main
  location: us-central1-c
  maintenance:
    window: WINDOW
    exclusions: EXCLUSIONS
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
DAILY = '{mode: daily, start: "03:00"}'
YEAR_END = (
    '{name: year-end, start: "2026-12-15T00:00:00Z", end: "2027-01-08T00:00:00Z", '
    "scope: no-minor-or-node-upgrades}"
)


def fleet(window: str = DAILY, *exclusions: str) -> str:
    return FLEET.replace("WINDOW", window).replace("EXCLUSIONS", f"[{', '.join(exclusions)}]")


def recurring(recurrence: str, hours: int) -> str:
    end = f"2026-01-{3 + hours // 24:02}T{hours % 24:02}:00:00Z"
    return (
        f'{{mode: recurring, start: "2026-01-03T00:00:00Z", end: "{end}", '
        f'recurrence: "{recurrence}"}}'
    )


@pytest.fixture
def policy(record_cloud: Callable[..., list[Made]]) -> Callable[[str], dict[str, Any]]:
    """The maintenance policy that a fleet's cluster is asked for with."""

    def asked(text: str) -> dict[str, Any]:
        made = record_cloud("gke-h100", fleet=text)
        (one,) = [m for m in made if m.type == "gcp:container/cluster:Cluster"]
        return dict(one.inputs["maintenancePolicy"])

    return asked


def test_a_daily_window_and_exclusions_are_as_the_api_has_them(
    policy: Callable[[str], dict[str, Any]],
) -> None:
    assert policy(fleet(DAILY, YEAR_END)) == {
        "dailyMaintenanceWindow": {"startTime": "03:00"},
        "maintenanceExclusions": [
            {
                "exclusionName": "year-end",
                "startTime": "2026-12-15T00:00:00Z",
                "endTime": "2027-01-08T00:00:00Z",
                "exclusionOptions": {"scope": "NO_MINOR_OR_NODE_UPGRADES"},
            }
        ],
    }


def test_a_recurring_window_is_as_the_api_has_it(policy: Callable[[str], dict[str, Any]]) -> None:
    assert policy(fleet(recurring("FREQ=WEEKLY;BYDAY=SA,SU", 6)))["recurringWindow"] == {
        "startTime": "2026-01-03T00:00:00Z",
        "endTime": "2026-01-03T06:00:00Z",
        "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
    }


@pytest.mark.parametrize(
    ("recurrence", "hours", "least"),
    [
        ("FREQ=WEEKLY;INTERVAL=3;BYDAY=SU", 9, "36"),
        ("FREQ=WEEKLY;INTERVAL=2", 7, "42"),
        ("FREQ=DAILY;INTERVAL=13;BYDAY=SU", 40, "40"),
        ("FREQ=DAILY", 3, "0"),
        ("FREQ=WEEKLY;INTERVAL=14;BYDAY=SA", 48, "0"),
        ("FREQ=DAILY;INTERVAL=1000", 48, "0"),
    ],
)
def test_a_window_that_gke_refuses_for_being_too_short_is_refused(
    broken: Callable[[str], str], recurrence: str, hours: int, least: str
) -> None:
    said = broken(fleet(recurring(recurrence, hours)))
    assert f"cluster.maintenance.window: some 92 days have only {least} hours" in said


@pytest.mark.parametrize(
    ("recurrence", "hours"),
    [
        ("FREQ=WEEKLY;BYDAY=SU", 4),
        ("FREQ=WEEKLY;INTERVAL=2", 8),
        ("FREQ=DAILY", 4),
        ("FREQ=WEEKLY;BYDAY=SA,SU", 6),
        ("FREQ=WEEKLY;BYDAY=SA", 12),
        ("FREQ=DAILY", 24),
        ("FREQ=WEEKLY;INTERVAL=4", 48),
        ("FREQ=MONTHLY;BYDAY=1SA", 48),  # left to GKE
    ],
)
def test_a_window_of_enough_hours_is_accepted(
    policy: Callable[[str], dict[str, Any]], recurrence: str, hours: int
) -> None:
    assert policy(fleet(recurring(recurrence, hours)))["recurringWindow"]["recurrence"] == (
        recurrence
    )


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ('{mode: daily, start: "3:00"}', "is not a time of the day in UTC"),
        ('{mode: daily, start: "24:00"}', "is not a time of the day in UTC"),
        (recurring("FREQ=HOURLY", 4), "is not a recurrence rule of at most one window a day"),
        (recurring("RRULE:FREQ=DAILY", 4), "is not a recurrence rule of at most one window a day"),
        (
            recurring("FREQ=DAILY;BYHOUR=3", 4),
            "BYHOUR cannot be used: the rule may recur at most once",
        ),
        (recurring("FREQ=DAILY", 0), "is not after the start"),
        (recurring("FREQ=DAILY", 4).replace("03T04", "32T04"), "is not a time"),
        (recurring("FREQ=DAILY", 4).replace("2026", "9999"), "is not a time between 2014 and 2999"),
        (recurring("FREQ=DAILY", 4).replace("04:00:00Z", "04:00:00+01:00"), "is not a time in UTC"),
    ],
)
def test_a_malformed_window_is_refused(
    broken: Callable[[str], str], window: str, said: str
) -> None:
    assert said in broken(fleet(window))


def test_exclusions_have_names_of_their_own_and_end_in_time(broken: Callable[[str], str]) -> None:
    backwards = YEAR_END.replace("2027-01-08", "2026-01-08")
    long = YEAR_END.replace("2027-01-08", "2027-03-16").replace(
        "no-minor-or-node-upgrades", "no-upgrades"
    )
    said = broken(fleet(DAILY, YEAR_END, backwards, long.replace("year-end", "long")))
    assert "exclusions[1].name: year-end is the name of another exclusion too" in said
    assert "exclusions[1].end: 2026-01-08T00:00:00Z is not after the start" in said
    assert "exclusions[2].end: 91 days are too many" in said


def test_a_cluster_does_without_all_upgrades_at_most_three_times(
    broken: Callable[[str], str],
) -> None:
    all_ = YEAR_END.replace("no-minor-or-node-upgrades", "no-upgrades")
    many = [all_.replace("year-end", f"n{i}") for i in range(4)]
    said = broken(fleet(DAILY, YEAR_END, *many))
    assert "exclusions[4]: 4 exclusions of all upgrades are too many" in said


def test_a_cluster_has_at_most_twenty_exclusions(broken: Callable[[str], str]) -> None:
    many = [YEAR_END.replace("year-end", f"n{i}") for i in range(21)]
    assert "21 exclusions are too many" in broken(fleet(DAILY, *many))


def test_an_existing_cluster_keeps_its_window(broken: Callable[[str], str]) -> None:
    said = broken(fleet().replace("  name: main", "  name: main\n  existing: true"))
    assert "cluster.maintenance: the cluster exists already" in said

"""Maintenance policies of simulated clusters, as Google's own client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

CLUSTERS = "projects.locations.clusters"


def set_policy(gcp: Gcp, **policy: Any) -> Any:
    """The policy that the cluster then has."""
    clusters = client(gcp.cloud.call, "container")
    body = {"maintenancePolicy": policy}
    gcp.wait(clusters.call(f"{CLUSTERS}.setMaintenancePolicy", name=gcp.cluster, body=body))
    return clusters.call(f"{CLUSTERS}.get", name=gcp.cluster)["maintenancePolicy"]


def recurring(recurrence: str, end: str) -> dict[str, Any]:
    window = {"startTime": "2026-01-03T00:00:00Z", "endTime": f"2026-01-03T{end}:00:00Z"}
    return {"recurringWindow": {"window": window, "recurrence": recurrence}}


def test_gke_says_how_long_a_daily_window_is(gcp: Gcp) -> None:
    gcp.make_cluster()
    policy = set_policy(gcp, window={"dailyMaintenanceWindow": {"startTime": "03:00"}})
    assert policy["window"]["dailyMaintenanceWindow"] == {
        "startTime": "03:00",
        "duration": "PT4H0M0S",
    }


def test_forty_eight_hours_of_ninety_two_days_stay(gcp: Gcp) -> None:
    gcp.make_cluster()
    with pytest.raises(HttpError, match="longer than 92d without 48h maintenance availability"):
        set_policy(gcp, window=recurring("FREQ=WEEKLY;INTERVAL=3;BYDAY=SU", "09"))
    with pytest.raises(HttpError, match="longer than 92d without 48h maintenance availability"):
        set_policy(gcp, window=recurring("FREQ=WEEKLY;BYDAY=SA,SU", "03"))
    assert set_policy(gcp, window=recurring("FREQ=WEEKLY;BYDAY=SU", "04"))


def test_all_upgrades_are_excluded_three_times_and_for_ninety_days(gcp: Gcp) -> None:
    gcp.make_cluster()
    span = {"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-05-02T00:00:00Z"}
    three = dict.fromkeys("abc", span)
    assert set_policy(gcp, window={"maintenanceExclusions": three})
    with pytest.raises(HttpError, match="of scope NO_UPGRADES: 4, limit 3"):
        set_policy(gcp, window={"maintenanceExclusions": {**three, "d": span}})
    long = {**span, "endTime": "2026-05-03T00:00:00Z"}
    with pytest.raises(HttpError, match='"a" of scope NO_UPGRADES is longer than 90 days'):
        set_policy(gcp, window={"maintenanceExclusions": {"a": long}})
    minor = {"maintenanceExclusionOptions": {"scope": "NO_MINOR_UPGRADES"}}
    assert set_policy(gcp, window={"maintenanceExclusions": {**three, "d": {**long, **minor}}})


def test_a_policy_that_changed_since_it_was_read_is_not_overwritten(gcp: Gcp) -> None:
    gcp.make_cluster()
    first = set_policy(gcp, window={"dailyMaintenanceWindow": {"startTime": "03:00"}})
    set_policy(gcp, window={"dailyMaintenanceWindow": {"startTime": "04:00"}})
    with pytest.raises(HttpError, match="changed since it was read"):
        set_policy(gcp, resourceVersion=first["resourceVersion"], window={})


@pytest.mark.parametrize(
    ("exclusion", "said"),
    [
        ({"endTime": "2026-01-01T00:00:00Z"}, "end time that is not after its start"),
        ({"endTime": "tomorrow"}, "must be RFC 3339"),
    ],
)
def test_a_wrong_exclusion_is_refused(gcp: Gcp, exclusion: dict[str, Any], said: str) -> None:
    gcp.make_cluster()
    span = {"startTime": "2026-02-01T00:00:00Z", "endTime": "2026-02-02T00:00:00Z"}
    with pytest.raises(HttpError, match=said):
        set_policy(gcp, window={"maintenanceExclusions": {"a": {**span, **exclusion}}})

"""The maintenance policy of a simulated cluster, and what GKE refuses of one.

Sources: GKE API, MaintenancePolicy; GKE docs, maintenance windows and exclusions (92 days in 2026,
32 before); google/skills, gke-upgrades (limits of exclusions). The words about too little
maintenance are Google's, those about NO_UPGRADES the rehearsal's. Windows are expanded for the
rules that people write, days of a week or every day; GKE knows all of RFC 5545.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import accumulate

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.gcp.errors import google_error

_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_MOST_EXCLUSIONS = 20
_DAILY = "PT4H0M0S"
_RANGE = timedelta(days=92)
_WEEKS = 120
_LONGEST_WITHOUT_UPGRADES = timedelta(days=90)
_MOST_WITHOUT_UPGRADES = 3
_LEAST = timedelta(hours=48)
_AT_ONCE = timedelta(hours=4)


def changed_policy(before: JsonObject | None, requested: JsonObject) -> JsonObject:
    """The policy as GKE keeps it. Raises CloudError.

    before: the one that the cluster has. GKE refuses a change of another one than it has.
    """
    version = requested.get("resourceVersion")
    if version and before and version != before.get("resourceVersion"):
        raise google_error(409, "Maintenance policy was changed since it was read.")
    window = dict(requested.get("window") or {})
    if "dailyMaintenanceWindow" in window:
        daily = window["dailyMaintenanceWindow"]
        if not re.fullmatch(r"([01]?\d|2[0-3]):[0-5]\d", str(daily.get("startTime"))):
            raise google_error(400, f"Invalid daily maintenance start time: {daily}.")
        window["dailyMaintenanceWindow"] = {"startTime": daily["startTime"], "duration": _DAILY}
    if "recurringWindow" in window:
        _check_recurring(window["recurringWindow"])
    _check_exclusions(window.get("maintenanceExclusions") or {})
    text = json.dumps(window, sort_keys=True)
    return {"window": window, "resourceVersion": hashlib.sha256(text.encode()).hexdigest()[:8]}


def _check_exclusions(exclusions: Mapping[str, JsonObject]) -> None:
    if len(exclusions) > _MOST_EXCLUSIONS:
        raise google_error(
            400, f"Too many maintenance exclusions: {len(exclusions)}, limit {_MOST_EXCLUSIONS}."
        )
    without = {k for k, e in exclusions.items() if _scope(e) == "NO_UPGRADES"}
    if len(without) > _MOST_WITHOUT_UPGRADES:
        raise google_error(
            400,
            f"Too many maintenance exclusions of scope NO_UPGRADES: {len(without)}, limit "
            f"{_MOST_WITHOUT_UPGRADES}.",
        )
    for name, exclusion in exclusions.items():
        begin, end = _time(exclusion["startTime"]), _time(exclusion["endTime"])
        if name in without and end - begin > _LONGEST_WITHOUT_UPGRADES:
            raise google_error(
                400,
                f'Maintenance exclusion "{name}" of scope NO_UPGRADES is longer than '
                f"{_LONGEST_WITHOUT_UPGRADES.days} days.",
            )
        if end <= begin:
            raise google_error(
                400, f'Maintenance exclusion "{name}" has an end time that is not after its start.'
            )


def _check_recurring(recurring: JsonObject) -> None:
    begin, end = _time(recurring["window"]["startTime"]), _time(recurring["window"]["endTime"])
    rule = dict(part.split("=", 1) for part in str(recurring["recurrence"]).split(";"))
    if rule.get("FREQ") in ("HOURLY", "MINUTELY", "SECONDLY"):
        raise google_error(400, f"Recurrence frequency {rule['FREQ']} is not supported.")
    if end <= begin:
        raise google_error(400, "Maintenance window end time must be after its start time.")
    if rule.get("FREQ") not in ("DAILY", "WEEKLY") or set(rule) - {"FREQ", "INTERVAL", "BYDAY"}:
        return
    open_before = [0, *accumulate(_open_hours(begin, end - begin, rule))]
    span = _RANGE // timedelta(hours=1)
    for first in range(len(open_before) - span):
        if timedelta(hours=open_before[first + span] - open_before[first]) < _LEAST:
            begins = begin + timedelta(hours=first)
            raise google_error(
                400,
                f"maintenance policy would go longer than {_RANGE.days}d without 48h maintenance "
                "availability "
                f"of >=4h contiguous duration (in time range [{begins.isoformat()}, "
                f"{(begins + _RANGE).isoformat()}])",
            )


def _scope(exclusion: JsonObject) -> str:
    options = exclusion.get("maintenanceExclusionOptions") or {}
    return str(options.get("scope") or "NO_UPGRADES")


def _open_hours(begin: datetime, length: timedelta, rule: Mapping[str, str]) -> Iterator[bool]:
    """For each hour from the first window on, of the weeks looked at, whether it is in one."""
    monday = (begin - timedelta(days=begin.weekday())).date()
    every = int(rule.get("INTERVAL", "1"))
    days = rule["BYDAY"].split(",") if "BYDAY" in rule else None
    hours = [False] * (_WEEKS * 7 * 24)
    for n in range(_WEEKS * 7):
        day = begin + timedelta(days=n)
        if rule["FREQ"] == "WEEKLY":
            due = (day.date() - monday).days // 7 % every == 0
            due = due and _DAYS[day.weekday()] in (days or [_DAYS[begin.weekday()]])
        else:
            due = n % every == 0 and (days is None or _DAYS[day.weekday()] in days)
        if due and length >= _AT_ONCE:
            for hour in range(n * 24, min(n * 24 + length // timedelta(hours=1), len(hours))):
                hours[hour] = True
    yield from hours


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise google_error(400, f'Invalid time "{text}": must be RFC 3339.') from None

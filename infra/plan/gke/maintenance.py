"""Maintenance windows of a GKE cluster, by GKE's rules for them.

Sources of the limits: GKE docs, configure maintenance windows and exclusions (92 days in 2026, 32
before); google/skills, gke-upgrades (limits of exclusions).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, listed, refuse, rule

_AT: stack_file.Path = ("cluster", "maintenance")
_WINDOW: stack_file.Path = (*_AT, "window")
_DOCS = "GKE docs, maintenance windows and exclusions"
_RANGE = timedelta(days=92)
_LEAST_OF_RANGE = timedelta(hours=48)
_LEAST_AT_ONCE = timedelta(hours=4)
_LOOKED_AT: Final = 7 * 92 + 2 * 92
"""Days: a rule with a pause of 92 days or more is refused for that, any other repeats in at most 7
times as many (every n-th day, if it is a Sunday).
"""
_MOST_EXCLUSIONS = 20
_MOST_WITHOUT_UPGRADES = 3
_LONGEST_WITHOUT_UPGRADES = timedelta(days=90)
_PARTS = (
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", "BYMONTHDAY", "BYMONTH"),
    *("BYSETPOS", "BYYEARDAY", "BYWEEKNO"),
)
"""Parts of a rule that recurs at most once a day (RFC 5545, 3.3.10)."""
_EXPANDED = frozenset({"FREQ", "INTERVAL", "WKST", "BYDAY"})
_Span = tuple[datetime, datetime]
_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def check_maintenance(maintenance: stack_file.GkeMaintenance | None) -> Checked[None]:
    if maintenance is None:
        return
    if isinstance(maintenance.window, stack_file.RecurringMaintenance):
        yield from _check_recurring(maintenance.window)
    yield from _check_exclusions(maintenance.exclusions)


@rule("gke-maintenance-window")
def _check_recurring(window: stack_file.RecurringMaintenance) -> Checked[None]:
    length = _time(window.end) - _time(window.start)
    if length <= timedelta(0):
        yield refuse(
            (*_WINDOW, "end"),
            f"{window.end} is not after the start, {window.start}",
            "write the end of the first window",
            "GKE API, RecurringTimeWindow.window",
        )
        return
    rule = _parts(window.recurrence)
    if unknown := sorted(set(rule) - set(_PARTS)):
        yield refuse(
            (*_WINDOW, "recurrence"),
            f"{listed(unknown)} cannot be used: the rule may recur at most once a day",
            f"leave it out; known: {listed(_PARTS)}",
            "RFC 5545, 3.3.10",
        )
        return
    least = _least_available(_time(window.start), length, rule)
    if least is not None and least < _LEAST_OF_RANGE:
        yield refuse(
            _WINDOW,
            f"some {_RANGE.days} days have only {_hours(least)} hours in windows of at least 4 "
            "hours, and GKE requires 48",
            "make the windows longer, or have them on more days",
            _DOCS,
        )


@rule("gke-maintenance-exclusion")
def _check_exclusions(exclusions: tuple[stack_file.MaintenanceExclusion, ...]) -> Checked[None]:
    at: stack_file.Path = (*_AT, "exclusions")
    if len(exclusions) > _MOST_EXCLUSIONS:
        yield refuse(
            at,
            f"{len(exclusions)} exclusions are too many: a cluster has at most {_MOST_EXCLUSIONS}",
            "remove exclusions whose end has passed",
            _DOCS,
        )
    without = [i for i, e in enumerate(exclusions) if e.scope == "no-upgrades"]
    if len(without) > _MOST_WITHOUT_UPGRADES:
        yield refuse(
            (*at, without[_MOST_WITHOUT_UPGRADES]),
            f"{len(without)} exclusions of all upgrades are too many: a cluster has at most "
            f"{_MOST_WITHOUT_UPGRADES}",
            "write scope: no-minor-or-node-upgrades",
            _DOCS,
        )
    names: set[str] = set()
    for i, exclusion in enumerate(exclusions):
        if exclusion.name in names:
            yield refuse(
                (*at, i, "name"),
                f"{exclusion.name} is the name of another exclusion too",
                "write another name",
                "GKE API, MaintenanceWindow.maintenanceExclusions",
            )
        names.add(exclusion.name)
        length = _time(exclusion.end) - _time(exclusion.start)
        if length <= timedelta(0):
            yield refuse(
                (*at, i, "end"),
                f"{exclusion.end} is not after the start, {exclusion.start}",
                "write a later time",
                "GKE API, TimeWindow",
            )
        elif exclusion.scope == "no-upgrades" and length > _LONGEST_WITHOUT_UPGRADES:
            yield refuse(
                (*at, i, "end"),
                f"{length.days} days are too many: GKE does without all upgrades for at most "
                f"{_LONGEST_WITHOUT_UPGRADES.days}",
                "write an earlier end, or scope: no-minor-or-node-upgrades",
                _DOCS,
            )


def _least_available(
    start: datetime, length: timedelta, rule: Mapping[str, str]
) -> timedelta | None:
    """Maintenance time of the 92 days that have the least of it.

    None if the rule has a part that is not expanded here: GKE then decides whether it is enough.
    """
    if set(rule) - _EXPANDED or rule["FREQ"] not in ("DAILY", "WEEKLY"):
        return None
    if not rule.get("INTERVAL", "1").isdigit() or rule.get("INTERVAL") == "0":
        return None
    weekdays = rule["BYDAY"].split(",") if "BYDAY" in rule else []
    if not set(weekdays) <= set(_DAYS) or rule.get("WKST", "MO") != "MO":
        return None
    windows = [
        w for w in _joined(_windows(start, length, rule, weekdays)) if w[1] - w[0] >= _LEAST_AT_ONCE
    ]
    last = start + timedelta(days=_LOOKED_AT) - _RANGE
    begins = [start, *(end for _, end in windows), *(begin - _RANGE for begin, _ in windows)]
    until = _Availability(windows)
    return min(until(begin + _RANGE) - until(begin) for begin in begins if start <= begin <= last)


class _Availability:
    """How much of windows in order of time has passed at a time."""

    def __init__(self, windows: Sequence[_Span]) -> None:
        self._windows = windows
        self._begins = [begin for begin, _ in windows]
        self._before = [timedelta(0)]
        for begin, end in windows:
            self._before.append(self._before[-1] + (end - begin))

    def __call__(self, time: datetime) -> timedelta:
        begun = bisect_right(self._begins, time)
        if not begun:
            return timedelta(0)
        begin, end = self._windows[begun - 1]
        return self._before[begun - 1] + (min(time, end) - begin)


def _windows(
    start: datetime, length: timedelta, rule: Mapping[str, str], weekdays: list[str]
) -> Iterator[_Span]:
    """Yields the windows in order of time, over the examined days."""
    interval = int(rule.get("INTERVAL", "1"))
    first_week = _monday(start.date())
    for n in range(_LOOKED_AT):
        begin = start + timedelta(days=n)
        if rule["FREQ"] == "DAILY":
            due = n % interval == 0 and (not weekdays or _DAYS[begin.weekday()] in weekdays)
        else:
            weeks = (_monday(begin.date()) - first_week).days // 7
            days = weekdays or [_DAYS[start.weekday()]]
            due = weeks % interval == 0 and _DAYS[begin.weekday()] in days
        if due:
            yield begin, begin + length


def _joined(windows: Iterator[_Span]) -> list[_Span]:
    """Windows that touch are one."""
    spans: list[_Span] = []
    for begin, end in windows:
        if spans and begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((begin, end))
    return spans


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _parts(recurrence: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in recurrence.split(";"))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _hours(length: timedelta) -> str:
    return f"{length / timedelta(hours=1):g}"

"""Heartbeats wake nobody, and everything else does."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from slicewright.fleet_controller.cluster import news
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Joined, Node
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.shares import NodeLock

_OTHER: dict[str, Any] = {
    "taint_keys": ("another",),
    "labels": {"another": "label"},
    "ready": False,
    "leaving": True,
    "unschedulable": True,
    "created": 1.0,
    "condition": Condition(status="True", reason="R", message="m", changed=1.0, written=1.0),
    "joined": Joined(pool="p", labels={}),
    "time": 5.0,
}


def test_a_heartbeat_of_a_node_is_no_news(node: Node) -> None:
    assert not news.of_node(node, replace(node, version="101"))


def test_hamis_lock_of_a_node_is_no_news(node: Node) -> None:
    """It comes and goes with each pod."""
    assert not news.of_node(node, replace(node, share_lock=NodeLock(since=1.0, pod="models/p")))


@pytest.mark.parametrize(
    "name",
    [one.name for one in fields(Node) if one.name not in ("version", "share_lock")],
)
def test_whatever_else_changes_on_a_node_is_news(name: str, node: Node) -> None:
    assert news.of_node(node, replace(node, **{name: _OTHER.get(name, "another")}))


@pytest.mark.parametrize("later", [0.0, 0.5, 360.0, 420.0])
def test_a_renewed_report_is_no_news(later: float, report: Report) -> None:
    assert not news.of_report(report, replace(report, time=report.time + later))


@pytest.mark.parametrize("name", [one.name for one in fields(Report) if one.name != "time"])
def test_whatever_else_a_report_says_is_news(name: str, report: Report) -> None:
    renewed = replace(report, time=report.time + 360)
    assert news.of_report(report, replace(renewed, **{name: "another"}))


@pytest.mark.parametrize("late", [420.5, 9000.0, -1.0])
def test_a_report_that_comes_late_or_from_another_clock_is_news(
    late: float, report: Report
) -> None:
    """The one before it may have been too old, or too far in the future, to count."""
    assert news.of_report(report, replace(report, time=report.time + late))


def test_what_comes_and_what_goes_is_news(node: Node, report: Report) -> None:
    assert news.of_node(None, node)
    assert news.of_node(node, None)
    assert news.of_report(None, report)
    assert news.of_report(report, None)

"""Alerts and the dashboard of cards that an engine shares: only with an engine, and what fires."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewright.infra import manifests
from slicewright.infra.manifests.monitoring.objects import rule_groups
from slicewright.infra.manifests.monitoring.rules import Alert, as_groups
from tests.infra.manifests.monitoring.promtool import Case, run
from tests.infra.manifests.monitoring.test_settings import STACK, planned

T4 = {
    "name": "a",
    "gpu": {"model": "T4", "count": 2},
    "nodes": {"count": 1},
    "sharing": "fractional",
}
SHARED = planned(STACK, node_pools=[T4], fractional={"provider": "volcano"})
GROUPS = rule_groups(SHARED)
NAMES = ("SlicewrightPodWithoutShare", "SlicewrightCardOvercommitted")
CARD = 'slicewright_card_%s{pool="a",node="n",uuid="GPU-0",state="%s",instance="one"}'
DOCS = Path(__file__).parents[4] / "docs/reference/alerts.md"


def card(memory: str, compute: str) -> dict[str, str]:
    """The allocated amounts. Registered are 16 bytes, and all of the compute."""
    return {
        CARD % ("memory_bytes", "registered"): "16",
        CARD % ("memory_bytes", "allocated"): memory,
        CARD % ("compute_ratio", "registered"): "1",
        CARD % ("compute_ratio", "allocated"): compute,
    }


def without(count: str) -> dict[str, str]:
    return {'slicewright_pods_without_share{pool="a",instance="one"}': count}


CASES = [
    Case(rule=NAMES[0], why="a pod", series=without("1"), labels=[{"pool": "a"}]),
    Case(rule=NAMES[0], why="no pod", series=without("0")),
    Case(rule=NAMES[1], why="full", series=card("16", "1")),
    Case(
        rule=NAMES[1],
        why="memory",
        series=card("17", "1"),
        labels=[{"node": "n", "uuid": "GPU-0"}],
    ),
    Case(
        rule=NAMES[1],
        why="compute",
        series=card("16", "1.2"),
        labels=[{"node": "n", "uuid": "GPU-0"}],
    ),
]


def alert_names(fleet: object) -> set[str]:
    groups = rule_groups(fleet)  # type: ignore[arg-type]
    return {rule.name for group in groups for rule in group.rules if isinstance(rule, Alert)}


def test_a_fleet_has_alerts_and_dashboard_of_shares_only_with_an_engine() -> None:
    plain = planned(STACK)
    assert alert_names(SHARED) - alert_names(plain) == set(NAMES)
    assert not alert_names(plain) & set(NAMES)
    uids = [board.uid for board in manifests.dashboards_of(SHARED)]
    assert uids[:-1] == [board.uid for board in manifests.dashboards_of(plain)]
    assert uids[-1] == "slicewright-cards"
    created = {one["metadata"]["name"] for one in manifests.monitoring_objects(SHARED)}
    assert "slicewright-cards" in created


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_runbook(name: str) -> None:
    assert re.search(rf"^## {name}$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)


def test_alerts_fire_as_described(one_tool: Callable[[str], Path], tmp_path: Path) -> None:
    result = run(one_tool("promtool"), tmp_path, as_groups(GROUPS, runbooks=""), CASES)
    assert result.returncode == 0, result.stdout + result.stderr

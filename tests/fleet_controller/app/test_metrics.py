"""docs/reference/controller.md has every metric of the controller, with its type and labels."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from slicewright.apis.shares.registration import RegisteredCard
from slicewright.fleet_controller.app import metrics
from slicewright.fleet_controller.app.loop import Progress
from slicewright.fleet_controller.decision.actions import RemoveStartupTaint
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.layout_change import Change
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.shares import PoolShares
from tests.fleet_controller.decision.test_shares import pod

NOW = 1_800_000_000.0
_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "controller.md"


CARD = RegisteredCard(
    uuid="GPU-0",
    slots=10,
    memory_units=15360,
    compute_percent=100,
    healthy=True,
    mode="hami-core",
)


def _progress() -> Progress:
    made = Progress()
    made.count(RemoveStartupTaint(node="n", position=0, boot_id="b", layout=None), "done")
    return made


def _exported(pool: Pool, node: Node, *, leads: bool) -> dict[str, tuple[str, set[str]]]:
    status = {"nodes": {"verified": 2}, "conditions": [{"type": "Verified", "status": "True"}]}
    shares = PoolShares(engine="volcano", namespace="volcano-system")
    pools = [replace(pool, status=status, shares=shares)]
    node = replace(node, registered=(CARD,))
    text = metrics.text(
        _progress(),
        pools,
        [node],
        NOW,
        leads=leads,
        unreadable={"GPUPool": 1},
        pods_on=lambda name: (pod("volcano", "GPU-0,NVIDIA,1024,10:;"),),
    )
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, found in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        of = re.sub(r"_(bucket|sum|count)$", "", name)
        name = of if kinds.get(of) == "histogram" else name
        labels.setdefault(name, set()).update(set(re.findall(r'(\w+)="', found)) - {"le"})
    return {name: (kinds[name], found) for name, found in labels.items()}


def test_the_page_is_what_is_exported(pool: Pool, node: Node) -> None:
    rows = re.findall(
        r"^\| `(slicewright_\w+)` \| (\w+) \| (.*?) \|", _PAGE.read_text(), re.MULTILINE
    )
    written = {name: (kind, set(re.findall(r"`(\w+)`", words))) for name, kind, words in rows}
    assert _exported(pool, node, leads=True) == written


def test_only_the_acting_replica_exports_pool_metrics(pool: Pool, node: Node) -> None:
    """A sum over both would count each node twice."""
    standing_by = _exported(pool, node, leads=False)
    assert "slicewright_controller_leads" in standing_by
    assert not [name for name in standing_by if name.startswith("slicewright_pool")]


def _ages(pool: Pool, *nodes: Node) -> dict[str, float]:
    text = metrics.text(_progress(), [pool], nodes, NOW, leads=True)
    found = re.findall(
        r'^slicewright_pool_state_age_seconds\{pool="halves",state="(\w+)"\} (\S+)$',
        text,
        re.MULTILINE,
    )
    return {state: float(age) for state, age in found}


def test_the_age_of_a_state_is_that_of_the_node_that_has_been_longest_in_it(
    pool: Pool, node: Node
) -> None:
    def with_condition(status: str, ago: float) -> Node:
        at = NOW - ago
        said = Condition(status=status, reason="R", message="m", changed=at, written=at)
        return replace(node, name=f"{status}-{ago}", condition=said)

    nodes = [with_condition(s, ago) for s in ("True", "False") for ago in (10, 500, 20)]
    assert _ages(pool, node, *nodes) == {"verified": 500, "failing": 500, "unknown": 60}
    foreign = replace(node, name="foreign", labels={})
    assert _ages(pool, foreign) == {}, "a node of no pool"


def test_a_failed_change_is_as_old_as_its_failure_and_the_change_as_its_cordon(
    pool: Pool, node: Node
) -> None:
    change = Change(
        node_uid=node.uid,
        target="new",
        phase="Failed",
        since=NOW - 30,
        started=NOW - 700,
        cordoned=True,
    )
    noted = replace(node, change=change.dump())
    assert _ages(pool, noted) == {"unknown": 60, "changing": 700, "failed": 30}


def _observed(progress: Progress, of: str) -> dict[str, float]:
    text = metrics.text(progress, [], [], NOW, leads=True)
    found = re.findall(rf'^{of}_(bucket|sum|count)(?:{{le="(.*)"}})? (\S+)$', text, re.MULTILINE)
    return {le or kind: float(value) for kind, le, value in found}


def test_a_node_counts_once_in_the_time_until_nodes_are_verified(node: Node) -> None:
    made = Progress()
    made.durations.verified(node, NOW)
    made.durations.verified(replace(node, verified_boot="b0"), NOW)
    made.durations.verified(replace(node, taint_keys=()), NOW)
    found = _observed(made, "slicewright_node_verified_seconds")
    assert (found["30"], found["60"], found["+Inf"], found["sum"]) == (0, 1, 1, 60)


def test_only_a_change_that_came_through_has_a_duration(node: Node) -> None:
    made = Progress()
    for phase in ("Draining", "Failed", "Applying"):
        change = Change(
            node_uid=node.uid,
            target="new",
            phase=phase,
            since=NOW - 30,
            started=NOW - 200,
            cordoned=True,
        )
        labels = {"nvidia.com/mig.config": "new"}
        made.durations.changed(replace(node, change=change.dump(), labels=labels), NOW)
    found = _observed(made, "slicewright_node_layout_change_seconds")
    assert (found["120"], found["300"], found["count"], found["sum"]) == (0, 1, 1, 200)

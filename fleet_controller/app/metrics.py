"""The controller's metrics, in Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from slicewright.fleet_controller.app.progress import Progress
from slicewright.fleet_controller.app.share_metrics import PodsOn, share_families
from slicewright.fleet_controller.cluster.durations import Durations
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.telemetry.prometheus import Family, Sample, labels, lines

_STATES: Final = ("verified", "failing", "unknown", "changing", "failed")
"""States of nodes. The last two are of a rollout. Such a node also has one of the first three."""
_OF_STATUS: Final = {"True": "verified", "False": "failing", "Unknown": "unknown"}


def text(
    progress: Progress,
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    now: float,
    *,
    leads: bool,
    unreadable: Mapping[str, int] = MappingProxyType({}),
    pods_on: PodsOn = lambda node: (),
) -> str:
    """Returns the page of this process.

    leads: True if this process acts. Only that process reports pools and nodes, so that a sum over
    all processes counts each node once.
    now: seconds since the epoch.
    unreadable: kind -> number of its objects that cannot be read.
    pods_on: the pods of a node, for shares of its GPUs.
    """
    families = (
        Family(
            "slicewright_controller_leads",
            "gauge",
            "1 if this replica acts, 0 if it stands by.",
            (Sample("", float(leads)),),
        ),
        *_pool_families(pools if leads else ()),
        *_duration_families(progress.durations),
        *_loop_families(progress),
        _unreadable(unreadable),
        _faults(progress),
        *(_ages(pools, nodes, now) if leads else ()),
        *(share_families(pools, nodes, pods_on) if leads else ()),
    )
    return "".join(f"{line}\n" for family in families for line in lines(family))


def _unreadable(count_by_kind: Mapping[str, int]) -> Family:
    return Family(
        "slicewright_controller_unreadable_objects",
        "gauge",
        "Objects that cannot be read at present, by kind.",
        tuple(Sample(labels(kind=kind), n) for kind, n in sorted(count_by_kind.items())),
    )


def _faults(progress: Progress) -> Family:
    return Family(
        "slicewright_controller_faults_total",
        "counter",
        "Unexpected exceptions, by the part of the controller that they interrupted.",
        tuple(Sample(labels(part=part), n) for part, n in sorted(progress.faults.items())),
    )


def _ages(pools: Sequence[Pool], nodes: Sequence[Node], now: float) -> Iterable[Family]:
    oldest: dict[tuple[str, str], float] = {}
    for pool, members in memberships(pools, nodes):
        for node in members:
            for state, since in _states(node):
                key = (pool.name, state)
                oldest[key] = max(oldest.get(key, 0.0), now - since)
    yield Family(
        "slicewright_pool_state_age_seconds",
        "gauge",
        "Time that a pool's node has been in a state, for the node that has been in it longest.",
        tuple(
            Sample(labels(pool=pool, state=state), round(age))
            for (pool, state), age in sorted(oldest.items())
        ),
    )


def _states(node: Node) -> Iterable[tuple[str, float]]:
    """Yields each state with its beginning."""
    if node.condition is None:
        yield "unknown", node.created
    else:
        yield _OF_STATUS.get(node.condition.status, "unknown"), node.condition.changed
    if change := change_of(node):
        yield "changing", change.started
        if change.phase == "Failed":
            yield "failed", change.since


def _pool_families(pools: Sequence[Pool]) -> tuple[Family, ...]:
    pools = sorted(pools, key=lambda pool: pool.name)
    return (
        Family(
            "slicewright_pool_nodes",
            "gauge",
            "Nodes of a pool by state.",
            tuple(
                Sample(
                    labels(pool=pool.name, state=state), pool.status.get("nodes", {}).get(state, 0)
                )
                for pool in pools
                for state in _STATES
            ),
        ),
        Family(
            "slicewright_pool_condition",
            "gauge",
            "1 if the condition of a pool is True, else 0.",
            tuple(
                Sample(
                    labels(pool=pool.name, condition=each["type"]), float(each["status"] == "True")
                )
                for pool in pools
                for each in pool.status.get("conditions", ())
            ),
        ),
    )


def _duration_families(durations: Durations) -> tuple[Family, ...]:
    return (
        Family(
            "slicewright_node_verified_seconds",
            "histogram",
            "Time from the creation of a node until it is verified for the first time.",
            durations.to_verified.samples(),
        ),
        Family(
            "slicewright_node_layout_change_seconds",
            "histogram",
            "Time of a layout change of a node in service, from its cordon to its end.",
            durations.of_changes.samples(),
        ),
    )


def _loop_families(progress: Progress) -> tuple[Family, ...]:
    return (
        Family(
            "slicewright_controller_actions_left",
            "gauge",
            "Actions that the last pass has postponed to the next one.",
            (Sample("", progress.postponed),),
        ),
        Family(
            "slicewright_controller_actions_total",
            "counter",
            "Actions of the controller, by kind and result.",
            tuple(
                Sample(labels(action=action, result=result), count)
                for (action, result), count in sorted(progress.done.items())
            ),
        ),
        Family(
            "slicewright_controller_passes_total",
            "counter",
            "Passes of the control loop.",
            (Sample("", progress.passes),),
        ),
        Family(
            "slicewright_controller_pass_seconds_total",
            "counter",
            "Time spent in passes of the control loop.",
            (Sample("", progress.pass_s),),
        ),
    )

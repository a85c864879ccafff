"""Compares the declared layout with the silicon, by the agents' readings. Pure.

The fleet controller has judged the readings.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from slicewright.apis.shares.engines import ENGINES
from slicewright.drift.findings import Between, Finding, Unseen
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.objects.node import Node
from slicewright.infra import manifests
from slicewright.infra.plan import FleetPlan, GkeFleetPlan, PoolPlan
from slicewright.live import next_steps
from slicewright.live.fleet import fleet_of
from slicewright.live.reading import ClusterObjects
from slicewright.live.views import PoolView, State
from slicewright.telemetry.plain import shortened

_PARTITIONS: Final = frozenset(
    ("WrongLayout", "LayoutIncomplete", "NotPartitioned", "UnwantedMig", "ComputeInstanceMissing")
)
"""Reasons for partitioning the GPUs again. Source: slicewright.node_agent.verdict."""


_REGISTRATIONS: Final = frozenset(("CardsNotRegistered", "CardsRegisteredWrong"))
"""Reasons for restarting the device plugin of an engine for fractions."""


_LONGEST_REASON, _LONGEST_MESSAGE = 253, 4096


def silicon_drift(
    objects: ClusterObjects, fleet: FleetPlan, stack: str, now: float
) -> tuple[list[Finding], list[Unseen]]:
    """objects: the objects of the stack's cluster. now: seconds since the epoch."""
    plans = {pool.name: pool for pool in fleet.pools}
    nodes = {
        pool.name: members
        for pool, members in memberships(objects.pools, objects.nodes)
        if pool.name in plans
    }
    findings: list[Finding] = []
    unseen: list[Unseen] = []
    if objects.controller == 0:
        unseen.append(
            _unseen(
                "the fleet controller does not run, so the state of pools may be outdated",
                "kubectl -n slicewright-system describe deployment fleet-controller",
            )
        )
    unseen += (_unseen(str(unread), "") for unread in objects.unread_objects)
    for view in fleet_of(objects, frozenset(plans), now).pools:
        members = nodes.get(view.name, ())
        for result in _of_pool(view, members, plans[view.name], fleet, stack):
            if isinstance(result, Finding):
                findings.append(result)
            else:
                unseen.append(result)
    return findings, unseen


def _of_pool(
    view: PoolView, nodes: Sequence[Node], pool: PoolPlan, fleet: FleetPlan, stack: str
) -> Iterator[Finding | Unseen]:
    where = f"pool {view.name}"
    if view.state is State.MISSING:
        yield _finding(
            where, "the cluster has no GPUPool of this name", f"pulumi up --refresh --stack {stack}"
        )
        return
    if view.state is State.CHANGING:
        yield _unseen(
            f"{where}: its layout is being changed ({view.reason}): {view.message}",
            f"slicewright status -s {stack} --watch",
        )
        return
    results = [
        result for node in nodes for result in _of_node(node, pool, fleet, undo=view.undo_helps)
    ]
    yield from results
    if not results and view.state is not State.VERIFIED:
        text = f"{view.reason}: {view.message}"
        if view.state is State.SETTING_UP:
            yield _unseen(f"{where}: {text}", f"slicewright status -s {stack} --watch")
        else:
            # Too few nodes, or a rollout that people stopped: no node is the cause.
            yield _finding(where, text, next(iter(view.next), ""))


def _of_node(
    node: Node, pool: PoolPlan, fleet: FleetPlan, *, undo: bool
) -> Iterator[Finding | Unseen]:
    condition = node.condition
    if condition is not None and condition.status == "True":
        return
    reason = condition.reason if condition else "NotSeenYet"
    message = condition.message if condition else "the fleet controller has not processed it yet"
    step = next_steps.node_step(reason, node=node.name, pool=pool.name, undo=undo)
    reason, message = shortened(reason, _LONGEST_REASON), shortened(message, _LONGEST_MESSAGE)
    if condition is None or condition.status != "False":
        yield _unseen(f"node {node.name}: {reason}: {message}", step)
        return
    yield _finding(
        f"node {node.name}", f"{reason}: {message}", _again(reason, node, pool, fleet) or step
    )


def _again(reason: str, node: Node, pool: PoolPlan, fleet: FleetPlan) -> str:
    """The command that has the node's GPUs partitioned or registered again. Empty if that would
    not help.
    """
    name = shlex.quote(node.name)
    shares = pool.offer.expected.shares
    if shares is not None and reason in _REGISTRATIONS:
        (plugin,) = (chart for chart in manifests.engine_charts(fleet) if chart.device_plugin)
        namespace = shlex.quote(plugin.namespace)
        return (
            f"kubectl -n {namespace} delete pod -l {ENGINES[shares.engine].plugin_pods} "
            f"--field-selector spec.nodeName={name}"
        )
    if reason not in _PARTITIONS:
        return ""
    if pool.offer.mig_config is not None and fleet.operator is not None:
        namespace = shlex.quote(fleet.operator.namespace)
        # mig-manager compares the GPUs with the node's label when it starts, and never later.
        return (
            f"kubectl -n {namespace} delete pod -l app=nvidia-mig-manager "
            f"--field-selector spec.nodeName={name}"
        )
    if isinstance(fleet, GkeFleetPlan):
        # GKE partitions once, when it creates the node. The pool replaces a deleted node.
        return f"gcloud compute instances delete {name} --zone {shlex.quote(node.zone)}"
    return ""


def _finding(where: str, difference: str, heal: str) -> Finding:
    return Finding(
        between=Between.SILICON, where=where, difference=" ".join(difference.split()), heal=heal
    )


def _unseen(why: str, remedy: str) -> Unseen:
    return Unseen(between=Between.SILICON, why=" ".join(why.split()), remedy=remedy)

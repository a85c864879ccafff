"""The order of a pool's nodes in a change of their layout or driver. Pure.

The controller's own decision (`rollout`) is repeated, and every node that begins is assumed to end
well. So the forecast follows the same policy, and cannot differ from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slicewright.apis.names import MIG_CONFIG_LABEL, MIG_STATE_LABEL, STARTUP_TAINT_KEY
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.rollout import decide_rollout
from slicewright.fleet_controller.rollout.rollout_queue import Assessed

_VERIFIED = Assessment(status="True", reason="PartitionsMatch", message="")


@dataclass(frozen=True, kw_only=True)
class Forecast:
    waves: tuple[tuple[str, ...], ...]
    """Nodes in the order of their start. The nodes of a wave begin together. Nodes that are in the
    middle of a change already are the first. The next wave does not always wait for the last node
    of this one.
    """
    later: tuple[str, ...]
    """Nodes after these waves, by name."""
    blocked: tuple[str, ...]
    """Nodes that would wait for ever as things are: they are not Ready, or too many others are out.
    If there are more waves than requested, they are not known, and are among `later`.
    """
    steps: int
    """Number of waves in all. The part for `later` is an upper bound."""


def forecast(
    pool: Pool,
    members: Sequence[Assessed],
    pods: Mapping[str, tuple[NodePod, ...]] | None = None,
    *,
    most: int,
) -> Forecast:
    """Predicts the waves of a rollout.

    members: the pool's nodes with their own assessments.
    pool: the pool as it shall be. Requests to pause or abort its rollout are ignored.
    most: number of waves to predict. Each one takes a decision over all nodes.
    """
    if pool.mig_config is None and pool.driver is None:
        # Changes that are under way in such a pool are ended as they are.
        return Forecast(waves=(), later=(), blocked=(), steps=0)
    pool = replace(pool, suspended="")
    verified = replace(_VERIFIED, driver=pool.driver or "")
    now = {node.name: (node, base) for node, base in members}
    waves: list[tuple[str, ...]] = []
    while True:
        rollout = decide_rollout(pool, list(now.values()), pods or {}, {}, 0.0)
        wave = tuple(name for name in rollout.changing if name not in rollout.failed)
        if not wave:
            blocked = tuple(sorted((*rollout.waiting, *rollout.failed)))
            return Forecast(waves=tuple(waves), later=(), blocked=blocked, steps=len(waves))
        if len(waves) == most:
            later = tuple(sorted((*wave, *rollout.waiting)))
            steps = len(waves) + _steps(pool, [now[name][0] for name in later], len(members))
            return Forecast(waves=tuple(waves), later=later, blocked=(), steps=steps)
        waves.append(wave)
        for name in wave:
            now[name] = (_changed(now[name][0], pool), verified)


def _steps(pool: Pool, nodes: Sequence[Node], of: int) -> int:
    """Returns the number of waves of `nodes`, one zone after the other if the policy says so.

    of: number of nodes in the pool.
    """
    limit = pool.policy.limit(of)
    by_zone = Counter(pool.policy.zone_group(node.zone) for node in nodes)
    # In the worst case the canaries are still to come, one node at a time.
    return pool.policy.canaries(of) + sum(-(-count // limit) for count in by_zone.values())


def _changed(node: Node, pool: Pool) -> Node:
    """Returns the node as it is after its change: verified, and in service."""
    change = change_of(node)
    layout = (
        {MIG_CONFIG_LABEL: pool.mig_config, MIG_STATE_LABEL: "success"} if pool.mig_config else {}
    )
    return replace(
        node,
        labels={**node.labels, **layout},
        change="",
        # A cordon that somebody else set stays, and counts.
        unschedulable=node.unschedulable and not (change is not None and change.cordoned),
        ready=True,
        taint_keys=tuple(key for key in node.taint_keys if key != STARTUP_TAINT_KEY),
        verified_boot=node.boot_id,
    )

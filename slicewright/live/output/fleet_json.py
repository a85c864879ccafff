"""The state of a fleet as JSON (docs/reference/status-json.md).

`version` changes when a key is removed or changes.
"""

from __future__ import annotations

from typing import Any

from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.live.shared_cards import CardsView
from slicewright.live.views import Fleet, GpuGroup, NodeView, PoolView, ProofView, RolloutView

VERSION = 1


def as_json(fleet: Fleet, *, context: str, server: str, now: float) -> dict[str, Any]:
    return {
        "version": VERSION,
        "context": context,
        "server": server,
        "time": stamp(now),
        "state": fleet.worst.value,
        "notes": list(fleet.notes),
        "unread": [
            {"kind": item.kind, "name": item.name, "why": item.why} for item in fleet.unread
        ],
        "pools": [_pool(pool) for pool in fleet.pools],
    }


def _pool(pool: PoolView) -> dict[str, Any]:
    fewest, most = pool.node_bounds
    return {
        "name": pool.name,
        "state": pool.state.value,
        "reason": pool.reason,
        "message": pool.message,
        "next": list(pool.next),
        "layout": pool.layout or None,
        "declared": pool.declared or None,
        "wanted": {"min": fewest, "max": most},
        "nodes": {"total": pool.total, "verified": pool.verified, "held": pool.held},
        "gpus": [_group(group) for group in pool.gpus],
        "compute": _proof(pool.proof) if pool.proof else None,
        "rollout": _rollout(pool.rollout) if pool.rollout else None,
        "members": [_node(node) for node in pool.nodes],
        "cards": _cards(pool.cards) if pool.cards else None,
    }


def _cards(view: CardsView) -> dict[str, Any]:
    return {
        "nodes": [
            {
                "node": node.name,
                "cards": [
                    {
                        "memory_mib": card.card.memory_mib,
                        "free_mib": card.free_mib,
                        "compute_percent": card.card.compute_percent,
                        "free_percent": card.free_percent,
                        "healthy": not card.card.lost,
                        "pods": sorted({share.pod for share in card.shares}),
                    }
                    for card in node.cards
                ],
            }
            for node in view.nodes
        ],
        "closed": list(view.closed),
        "waiting": [
            {"pod": pod.pod, "why": pod.why, "cards": list(pod.cards)} for pod in view.waiting
        ],
    }


def _group(group: GpuGroup) -> dict[str, Any]:
    return {
        "model": group.model or None,
        "mig": group.mig,
        "instances": dict(group.instances),
        "gpus": group.gpus,
        "nodes": list(group.nodes),
    }


def _proof(proof: ProofView) -> dict[str, Any]:
    return {
        "nodes": proof.proven,
        "devices": proof.devices,
        "read_gb_s": list(proof.read_gb_s) if proof.read_gb_s else None,
        "without": list(proof.without),
        "failed": [vars(device) for device in proof.failed],
    }


def _rollout(rollout: RolloutView) -> dict[str, Any]:
    return {
        "layout": rollout.layout,
        "asked": rollout.suspended or None,
        "done": rollout.done,
        "changing": list(rollout.changing),
        "cut": list(rollout.irreversible),
        "failed": list(rollout.failed),
        "waves": [list(wave) for wave in rollout.waves],
        "later": list(rollout.later),
        "left": list(rollout.blocked),
    }


def _node(node: NodeView) -> dict[str, Any]:
    return {
        "name": node.name,
        "zone": node.zone or None,
        "verified": node.verified,
        "held": node.held,
        "quarantined": node.quarantined,
        "cordoned": node.cordoned,
        "ready": node.ready,
        "layout": node.layout or None,
        "phase": node.phase or None,
        "since": None if node.since is None else stamp(node.since),
        "reason": node.reason,
        "message": node.message,
        "blockers": [
            {"pod": pod.pod, "why": pod.why, "leaves": pod.leaves} for pod in node.blockers
        ],
        "next": node.next or None,
    }

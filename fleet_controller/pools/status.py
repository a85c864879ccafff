"""The status of a GPUPool: its counts, its failing nodes and its conditions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from slicewright.apis.names import (
    DEGRADED,
    MAX_FAILING_NODES,
    PROGRESSING,
    READY,
    RECONCILING,
    SETTLED,
    STALLED,
    VERIFIED,
)
from slicewright.fleet_controller.membership.membership import keys_of
from slicewright.fleet_controller.objects.bounds import seconds, stamp
from slicewright.fleet_controller.objects.known_layouts import remembered
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.members import Member
from slicewright.fleet_controller.rollout.progress import progress_text
from slicewright.fleet_controller.rollout.rollout import Rollout

UNDONE = "RolloutUndone"
TOO_FEW_LIMIT_S = 1800.0
"""Time that a pool may have fewer nodes than it needs before it is Degraded. Clouds take up to a
quarter of an hour for a node with GPUs.
"""
EXAMPLES = 2
"""Number of a pool's nodes that its conditions describe in full."""


_SUSPENDED = {"paused": "RolloutPaused", "aborted": "RolloutAborted"}
"""User request for a rollout -> reason."""


def pool_status(
    pool: Pool, members: Sequence[Member], rollout: Rollout, now: float
) -> Mapping[str, Any]:
    bad = sorted(
        (m for m in members if m.assessment.status != "True"),
        key=lambda m: (m.assessment.status != "False", m.settling, m.node.name),
    )
    false = sum(m.assessment.status == "False" for m in members)
    joining = _joining(pool, members, bad)
    verified = _verified(pool, members, bad, joining, rollout)
    layouts = remembered(pool.declared, pool.status, verified=verified[0] and bool(members))
    settled = _settled(pool, members, verified, bad, rollout)
    since = None if settled[0] else _waiting_since(pool, now)
    too_few_since = _too_few_since(pool, members, now)
    overdue = too_few_since is not None and now >= seconds(too_few_since) + TOO_FEW_LIMIT_S
    progressing = _progressing(pool, members, joining, rollout, overdue=overdue)
    degraded = _degraded(pool, members, bad, joining, rollout, overdue=overdue)
    stalled = _stalled(verified, progressing, degraded, settled, bad)
    return {
        "observedGeneration": pool.generation,
        **({"waitingSince": since} if since else {}),
        **({"tooFewSince": too_few_since} if too_few_since else {}),
        **({"layout": pool.mig_config} if pool.mig_config else {}),
        **({"provenLayouts": layouts} if layouts else {}),
        **({"broughtLabels": list(brought)} if (brought := keys_of(pool)) else {}),
        "nodes": {
            "total": len(members),
            "verified": len(members) - len(bad),
            "failing": false,
            "unknown": len(bad) - false,
            "changing": len(rollout.changing),
            "failed": len(rollout.failed),
        },
        "failingNodes": [
            {"name": m.node.name, "reason": m.assessment.reason, "message": m.assessment.message}
            for m in bad[:MAX_FAILING_NODES]
        ],
        "conditions": [
            _condition(pool, VERIFIED, *verified, now),
            _condition(pool, PROGRESSING, *progressing, now),
            _condition(pool, DEGRADED, *degraded, now),
            _condition(pool, SETTLED, *settled, now),
            _condition(pool, READY, *verified, now),
            _condition(pool, RECONCILING, *_reconciling(verified, progressing, stalled), now),
            _condition(pool, STALLED, *stalled, now),
        ],
    }


def _waiting_since(pool: Pool, now: float) -> str | None:
    """Returns when a `pulumi up` may have begun to wait for this generation, or None once it has
    settled. Later changes, such as a node that joins, keep no `up` waiting.
    """
    if pool.status.get("observedGeneration") != pool.generation:
        return stamp(now)
    since: str | None = pool.status.get("waitingSince")
    return since


def _too_few_since(pool: Pool, members: Sequence[Member], now: float) -> str | None:
    """Returns since when the pool has had fewer nodes than this generation needs, or None."""
    if len(members) >= pool.fewest:
        return None
    since: str | None = pool.status.get("tooFewSince")
    if since is None or pool.status.get("observedGeneration") != pool.generation:
        return stamp(now)
    return since


def _verified(
    pool: Pool,
    members: Sequence[Member],
    bad: Sequence[Member],
    joining: Collection[str],
    rollout: Rollout,
) -> tuple[bool, str, str]:
    """Decides whether the nodes have the layout that the spec declares."""
    as_wanted, reason, message = _as_wanted(pool, members, bad, joining, rollout)
    if as_wanted and pool.undone:
        return False, UNDONE, f"{message}, {_undone_message(pool)}"
    return as_wanted, reason, message


def _undone_message(pool: Pool) -> str:
    assert pool.declared is not None, "what is not declared cannot be undone"
    return (
        f"with layout {pool.mig_config}, to which the change to {pool.declared.mig_config} was "
        f"undone. The stack file still declares {pool.declared.mig_config}, so `pulumi up` fails: "
        f"write {pool.mig_config} there; or, to change forward again, `slicewright rollout resume "
        f"{pool.name}`"
    )


def _as_wanted(
    pool: Pool,
    members: Sequence[Member],
    bad: Sequence[Member],
    joining: Collection[str],
    rollout: Rollout,
) -> tuple[bool, str, str]:
    """Decides whether the nodes have the layout that they are to have now."""
    if rollout.stopped in _SUSPENDED:
        return False, _SUSPENDED[rollout.stopped], progress_text(rollout, pool, len(members))
    if bad and bad[0].assessment.status != "False" and rollout.active:
        return False, "RollingOut", progress_text(rollout, pool, len(members))
    if replaced := [m for m in members if pool.is_to_replace(m.node)]:
        return False, "NodesBeingReplaced", _to_replace(pool, replaced, len(members))
    verified = len(members) - len(bad)
    young = [m for m in bad if m.node.name in joining]
    unverified = [m for m in bad if m.node.name not in joining]
    tolerated = _tolerated(pool, len(members), unverified, rollout)
    if unverified and not tolerated:
        reason = "NodesFailing" if bad[0].assessment.status == "False" else "NodesNotProven"
        return False, reason, f"{_not_verified(bad, members)}: {_examples(bad)}"
    if len(members) < pool.fewest:
        return False, "TooFewNodes", _too_few(pool, members)
    if not members:
        return True, "NoNodes", "the pool has no nodes and needs none"
    message = f"{_number(verified)} verified"
    if young:
        message += f"; {_nodes(young)} joining, held until verified: {_examples(young)}"
    if unverified:
        message += f"; {_are(unverified)} not, which the policy tolerates: {_examples(unverified)}"
        return True, "EnoughNodesProven", message
    return True, "AllNodesProven", message


def _joining(pool: Pool, members: Sequence[Member], bad: Sequence[Member]) -> Collection[str]:
    """Returns the names of nodes that came after the pool was verified with this generation.

    They are held, and the pool stays verified while they are being set up, as long as there are
    enough nodes without them.
    """
    if not _was_verified(pool) or len(members) - len(bad) < pool.fewest:
        return ()
    return {m.node.name for m in bad if m.joining}


def _was_verified(pool: Pool) -> bool:
    """True if the pool was verified with this generation."""
    condition = pool.condition(VERIFIED)
    return (
        condition is not None
        and condition.status == "True"
        and condition.generation == pool.generation
    )


def _tolerated(pool: Pool, total: int, unverified: Sequence[Member], rollout: Rollout) -> bool:
    """True if the policy lets the pool be verified without these nodes.

    Until the pool is verified, it waits for nodes that are being set up or changed, as they may yet
    be verified. Later the policy also tolerates a node that reboots.
    """
    if len(unverified) > pool.policy.tolerated(total):
        return False
    in_service = _was_verified(pool) and not rollout.active
    return in_service or not any(m.settling for m in unverified)


def _progressing(
    pool: Pool,
    members: Sequence[Member],
    joining: Collection[str],
    rollout: Rollout,
    *,
    overdue: bool,
) -> tuple[bool, str, str]:
    if rollout.stopped in _SUSPENDED:
        return False, _SUSPENDED[rollout.stopped], progress_text(rollout, pool, len(members))
    if rollout.active:
        going = rollout.stopped not in ("failed", "full")
        reason = "RollingOut" if going else "RolloutStopped"
        return going, reason, progress_text(rollout, pool, len(members))
    if replaced := [m for m in members if pool.is_to_replace(m.node)]:
        return True, "NodesBeingReplaced", _to_replace(pool, replaced, len(members))
    settling = [m for m in members if m.settling or m.node.name in joining]
    if settling:
        return True, "NodesBeingSetUp", f"{_are(settling)} being set up: {_examples(settling)}"
    if overdue:
        return False, "TooFewNodes", _too_few(pool, members)
    if len(members) < pool.fewest:
        return True, "WaitingForNodes", _too_few(pool, members)
    return False, "Settled", "no node is being set up"


def _degraded(
    pool: Pool,
    members: Sequence[Member],
    bad: Sequence[Member],
    joining: Collection[str],
    rollout: Rollout,
    *,
    overdue: bool,
) -> tuple[bool, str, str]:
    lasting = [m for m in bad if not m.settling and m.node.name not in joining]
    if lasting:
        return True, "NodesFailing", f"{_are(lasting)} not as wanted: {_examples(lasting)}"
    passing = {m.node.name for m in bad}
    if rollout.stopped == "full" and not passing & set(rollout.blocking):
        # They are verified and out nevertheless: somebody cordoned them.
        return True, "RolloutBlocked", progress_text(rollout, pool, len(members))
    if overdue:
        minutes = f"{TOO_FEW_LIMIT_S / 60:.0f} minutes"
        return True, "TooFewNodes", f"{_too_few(pool, members)}, for more than {minutes}"
    return False, "AsWanted", "no node has failed"


def _settled(
    pool: Pool,
    members: Sequence[Member],
    verified: tuple[bool, str, str],
    bad: Sequence[Member],
    rollout: Rollout,
) -> tuple[bool, str, str]:
    """Decides whether waiting changes nothing: the pool is verified, or more nodes stay wrong
    without help than the policy tolerates.
    """
    holds, reason, message = verified
    if holds or reason == UNDONE:
        return True, reason, message
    if rollout.stopped in _SUSPENDED and not rollout.applying:
        return True, reason, message
    stuck = [m for m in bad if m.stuck]
    # The percentage counts all expected nodes: the first to join may be the broken one.
    most = 0 if rollout.stopped else pool.policy.tolerated(max(len(members), pool.fewest))
    if len(stuck) > most:
        return True, "NodesFailing", f"{_are(stuck)} wrong: {_examples(stuck)}"
    return False, reason, message


def _reconciling(
    verified: tuple[bool, str, str],
    progressing: tuple[bool, str, str],
    stalled: tuple[bool, str, str],
) -> tuple[bool, str, str]:
    """Decides whether the pool may yet become what its spec declares without help."""
    if verified[0] or stalled[0]:
        return False, "NothingToWaitFor", "the pool is verified, or stalled"
    return True, *(progressing if progressing[0] else verified)[1:]


def _stalled(
    verified: tuple[bool, str, str],
    progressing: tuple[bool, str, str],
    degraded: tuple[bool, str, str],
    settled: tuple[bool, str, str],
    bad: Sequence[Member],
) -> tuple[bool, str, str]:
    """Decides whether the pool differs from its spec, and somebody has to act."""
    if settled[0] and not verified[0]:
        return True, *settled[1:]
    # A finding that has only just been made may come from mid-change.
    fleeting = degraded[1] == "NodesFailing" and not any(m.warns for m in bad)
    if degraded[0] and not verified[0] and not progressing[0] and not fleeting:
        return True, *degraded[1:]
    return False, "NotStalled", "the pool is verified, or can still become so"


def _examples(members: Sequence[Member]) -> str:
    """Describes the first nodes with reason and message. The others are in failingNodes."""
    text = "; ".join(
        f"{m.node.name} {m.assessment.reason}: {m.assessment.message}" for m in members[:EXAMPLES]
    )
    more = len(members) - EXAMPLES
    return text + (f"; and {more} more" if more > 0 else "")


def _condition(
    pool: Pool, kind: str, holds: bool, reason: str, message: str, now: float
) -> dict[str, Any]:
    old = pool.condition(kind)
    status = "True" if holds else "False"
    return {
        "type": kind,
        "status": status,
        "observedGeneration": pool.generation,
        "lastTransitionTime": stamp(old.changed if old and old.status == status else now),
        "reason": reason,
        "message": message,
    }


def _are(members: Sequence[Member]) -> str:
    return f"{_nodes(members)} {'is' if len(members) == 1 else 'are'}"


def _not_verified(bad: Sequence[Member], members: Sequence[Member]) -> str:
    be = "is" if len(bad) == 1 else "are"
    return f"{len(bad)} of {_number(len(members))} {be} not verified"


def _to_replace(pool: Pool, replaced: Sequence[Member], total: int) -> str:
    return (
        f"{len(replaced)} of {_number(total)} booted with another layout than {pool.boot_layout}; "
        "the cloud replaces nodes until all have one layout"
    )


def _too_few(pool: Pool, members: Sequence[Member]) -> str:
    exist = "exists" if len(members) == 1 else "exist"
    needed = "is" if pool.fewest == 1 else "are"
    return f"{_number(len(members))} {exist}, at least {pool.fewest} {needed} needed"


def _nodes(members: Sequence[Member]) -> str:
    return _number(len(members))


def _number(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"

"""The nodes that are emptied because their GPUs are definitely not as wanted. Pure.

Such a node is held, so that no pod comes. The pool's policy decides about running pods: a job on a
wrong partition may go on for days, or may compute on a GPU that is failing. With `quarantine:
NoExecute` the node gets the startup taint a second time, with that effect, and Kubernetes ends the
pods that do not tolerate it. Disruption budgets have no say in that.

So it takes a finding of this boot and this layout that does not pass without help and has lasted
(`Member.stuck`). Never are more nodes emptied than may be unavailable: if a whole pool is found
wrong, the wanted layout is as likely the mistake. The taint goes when the node is verified, or with
the policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.fleet_controller.objects.action import NodeAction
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.members import Member


@dataclass(frozen=True, kw_only=True)
class QuarantineNode(NodeAction):
    """Gives a held node the startup taint with the effect NoExecute, too."""

    LOG_MESSAGE = "node quarantined: its pods end"

    version: str
    why: str
    """The reason, for the log."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class EndQuarantine(NodeAction):
    """Removes that taint. The node stays held."""

    LOG_MESSAGE = "quarantine ended"

    version: str
    position: int
    """Index of the taint in spec.taints."""


def quarantine(pool: Pool, members: Sequence[Member]) -> tuple[QuarantineNode | EndQuarantine, ...]:
    """Returns the taints to set and to remove.

    members: sorted by name, as they were before the pass.
    """
    emptied = [(m.node, at) for m in members if (at := m.node.quarantine_at) is not None]
    if not pool.policy.quarantine:
        return tuple(
            EndQuarantine(node=node.name, version=node.version, position=at) for node, at in emptied
        )
    room = pool.policy.limit(len(members)) - len(emptied)
    wrong = [m for m in members if m.node.quarantine_at is None and _definitely_wrong(m)]
    return tuple(
        QuarantineNode(node=m.node.name, version=m.node.version, why=m.assessment.reason)
        for m in wrong[: max(0, room)]
    )


def _definitely_wrong(member: Member) -> bool:
    return member.node.held and member.stuck and member.assessment.mismatch

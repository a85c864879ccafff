"""Stuck nodes: how they are found, which remedies are tried, and how they are reported. Pure.

NVIDIA's mig-manager acts only on another label and at its own start, and some of its errors leave
no state behind. After such an error a node stays as it is for ever, so its mig-manager or device
plugin is restarted, by eviction. This happens at most MOST_TRIES times until the node is verified
or another layout is wanted, with growing pauses, and never if that could repartition GPUs under a
pod. A trouble without a cure here is reported with its remedy.

Sources: NVIDIA/mig-parted, pkg/mig/reconfigure and cmd/nvidia-mig-manager; its #485, and
NVIDIA/gpu-operator #2833, #1607, #603.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slicewright.apis.names import DEPLOY_LABEL_PREFIX
from slicewright.apis.reasons.agent import DRIVER_DOES_NOT_ANSWER
from slicewright.apis.reasons.troubles import (
    MIG_MANAGER,
    MOST_TRIES,
    PAUSES_S,
    TROUBLES,
    Trouble,
    TroubleName,
)
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.nodes.assess import REPORT_AGE_LIMIT_S
from slicewright.fleet_controller.nodes.waiting_pods import CRASH_LOOP, validator_fails
from slicewright.fleet_controller.objects.action import NodeAction
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.stuck import Stuck, stuck_of

NOTED_AFTER_S: Final = 120.0
"""Shortest time without verification before a note is worth two requests."""
_POSTPONED_S = 600.0
"""Delay before the pods in the way are looked at again. Each look is a write."""
_AT_ONCE = 10
"""Most nodes whose pods are listed in one pass."""


_OF_SILICON = frozenset({"WrongLayout", "NotPartitioned", "LayoutIncomplete", "UnwantedMig"})
_OF_PLUGIN = frozenset({"ResourcesNotAdvertised", "WrongResources", "UnexpectedResources"})


@dataclass(frozen=True, kw_only=True)
class RestartOperand(NodeAction):
    """Writes the note about a stuck node, resumes its operands, and has one of its pods recreated.

    The note comes first, so that a controller that is killed in between counts the try.
    """

    version: str
    stuck: Stuck | None
    """The new note. None removes the note."""
    labels: Mapping[str, str]
    """The labels to change."""
    restart: NodePod | None = None

    @property
    def log_message(self) -> str:
        return "node is no longer stuck" if self.stuck is None else "node is stuck"

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {
            "node": self.node,
            "trouble": self.stuck.trouble if self.stuck else "",
            "tries": self.stuck.tries if self.stuck else 0,
            "restarted": self.restart.path if self.restart else "",
            "labels": dict(self.labels),
        }


@dataclass(frozen=True, kw_only=True)
class Watch:
    """The watchdog's result for one node in one pass."""

    actions: tuple[RestartOperand, ...] = ()
    hold: bool = False
    """True if the node must have the startup taint before anything is tried."""
    hold_if_room: bool = False
    """True if the node is to get the taint, as long as enough nodes of the pool stay in service."""
    assessment: Assessment | None = None
    """The assessment to use instead of the node's own."""
    deadlines: tuple[float, ...] = ()


NOTHING: Final = Watch()


def watch(
    node: Node,
    pool: Pool,
    base: Assessment,
    operands: str | None,
    pods: tuple[NodePod, ...] | None,
    now: float,
) -> Watch:
    """Decides about one node.

    base: the node's own assessment.
    operands: why NVIDIA's operands on it wait.
    pods: all pods that have not ended, for the nodes of `due`. None if not known.
    """
    note = stuck_of(node)
    if note and note.layout != (pool.mig_config or ""):
        note = None
    trouble_kind = trouble_of(node, pool, base, operands)
    if trouble_kind is None:
        return _no_trouble(node, note, base, now)
    trouble = TROUBLES[trouble_kind]
    if note is None and not _lasts(node, now):
        changed = node.condition.changed if node.condition else now
        return Watch(deadlines=(changed + NOTED_AFTER_S,))
    if note is None or note.trouble != trouble_kind:
        tries = note.tries if note else 0
        at = max(now + trouble.after_s, note.next if note and tries else 0.0)
        layout = pool.mig_config or ""
        noted = Stuck(
            node_uid=node.uid, layout=layout, trouble=trouble_kind, since=now, next=at, tries=tries
        )
        return Watch(actions=(_noted(node, noted),), deadlines=(at,))
    if now < note.since + trouble.after_s:
        return Watch(deadlines=(note.next,))
    assessment = _assess_stuck(trouble, note, base, now)
    silent = _driver_is_silent(node, base)
    if now < note.next or trouble.restart is None or note.tries >= MOST_TRIES:
        return Watch(assessment=assessment, deadlines=(note.next,), hold_if_room=silent)
    tried = _try(node, note, trouble, base, pods, now)
    return replace(tried, assessment=assessment, hold_if_room=silent)


def trouble_of(
    node: Node, pool: Pool, base: Assessment, operands: str | None
) -> TroubleName | None:
    """Returns the trouble that the node may be stuck in, without checking whether it lasts."""
    if base.status == "True" or _upgrades_driver(node):
        return None
    if pool.mig_config is not None:
        if node.mig_state == "rebooting":
            return "RebootStuck"
        if not node.ready:
            return None
        if node.mig_state == "pending":
            return "PartitioningStuck"
        if node.mig_config == pool.mig_config and (trouble := _at_rest(node, base)):
            return trouble
    if node.ready and CRASH_LOOP in (operands or ""):
        return "ValidatorFails" if validator_fails(operands) else "OperandCrashLoop"
    return "DriverSilent" if _driver_is_silent(node, base) else None


def _driver_is_silent(node: Node, base: Assessment) -> bool:
    """True if the agent of a node in service reports, in this boot, that it cannot ask the driver.

    A node that is being set up or changed has no driver yet, or loses it for a while.
    """
    current = base.expires is not None
    set_up = bool(node.verified_boot) and not node.change
    return node.ready and set_up and current and base.reason in DRIVER_DOES_NOT_ANSWER


def due(pools: Sequence[Pool], nodes: Iterable[Node], now: float) -> tuple[str, ...]:
    """Returns a limited number of nodes that need a try now, which depends on their pods."""
    noted = [node for node in nodes if node.stuck]
    if not noted:
        return ()
    names = (
        node.name
        for pool, members in memberships(pools, noted)
        for node in members
        if (note := stuck_of(node))
        and note.trouble
        and note.layout == (pool.mig_config or "")
        and TROUBLES[note.trouble].restart
        and note.tries < MOST_TRIES
        and note.next <= now
    )
    return tuple(names)[:_AT_ONCE]


def relabelled(node: Node, pool: Pool) -> bool:
    """True if somebody else has set another layout on a node that was verified with the pool's."""
    return (
        pool.mig_config is not None
        and node.verified_layout == pool.mig_config
        and node.mig_config != pool.mig_config
        and not node.change
    )


def _upgrades_driver(node: Node) -> bool:
    """True if its operands are away because its driver is being replaced."""
    change = change_of(node)
    return change is not None and change.phase == "Upgrading"


def _at_rest(node: Node, base: Assessment) -> TroubleName | None:
    """Returns the trouble of a node whose mig-manager does nothing at the moment."""
    match node.mig_state:
        case None:
            return "PartitioningNotStarted"
        case "failed":
            return "MigManagerFailed"
        case "success" if node.paused:
            return "OperandsPaused"
        case "success" if base.reason in _OF_SILICON:
            return "StaleSuccess"
        case "success" if base.reason in _OF_PLUGIN:
            return "PluginStale"
        case _:
            return None


def _lasts(node: Node, now: float) -> bool:
    condition = node.condition
    return (
        condition is not None
        and condition.status != "True"
        and now >= condition.changed + NOTED_AFTER_S
    )


def _no_trouble(node: Node, note: Stuck | None, base: Assessment, now: float) -> Watch:
    if not node.stuck:
        return NOTHING
    if note is None or not note.tries or base.status == "True":
        return Watch(actions=(_noted(node, None),))
    if note.trouble:
        # The tries still count if it gets stuck again.
        return Watch(actions=(_noted(node, replace(note, trouble="", since=now, held_by="")),))
    return NOTHING


def _try(
    node: Node,
    note: Stuck,
    trouble: Trouble,
    base: Assessment,
    pods: tuple[NodePod, ...] | None,
    now: float,
) -> Watch:
    if pods is None:
        return Watch(deadlines=(note.next,))
    holders = [pod.path for pod in pods if pod.gpus]
    if holders and not trouble.under_pods:
        held = replace(note, next=now + _POSTPONED_S, held_by=", ".join(sorted(holders)[:3]))
        return Watch(actions=(_noted(node, held),), deadlines=(held.next,))
    if trouble.restart == MIG_MANAGER and holders and _reported(base) <= note.since:
        # Its start changes nothing if the partitions match. They did before it got stuck.
        return Watch(deadlines=(now + _POSTPONED_S,))
    if not node.held and not trouble.under_pods:
        # The pods are listed again with the taint: one may have been bound since the last look.
        return Watch(hold=True, deadlines=(note.next,))
    pause = max(trouble.after_s, PAUSES_S[note.tries])
    tried = replace(note, tries=note.tries + 1, next=now + pause, held_by="")
    # mig-manager resumes its operands itself if it can, but a pod that forgot to do so does not.
    resume = note.trouble == "OperandsPaused" and note.tries > 0
    operands = sorted((p for p in pods if p.app == trouble.restart), key=lambda pod: pod.path)
    restart = next((pod for pod in operands if pod.daemon_set and not pod.leaving), None)
    labels = {f"{DEPLOY_LABEL_PREFIX}{name}": "true" for name in node.paused} if resume else {}
    if restart is None and not labels:
        tried = replace(tried, held_by=f"no {trouble.restart} pod on the node")
    heal = RestartOperand(
        node=node.name, version=node.version, stuck=tried, labels=labels, restart=restart
    )
    return Watch(actions=(heal,), deadlines=(tried.next,))


def _reported(base: Assessment) -> float:
    """Returns the time of the report that the assessment rests on."""
    return (base.expires or 0.0) - REPORT_AGE_LIMIT_S


def _assess_stuck(trouble: Trouble, note: Stuck, base: Assessment, now: float) -> Assessment | None:
    """Returns the assessment for a stuck node, or None if the node's own is sufficient."""
    tried = ""
    if trouble.restart and note.tries:
        tried = f"; {trouble.restart} was restarted {note.tries} of {MOST_TRIES} times"
    if note.held_by:
        tried += f"; not restarted: {note.held_by}"
    if not trouble.reason:
        return replace(base, message=f"{base.message}{tried}") if tried else None
    hopeless = trouble.restart is None or (note.tries >= MOST_TRIES and now >= note.next)
    return Assessment(
        status="False" if hopeless else "Unknown",
        reason=trouble.reason,
        message=f"{trouble.meaning}{tried}; {trouble.remedy}. {base.reason}: {base.message}",
        mismatch=base.mismatch,
        expires=base.expires,
    )


def _noted(node: Node, stuck: Stuck | None) -> RestartOperand:
    return RestartOperand(node=node.name, version=node.version, stuck=stuck, labels={})

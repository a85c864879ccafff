"""Requests to a pool's rollout, as the annotation that the controller obeys. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, assert_never

from slicewright.apis.gpu_pool.rollout_request import RolloutRequest, read_rollout_request
from slicewright.apis.names import ROLLOUT_ANNOTATION
from slicewright.live.views import PoolView, RolloutView
from slicewright.telemetry.plain import shortened

Verb = Literal["pause", "resume", "abort", "undo"]
VERBS: Final[tuple[Verb, ...]] = ("pause", "resume", "abort", "undo")
_MOST_NAMES = 6
_LONGEST = 80


class Refused(Exception):
    """The request does not fit this pool; the message gives the reason and the alternative."""


@dataclass(frozen=True, kw_only=True)
class AnnotationChange:
    """The annotation to write, and its effects."""

    value: str | None
    """Value of the annotation; empty to remove it; None to write nothing."""
    messages: tuple[str, ...]
    """Lines for the user: the result of the request, then its effects."""


def derive_annotation(verb: Verb, pool: PoolView, now: str) -> AnnotationChange:
    """Returns the change for `verb`; `now` is the annotation's value. Raises Refused."""
    current, rollout = read_rollout_request(now), pool.rollout
    if current is None:
        # The controller ignores the value, so nothing is stopped, although someone set it.
        raise Refused(
            f"the annotation {ROLLOUT_ANNOTATION} of pool {pool.name} is "
            f"{shortened(now, _LONGEST)!r}, which is invalid; remove it first: kubectl annotate "
            f"gpupool {pool.name} {ROLLOUT_ANNOTATION}-"
        )
    subject = f"the rollout of pool {pool.name}"
    undone = bool(pool.declared) and current.undoes == pool.declared
    if verb == "undo":
        return _undo(pool, current) if not undone else _unchanged(f"{subject} is already undone")
    if verb == "resume":
        return _resume(pool, current, undone=undone)
    new = replace(current, suspended="paused" if verb == "pause" else "aborted")
    if new == current:
        return _unchanged(f"{subject} is already {current.suspended}")
    if rollout is None:
        raise Refused(f"pool {pool.name} has no rollout: {_rest(pool)}; nothing was changed")
    effects = _effects_of_stop(verb, pool, rollout)
    return AnnotationChange(value=new.dump(), messages=(f"{subject} is {new.suspended}", *effects))


def _unchanged(message: str) -> AnnotationChange:
    return AnnotationChange(value=None, messages=(message,))


def _undo(pool: PoolView, current: RolloutRequest) -> AnnotationChange:
    if not pool.earlier:
        raise Refused(f"pool {pool.name} cannot be undone: {pool.no_undo}; nothing was changed")
    back = [n.name for n in pool.nodes if n.layout not in ("", pool.earlier)]
    drained = [n.name for n in pool.nodes if n.layout == pool.earlier and n.phase]
    messages = [f"the change of pool {pool.name} to layout {pool.declared} is undone"]
    if back:
        messages.append(f"change back to {pool.earlier}, a few at a time: {_names(back)}")
    if drained:
        messages.append(f"back into service unchanged: {_names(drained)}")
    if not back and not drained:
        messages.append(f"no node has begun to change: all keep layout {pool.earlier}")
    if current.suspended:
        messages.append(f"the rollout is no longer {current.suspended}")
    messages.append(
        f"the stack file still declares {pool.declared}: `pulumi up` fails until it declares "
        f"{pool.earlier}; to apply {pool.declared} again: slicewright rollout resume {pool.name}"
    )
    return AnnotationChange(
        value=RolloutRequest(undoes=pool.declared).dump(), messages=tuple(messages)
    )


def _resume(pool: PoolView, current: RolloutRequest, *, undone: bool) -> AnnotationChange:
    """Reverts the last request: the pause of an undo before the undo."""
    subject = f"the rollout of pool {pool.name}"
    if current == RolloutRequest():
        return _unchanged(f"{subject} is not stopped: nothing to resume")
    if undone and not current.suspended:
        forward = [n.name for n in pool.nodes if n.layout != pool.declared or n.phase]
        after = f"nodes to change: {_names(forward)}" if forward else "no node waits for a change"
        message = f"the undo is reverted: pool {pool.name} changes to layout {pool.declared}"
        return AnnotationChange(value="", messages=(message, after))
    remaining = RolloutRequest(undoes=current.undoes if undone else "")
    if not undone and not current.suspended:
        ended = shortened(current.undoes, _LONGEST)
        message = f"the undo of layout {ended} had ended: the stack file declares another layout"
        return AnnotationChange(value="", messages=(message,))
    return AnnotationChange(
        value=remaining.dump(), messages=(f"{subject} is resumed", *_nodes_ahead(pool.rollout))
    )


def _rest(pool: PoolView) -> str:
    if pool.layout:
        return f"no node waits for layout {pool.layout} or changes to it"
    return "mig-manager does not partition its nodes, so another layout needs new nodes"


def _nodes_ahead(rollout: RolloutView | None) -> Sequence[str]:
    if rollout is None:
        return ("no node waits for a change",)
    ahead = [*(name for wave in rollout.waves for name in wave), *rollout.later]
    return (f"nodes to change, in this order: {_names(ahead)}",) if ahead else ()


def _effects_of_stop(
    verb: Literal["pause", "abort"], pool: PoolView, rollout: RolloutView
) -> Sequence[str]:
    partitioning, drained = _partitioning_and_drained(rollout)
    goes_on = [f"being partitioned, will finish: {_names(partitioning)}"] if partitioning else []
    match verb:
        case "pause":
            stays = [f"drained, stay cordoned: {_names(drained)}"] if drained else []
            return (*goes_on, *stays, f"to continue: slicewright rollout resume {pool.name}")
        case "abort":
            back = [f"back into service unchanged: {_names(drained)}"] if drained else []
            undo = (
                f"; to revert the nodes that have changed: slicewright rollout undo {pool.name}"
                if pool.undo_helps
                else ""
            )
            return (
                *goes_on,
                *back,
                f"the pool still declares layout {rollout.layout}: `pulumi up` fails until the "
                f"rollout is resumed (slicewright rollout resume {pool.name}), or the stack file "
                f"declares the old layout{undo}",
            )
        case _:
            assert_never(verb)


def _partitioning_and_drained(rollout: RolloutView) -> tuple[list[str], list[str]]:
    """Returns the nodes whose label is set, and the nodes that are drained."""
    partitioning = [name for name in rollout.changing if name in rollout.irreversible]
    return partitioning, [name for name in rollout.changing if name not in rollout.irreversible]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

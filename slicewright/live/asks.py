"""What people ask of a pool's rollout, as the annotation that the controller obeys. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, assert_never

from fleet_controller.api import ROLLOUT_ANNOTATION
from fleet_controller.known_layouts import Asked, read_asked
from slicewright.live.fleet import PoolView, RolloutView
from telemetry.plain import shortened

Verb = Literal["pause", "resume", "abort", "undo"]
VERBS: Final[tuple[Verb, ...]] = ("pause", "resume", "abort", "undo")
_SHOWN = 6
_LONGEST = 80


class Refused(Exception):
    """It cannot be asked of this pool; the message says why, and what to do instead."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What is to be written, and what follows from it."""

    value: str | None
    """Of the annotation; empty to remove it; None where nothing is to be written."""
    said: tuple[str, ...]
    """For people: what was done, then what follows."""


def ask(verb: Verb, pool: PoolView, now: str) -> Ask:
    """now: the value of the annotation. Raises Refused."""
    asked, rollout = read_asked(now), pool.rollout
    if asked is None:
        # The controller ignores it; so nothing is stopped, and whoever wrote it meant something.
        raise Refused(
            f"the annotation {ROLLOUT_ANNOTATION} of pool {pool.name} is "
            f"{shortened(now, _LONGEST)!r}, which means nothing; remove it first: kubectl annotate "
            f"gpupool {pool.name} {ROLLOUT_ANNOTATION}-"
        )
    what = f"the rollout of pool {pool.name}"
    undone = bool(pool.declared) and asked.undoes == pool.declared
    if verb == "undo":
        return _undo(pool, asked) if not undone else _already(f"{what} is undone already")
    if verb == "resume":
        return _resume(pool, asked, undone=undone)
    wanted = replace(asked, suspended="paused" if verb == "pause" else "aborted")
    if wanted == asked:
        return _already(f"{what} is {asked.suspended} already")
    if rollout is None:
        raise Refused(f"pool {pool.name} has no rollout: {_rest(pool)}; nothing was changed")
    follows = _stopped(verb, pool, rollout)
    return Ask(value=wanted.dump(), said=(f"{what} is {wanted.suspended}", *follows))


def _already(said: str) -> Ask:
    return Ask(value=None, said=(said,))


def _undo(pool: PoolView, asked: Asked) -> Ask:
    if not pool.earlier:
        raise Refused(f"pool {pool.name} cannot be undone: {pool.no_undo}; nothing was changed")
    back = [n.name for n in pool.nodes if n.layout not in ("", pool.earlier)]
    drained = [n.name for n in pool.nodes if n.layout == pool.earlier and n.phase]
    said = [f"the change of pool {pool.name} to layout {pool.declared} is undone"]
    if back:
        said.append(f"change back to {pool.earlier}, a few at a time: {_names(back)}")
    if drained:
        said.append(f"back into service as they are: {_names(drained)}")
    if not back and not drained:
        said.append(f"no node has begun to change: all keep layout {pool.earlier}")
    if asked.suspended:
        said.append(f"it was {asked.suspended}, which it no longer is")
    said.append(
        f"the stack file still declares {pool.declared}: until {pool.earlier} is written there, "
        f"`pulumi up` fails; to change forward again: slicewright rollout resume {pool.name}"
    )
    return Ask(value=Asked(undoes=pool.declared).dump(), said=tuple(said))


def _resume(pool: PoolView, asked: Asked, *, undone: bool) -> Ask:
    """Takes back what was asked last: the pause of an undo before the undo."""
    what = f"the rollout of pool {pool.name}"
    if asked == Asked():
        return _already(f"{what} is not stopped: nothing to resume")
    if undone and not asked.suspended:
        forward = [n.name for n in pool.nodes if n.layout != pool.declared or n.phase]
        after = f"nodes to change: {_names(forward)}" if forward else "no node waits to be changed"
        said = f"the undo is taken back: pool {pool.name} changes to layout {pool.declared}"
        return Ask(value="", said=(said, after))
    kept = Asked(undoes=asked.undoes if undone else "")
    if not undone and not asked.suspended:
        ended = shortened(asked.undoes, _LONGEST)
        said = f"the undo of layout {ended} had ended: the stack file declares another"
        return Ask(value="", said=(said,))
    return Ask(value=kept.dump(), said=(f"{what} is resumed", *_resumed(pool.rollout)))


def _rest(pool: PoolView) -> str:
    if pool.layout:
        return f"no node waits for layout {pool.layout} or changes to it"
    return "NVIDIA's mig-manager does not partition its nodes, so that another layout is new nodes"


def _resumed(rollout: RolloutView | None) -> Sequence[str]:
    if rollout is None:
        return ("no node waits to be changed",)
    ahead = [*(name for wave in rollout.waves for name in wave), *rollout.later]
    return (f"nodes to change, in this order: {_names(ahead)}",) if ahead else ()


def _stopped(
    verb: Literal["pause", "abort"], pool: PoolView, rollout: RolloutView
) -> Sequence[str]:
    cut, drained = _parted(rollout)
    goes_on = [f"being cut, and finished: {_names(cut)}"] if cut else []
    match verb:
        case "pause":
            stays = [f"drained, stay cordoned: {_names(drained)}"] if drained else []
            return (*goes_on, *stays, f"to go on: slicewright rollout resume {pool.name}")
        case "abort":
            back = [f"back into service as they are: {_names(drained)}"] if drained else []
            undo = (
                f"; to take back what has changed: slicewright rollout undo {pool.name}"
                if pool.undo_helps
                else ""
            )
            return (
                *goes_on,
                *back,
                f"the pool still wants layout {rollout.layout}: a `pulumi up` fails until it is "
                f"resumed (slicewright rollout resume {pool.name}), or the old layout is in the "
                f"stack file{undo}",
            )
        case _:
            assert_never(verb)


def _parted(rollout: RolloutView) -> tuple[list[str], list[str]]:
    """Nodes whose label is set, and nodes that are drained."""
    cut = [name for name in rollout.changing if name in rollout.cut]
    return cut, [name for name in rollout.changing if name not in rollout.cut]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

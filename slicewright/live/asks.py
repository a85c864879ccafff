"""What people ask of a pool's rollout, as the annotation that the controller obeys. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fleet_controller.api import ROLLOUT_ANNOTATION
from fleet_controller.state import SUSPENDED
from slicewright.live.fleet import PoolView, RolloutView
from telemetry.plain import plain

Verb = Literal["pause", "resume", "abort"]
VERBS: Final[tuple[Verb, ...]] = ("pause", "resume", "abort")
_VALUES: Final = {"pause": "paused", "abort": "aborted", "resume": ""}
_SHOWN = 6


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
    wanted, rollout = _VALUES[verb], pool.rollout
    if now and now not in SUSPENDED:
        # The controller ignores it; so nothing is stopped, and whoever wrote it meant something.
        raise Refused(
            f"the annotation {ROLLOUT_ANNOTATION} of pool {pool.name} is {plain(now)!r}, which "
            f"means nothing; remove it first: kubectl annotate gpupool {pool.name} "
            f"{ROLLOUT_ANNOTATION}-"
        )
    if now == wanted:
        already = f"{wanted} already" if wanted else "not stopped: nothing to resume"
        return Ask(value=None, said=(f"the rollout of pool {pool.name} is {already}",))
    if verb != "resume" and rollout is None:
        raise Refused(f"pool {pool.name} has no rollout: {_rest(pool)}; nothing was changed")
    done = {"pause": "paused", "abort": "aborted", "resume": "resumed"}[verb]
    follows = _follows(verb, pool.name, rollout)
    return Ask(value=wanted, said=(f"the rollout of pool {pool.name} is {done}", *follows))


def _rest(pool: PoolView) -> str:
    if pool.layout:
        return f"no node waits for layout {pool.layout} or changes to it"
    return "NVIDIA's mig-manager does not partition its nodes, so that another layout is new nodes"


def _follows(verb: Verb, pool: str, rollout: RolloutView | None) -> Sequence[str]:
    if rollout is None:
        return ("no node waits to be changed",)
    cut, drained = _parted(rollout)
    goes_on = [f"being cut, and finished: {_names(cut)}"] if cut else []
    match verb:
        case "pause":
            stays = [f"drained, stay cordoned: {_names(drained)}"] if drained else []
            return (*goes_on, *stays, f"to go on: slicewright rollout resume {pool}")
        case "abort":
            back = [f"back into service as they are: {_names(drained)}"] if drained else []
            return (
                *goes_on,
                *back,
                f"the pool still wants layout {rollout.layout}, as its stack file does: a `pulumi "
                f"up` fails until it is resumed (slicewright rollout resume {pool}), or until the "
                "old layout is in the stack file, and then up changes back what has changed",
            )
        case "resume":
            ahead = [*(name for wave in rollout.waves for name in wave), *rollout.later]
            return (f"nodes to change, in this order: {_names(ahead)}",) if ahead else ()


def _parted(rollout: RolloutView) -> tuple[list[str], list[str]]:
    """Nodes whose label is set, and nodes that are drained."""
    cut = [name for name in rollout.changing if name in rollout.cut]
    return cut, [name for name in rollout.changing if name not in rollout.cut]


def _names(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

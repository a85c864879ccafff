"""The outcome of a step of the decision. Steps are pure functions; their outcomes are joined."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple

from slicewright.fleet_controller.decision.actions import Action, AddStartupTaint, EmitEvent


class Outcome(NamedTuple):
    """The actions of one step. Each pass makes thousands, and a dataclass takes twice as long."""

    holds: tuple[AddStartupTaint, ...] = ()
    """Taints that come before all other actions of the pass."""
    actions: tuple[Action, ...] = ()
    deadlines: tuple[float, ...] = ()
    """Times when the decision may change without any event, in seconds since the epoch."""
    warnings: tuple[EmitEvent, ...] = ()
    """The Warning Events that are to exist."""


def join_outcomes(outcomes: Iterable[Outcome]) -> Outcome:
    """Returns all actions, deadlines and warnings, in the order of the steps."""
    steps = tuple(outcomes)
    return Outcome(
        holds=tuple(chain.from_iterable(step.holds for step in steps)),
        actions=tuple(chain.from_iterable(step.actions for step in steps)),
        deadlines=tuple(chain.from_iterable(step.deadlines for step in steps)),
        warnings=tuple(chain.from_iterable(step.warnings for step in steps)),
    )

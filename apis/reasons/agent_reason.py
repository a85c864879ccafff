"""The form of a reason that a verdict can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slicewright.apis.desired_state import Partitioner

Outcome = Literal["Match", "Mismatch", "Unknown"]


Setting = Partitioner | Literal["host"]
"""The context of a message: a bare host, or a pool with this partitioner."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """The meaning of a reason code, and the remedy."""

    code: str
    verdict: Outcome
    settles: bool = False
    """True if a node that is still being set up can look like this for a while."""
    of_layout: bool = False
    """True if a healthy node that still has an earlier layout of its pool can look like this."""
    driver_silent: bool = False
    """True if the agent runs, and learns nothing from the driver at this moment."""
    meaning: str
    """One clause for the documentation."""
    cause: str = ""
    """Likely cause, for the message."""
    advice: str = ""
    """Next step, for the message."""
    causes: Mapping[Setting, str] = field(default_factory=dict)
    """Causes that differ by setting. They come before `cause`."""
    advices: Mapping[Setting, str] = field(default_factory=dict)

    def cause_for(self, partitioner: Partitioner, *, on_host: bool) -> str:
        return _text_for(self.causes, partitioner, on_host) or self.cause

    def advice_for(self, partitioner: Partitioner, *, on_host: bool) -> str:
        return _text_for(self.advices, partitioner, on_host) or self.advice


def _text_for(texts: Mapping[Setting, str], partitioner: Partitioner, on_host: bool) -> str | None:
    return (texts.get("host") if on_host else None) or texts.get(partitioner)

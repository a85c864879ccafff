"""A node's condition as it should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """A node's condition as it should be."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    """Depends on the facts alone, not on the time: an unchanged node is not written again."""
    mismatch: bool = False
    """Whether the agent found, in this boot and for this layout, that the node is not as wanted."""
    settles: bool = False
    """Whether the node may still get there without help, because it is being set up."""
    expires: float | None = None
    """When the report becomes too old; seconds since the epoch."""
    matched: float = 0.0
    """When the agent last found a match with the layout that is wanted, in this boot, though the
    node's labels may say something else; 0: it did not.
    """
    planned: bool = False
    """Whether it belongs to a change that is under way: nothing to warn of."""
    driver: str = ""
    """Where the pool wants a certain driver: the one that the agent found in this boot, since the
    driver pod was last replaced. Empty: not known.
    """
    reported: float = 0.0
    """Where the pool wants a certain driver: when the node's agent last reported; 0: never."""

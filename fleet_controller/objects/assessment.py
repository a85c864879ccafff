"""The desired condition of a node. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """The condition that a node should have."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    """Depends on the facts alone and not on the time, so an unchanged node is not written again."""
    mismatch: bool = False
    """True if the agent found, in this boot and for this layout, that the node is not as wanted."""
    settles: bool = False
    """True if the node may still get there without help, because it is being set up."""
    expires: float | None = None
    """Time when the report becomes too old, in seconds since the epoch."""
    matched: float = 0.0
    """Time of the agent's last match with the wanted layout in this boot, or 0.

    The node's labels may still say something else.
    """
    planned: bool = False
    """True if it belongs to a change that is under way, so that there is nothing to warn about."""
    driver: str = ""
    """The driver that the agent found in this boot, since the driver pod was last replaced. Empty
    if not known, or if the pool does not want a certain driver.
    """
    reported: float = 0.0
    """Time of the agent's last report, or 0. Set only if the pool wants a certain driver."""

"""Xids for the agent's loops: the kernel's log read before each look, every new Xid told once,
looks with Xids.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from node_agent.nvml.observed import Observation
from node_agent.xids import meanings as xid_meanings
from node_agent.xids.history import Event, XidHistory, consequence
from node_agent.xids.kernel_log import KMSG, KernelLog
from telemetry import log

_MOST_TOLD = 10
"""Lines of the agent's log for one reading: a program in a loop of page faults writes thousands."""


class XidWatch:
    """Use from one thread, and close."""

    def __init__(self, path: Path = KMSG) -> None:
        self._log = KernelLog(path)
        self._history = XidHistory()
        self._history.add(self._log.read(), old=True)
        if self._log.unreadable:
            log.info("xids not watched", why=self._log.unreadable)  # in a pod that is how it is

    @property
    def up(self) -> bool:
        """Whether the kernel's log can be read here."""
        return self._log.unreadable is None

    def news(self) -> bool:
        """Reads on. True where something came after which the GPUs should be looked at
        thoroughly.
        """
        was_up = self.up
        found = self._history.add(self._log.read())
        if was_up and not self.up:
            log.warning("xids not watched", why=self._log.unreadable)
        self._tell(found)
        return any(consequence(seen.xid) != "none" for seen in found)

    def told(self, observation: Observation) -> Observation:
        """The same look, every GPU with its Xids."""
        return self._history.told(observation)

    def close(self) -> None:
        self._log.close()

    def _tell(self, found: Iterable[Event]) -> None:
        events = list(found)
        for seen in events[:_MOST_TOLD]:
            gpu = self._history.where(seen.pci)
            which = f"GPU {gpu}" if gpu is not None else seen.pci
            log.warning(
                "xid",
                where=which,
                xid=seen.xid.number,
                says=xid_meanings.shown(seen.xid.number),
                text=seen.xid.text[:200],
            )
        if len(events) > _MOST_TOLD:
            log.warning("more xids", count=len(events) - _MOST_TOLD)

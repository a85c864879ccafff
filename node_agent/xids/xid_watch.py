"""Xids for the agent's loops: reads the kernel log before each probe and logs new Xids."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from node_agent.nvml.observed import Observation
from node_agent.xids import meanings as xid_meanings
from node_agent.xids.history import Event, XidHistory, consequence
from node_agent.xids.kernel_log import KMSG, KernelLog
from telemetry import log

_MAX_LOGGED = 10
"""Xids logged per reading: a program that page-faults in a loop causes thousands."""


class XidWatch:
    """Use from one thread, and close."""

    def __init__(self, path: Path = KMSG) -> None:
        self._log = KernelLog(path)
        self._history = XidHistory()
        self._history.add(self._log.read(), old=True)
        if self._log.unreadable:
            log.info("xids not watched", why=self._log.unreadable)  # the normal case in a pod

    @property
    def up(self) -> bool:
        """Whether the kernel's log can be read here."""
        return self._log.unreadable is None

    def read(self) -> bool:
        """Reads and logs new Xids. True where one of them calls for a thorough probe."""
        was_up = self.up
        found = self._history.add(self._log.read())
        if was_up and not self.up:
            log.warning("xids not watched", why=self._log.unreadable)
        self._log_events(found)
        return any(consequence(seen.xid) != "none" for seen in found)

    def annotate(self, observation: Observation) -> Observation:
        """The observation with every GPU's Xids."""
        return self._history.annotate(observation)

    def close(self) -> None:
        self._log.close()

    def _log_events(self, found: Iterable[Event]) -> None:
        events = list(found)
        for seen in events[:_MAX_LOGGED]:
            gpu = self._history.where(seen.pci)
            which = f"GPU {gpu}" if gpu is not None else seen.pci
            log.warning(
                "xid",
                where=which,
                xid=seen.xid.number,
                says=xid_meanings.shown(seen.xid.number),
                text=seen.xid.text[:200],
            )
        if len(events) > _MAX_LOGGED:
            log.warning("more xids", count=len(events) - _MAX_LOGGED)

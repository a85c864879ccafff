"""Xids for the agent's loops: reads the kernel log before each probe and logs new Xids."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.xids import meanings as xid_meanings
from slicewright.node_agent.xids.history import Event, XidHistory, consequence
from slicewright.node_agent.xids.kernel_log import KMSG, KernelLog
from slicewright.telemetry import log

_MAX_LOGGED = 10
"""Xids logged per reading: a program that page-faults in a loop causes thousands."""


class XidWatch:
    """Watches Xids. Use it from a single thread, and close it."""

    def __init__(self, path: Path = KMSG) -> None:
        self._log = KernelLog(path)
        self._history = XidHistory()
        self._history.add(self._log.read(), old=True)
        if self._log.unreadable:
            log.info("xids not watched", why=self._log.unreadable)  # the normal case in a pod

    @property
    def up(self) -> bool:
        """True if the kernel's log can be read here."""
        return self._log.unreadable is None

    def read(self) -> bool:
        """Reads and logs new Xids. True if any of them needs a thorough probe."""
        was_up = self.up
        events = self._history.add(self._log.read())
        if was_up and not self.up:
            log.warning("xids not watched", why=self._log.unreadable)
        self._log_events(events)
        return any(consequence(event.xid) != "none" for event in events)

    def annotate(self, observation: Observation) -> Observation:
        """The observation with every GPU's Xids."""
        return self._history.annotate(observation)

    def close(self) -> None:
        self._log.close()

    def _log_events(self, new_events: Iterable[Event]) -> None:
        events = list(new_events)
        for event in events[:_MAX_LOGGED]:
            gpu = self._history.where(event.pci)
            which = f"GPU {gpu}" if gpu is not None else event.pci
            log.warning(
                "xid",
                where=which,
                xid=event.xid.number,
                says=xid_meanings.describe(event.xid.number),
                text=event.xid.text[:200],
            )
        if len(events) > _MAX_LOGGED:
            log.warning("more xids", count=len(events) - _MAX_LOGGED)

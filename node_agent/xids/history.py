"""Xids from the kernel log, and which of them are outstanding. Pure: no input or output.

NVML reports Xids only to a client that keeps waiting, but the agent has no client between probes.
So they are read from the log. Source of the format: kernel_rc.c in NVIDIA's open kernel modules
(580, 595).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slicewright.node_agent.nvml.observed import Observation, ObservedGpu, Xid
from slicewright.node_agent.xids.kernel_log import Record
from slicewright.node_agent.xids.meanings import MEANINGS, RECOVERY_CHANGED, Consequence

_MAX_NEWEST = 8
"""Number of the newest Xids that are shown per GPU."""
_PLACE = r"(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_LINE = re.compile(
    rf"NVRM: Xid \({_PLACE}(?: GPU-I:(?P<instance>[0-9]{{1,9}}))?[^)]*\): "
    rf"(?P<number>[0-9]{{1,9}})(?:, (?P<rest>.*))?"
)
_PROCESS = re.compile(r"pid=(?P<pid>[0-9]{1,10})\b")
_LOADED = "NVRM: loading NVIDIA UNIX"
"""The driver's line when its kernel module is loaded, which initializes every GPU."""
_RECOVERY = re.compile(r"\bto 0x[0-9a-fA-F]+ \((?P<action>[^)]*)\)")
# Source: NVIDIA's Xid catalog.
_RECOVERIES: dict[str, Consequence] = {
    "drain and reset": "reset",
    "gpu reset required": "reset",
    "node reboot required": "reset",
}


@dataclass(frozen=True, kw_only=True)
class Event:
    """An Xid and its GPU."""

    pci: str
    """The result of `pci_address`: `0000:3b:00`."""
    xid: Xid


def event(record: Record) -> Event | None:
    """The Xid in a line of the kernel log, None for every other line."""
    match = _LINE.search(record.text)
    if match is None:
        return None
    rest = match["rest"] or ""
    process = _PROCESS.match(rest)
    xid = Xid(
        number=int(match["number"]),
        at_s=record.at_s,
        text=rest,
        process=int(process["pid"]) if process else None,
        gpu_instance=int(match["instance"]) if match["instance"] else None,
    )
    return Event(pci=pci_address(match["pci"]), xid=xid)


def pci_address(pci: str) -> str:
    """The same form for NVML's `00000000:3B:00.0` and the kernel's `0000:3b:00`."""
    domain, bus, slot = pci.partition(".")[0].split(":")
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}"


def consequence(xid: Xid) -> Consequence:
    """The consequence of an Xid for its GPU while it is outstanding."""
    if (recovery := _recovery(xid)) is not None:
        return _RECOVERIES.get(recovery, "none")
    meaning = MEANINGS.get(xid.number)
    return meaning.consequence if meaning else "none"


def _recovery(xid: Xid) -> str | None:
    """The recovery action in an Xid 154, None in other Xids."""
    match = _RECOVERY.search(xid.text) if xid.number == RECOVERY_CHANGED else None
    return match["action"].lower() if match else None


@dataclass(frozen=True, kw_only=True)
class _Outstanding:
    xid: Xid
    confirmed: bool
    """False for an Xid from before the agent's start: the GPU may have been reset since, so the
    driver's recovery action decides.
    """


@dataclass
class XidHistory:
    """Xids by GPU. A serious Xid is outstanding until a reset, a reboot or a reload of the driver.

    If the driver reports a recovery action (`Vitals.recovery_action`), it decides. Otherwise only
    Xids since the agent's start are outstanding.
    """

    _counts: dict[str, Counter[int]] = field(default_factory=dict)
    _newest: dict[str, deque[Xid]] = field(default_factory=dict)
    _outstanding: dict[str, _Outstanding] = field(default_factory=dict)
    _addresses: dict[int, str] = field(default_factory=dict)
    """NVML index -> PCI address, stored because a lost GPU no longer reports it."""

    def add(self, records: Iterable[Record], *, old: bool = False) -> tuple[Event, ...]:
        """Adds records and returns their Xids. old: from before the agent's start."""
        events = []
        for record in records:
            if record.text.startswith(_LOADED):
                self._outstanding.clear()
            elif (xid_event := event(record)) is not None:
                events.append(xid_event)
                self._take(xid_event, old)
        return tuple(events)

    def annotate(self, observation: Observation) -> Observation:
        """The observation with every GPU's Xids."""
        return replace(observation, gpus=tuple(map(self._annotate, observation.gpus)))

    def where(self, pci: str) -> int | None:
        """The NVML index of the GPU at a PCI address, None before a probe has found it."""
        return next((index for index, address in self._addresses.items() if address == pci), None)

    def _take(self, xid_event: Event, old: bool) -> None:
        xid = xid_event.xid
        self._counts.setdefault(xid_event.pci, Counter())[xid.number] += 1
        self._newest.setdefault(xid_event.pci, deque(maxlen=_MAX_NEWEST)).append(xid)
        meant = consequence(xid)
        before = self._outstanding.get(xid_event.pci)
        if _recovery(xid) == "none":
            self._outstanding.pop(xid_event.pci, None)
        elif meant == "none":
            pass
        # The first Xid names the cause. Only a lost GPU is worse than a GPU that needs a reset.
        elif (
            before is None
            or not before.confirmed
            or (meant == "lost" and consequence(before.xid) != "lost")
        ):
            self._outstanding[xid_event.pci] = _Outstanding(xid=xid, confirmed=not old)

    def _annotate(self, gpu: ObservedGpu) -> ObservedGpu:
        if gpu.pci_bus_id:
            self._addresses[gpu.index] = pci_address(gpu.pci_bus_id)
        pci = self._addresses.get(gpu.index)
        if pci is None or pci not in self._counts:
            return gpu
        outstanding = self._outstanding.get(pci)
        action = gpu.vitals.recovery_action if gpu.vitals else None
        if outstanding and action == "none":
            outstanding = None
            del self._outstanding[pci]
        elif outstanding and action is not None:
            outstanding = self._outstanding[pci] = replace(outstanding, confirmed=True)
        return replace(
            gpu,
            xids=tuple(self._newest[pci]),
            xid_counts=tuple(sorted(self._counts[pci].items())),
            stands=outstanding.xid if outstanding and outstanding.confirmed else None,
        )

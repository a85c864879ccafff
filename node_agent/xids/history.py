"""Xids out of the kernel's log, and what of them still stands. Pure: text in, observations with
Xids out.

NVML hands Xids only to a client that stays, and nothing is held between looks; so they are read
where the driver writes them. Form of the lines: kernel_rc.c of NVIDIA's open kernel modules (580
and 595).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from node_agent.nvml.observed import Observation, ObservedGpu, Xid
from node_agent.xids.kernel_log import Record
from node_agent.xids.meanings import MEANINGS, RECOVERY_CHANGED, Consequence

_KEPT = 8
"""Xids shown per GPU, the newest."""
_PLACE = r"(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_LINE = re.compile(
    rf"NVRM: Xid \({_PLACE}(?: GPU-I:(?P<instance>[0-9]{{1,9}}))?[^)]*\): "
    rf"(?P<number>[0-9]{{1,9}})(?:, (?P<rest>.*))?"
)
_PROCESS = re.compile(r"pid=(?P<pid>[0-9]{1,10})\b")
_LOADED = "NVRM: loading NVIDIA UNIX"
"""What the driver writes when its kernel module is loaded: every GPU starts anew."""
_RECOVERY = re.compile(r"\bto 0x[0-9a-fA-F]+ \((?P<action>[^)]*)\)")
# As NVIDIA's Xid catalog lists them.
_RECOVERIES: dict[str, Consequence] = {
    "drain and reset": "reset",
    "gpu reset required": "reset",
    "node reboot required": "reset",
}


@dataclass(frozen=True, kw_only=True)
class Event:
    """One Xid, and where."""

    pci: str
    """`0000:3b:00`, as `pci_address` writes it."""
    xid: Xid


def event(record: Record) -> Event | None:
    """The Xid that a line of the kernel's log tells; None for every other line."""
    found = _LINE.search(record.text)
    if found is None:
        return None
    rest = found["rest"] or ""
    process = _PROCESS.match(rest)
    xid = Xid(
        number=int(found["number"]),
        at_s=record.at_s,
        text=rest,
        process=int(process["pid"]) if process else None,
        gpu_instance=int(found["instance"]) if found["instance"] else None,
    )
    return Event(pci=pci_address(found["pci"]), xid=xid)


def pci_address(pci: str) -> str:
    """The same word for NVML's `00000000:3B:00.0` and the kernel's `0000:3b:00`."""
    domain, bus, slot = pci.partition(".")[0].split(":")
    return f"{int(domain, 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}"


def consequence(xid: Xid) -> Consequence:
    """What an Xid means for its GPU until something is done about it."""
    if (recovery := _recovery(xid)) is not None:
        return _RECOVERIES.get(recovery, "none")
    meaning = MEANINGS.get(xid.number)
    return meaning.consequence if meaning else "none"


def _recovery(xid: Xid) -> str | None:
    """What the driver wants from now on, where an Xid tells it."""
    asked = _RECOVERY.search(xid.text) if xid.number == RECOVERY_CHANGED else None
    return asked["action"].lower() if asked else None


@dataclass(frozen=True, kw_only=True)
class _Trouble:
    xid: Xid
    sure: bool
    """False for what was in the log before the agent was: the GPU may have been reset since. The
    driver's own word decides.
    """


@dataclass
class XidHistory:
    """What the log said of each GPU, and what of it still stands: an Xid stands until a reset, a
    reboot or a new driver.

    Where the driver tells the recovery that it wants (`Vitals.recovery_action`) its word decides.
    Where it does not, an Xid stands that came while the agent was watching.
    """

    _counts: dict[str, Counter[int]] = field(default_factory=dict)
    _newest: dict[str, deque[Xid]] = field(default_factory=dict)
    _troubles: dict[str, _Trouble] = field(default_factory=dict)
    _places: dict[int, str] = field(default_factory=dict)
    """NVML index -> PCI place, of the last look that knew: a lost GPU does not tell its place any
    more.
    """

    def add(self, records: Iterable[Record], *, old: bool = False) -> tuple[Event, ...]:
        """Takes in new lines, and gives the Xids among them. old: lines from before the agent
        started.
        """
        found = []
        for record in records:
            if record.text.startswith(_LOADED):
                self._troubles.clear()
            elif (seen := event(record)) is not None:
                found.append(seen)
                self._take(seen, old)
        return tuple(found)

    def annotate(self, observation: Observation) -> Observation:
        """The observation with every GPU's Xids."""
        return replace(observation, gpus=tuple(map(self._annotate, observation.gpus)))

    def where(self, pci: str) -> int | None:
        """The NVML index of the GPU at a place; None for one that no look has shown."""
        return next((index for index, known in self._places.items() if known == pci), None)

    def _take(self, seen: Event, old: bool) -> None:
        xid = seen.xid
        self._counts.setdefault(seen.pci, Counter())[xid.number] += 1
        self._newest.setdefault(seen.pci, deque(maxlen=_KEPT)).append(xid)
        meant = consequence(xid)
        before = self._troubles.get(seen.pci)
        if _recovery(xid) == "none":
            self._troubles.pop(seen.pci, None)
        elif meant == "none":
            pass
        # The first names the cause; only a GPU that is gone says more than one that needs a reset.
        elif (
            before is None
            or not before.sure
            or (meant == "lost" and consequence(before.xid) != "lost")
        ):
            self._troubles[seen.pci] = _Trouble(xid=xid, sure=not old)

    def _annotate(self, gpu: ObservedGpu) -> ObservedGpu:
        if gpu.pci_bus_id:
            self._places[gpu.index] = pci_address(gpu.pci_bus_id)
        pci = self._places.get(gpu.index)
        if pci is None or pci not in self._counts:
            return gpu
        trouble = self._troubles.get(pci)
        action = gpu.vitals.recovery_action if gpu.vitals else None
        if trouble and action == "none":
            trouble = None
            del self._troubles[pci]
        elif trouble and action is not None:
            trouble = self._troubles[pci] = replace(trouble, sure=True)
        return replace(
            gpu,
            xids=tuple(self._newest[pci]),
            xid_counts=tuple(sorted(self._counts[pci].items())),
            stands=trouble.xid if trouble and trouble.sure else None,
        )

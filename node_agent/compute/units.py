"""Units of work: the devices of one child process, and the units that follow from its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.results import DeviceResult, Failure, Refused, Started

_ATTEMPTS: Final = 2
"""A device fails only in this many processes, one after the other."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Devices of one GPU for one process: a process initializes each GPU that it sees."""

    gpu: str
    uuids: tuple[str, ...]
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class Run:
    """The messages of a child process, and its end."""

    unit: Unit
    started: Started | None = None
    refused: Refused | None = None
    results: tuple[DeviceResult, ...] = ()
    begun: str | None = None
    """The device that it had begun last."""
    timed_out: bool = False
    status: str = ""
    """How it ended, for people."""

    def failures(self) -> Mapping[str, Failure]:
        """Every device that has no measurement of this run, with the reason."""
        computed = {result.uuid for result in self.results if result.failure is None}
        reported = {result.uuid: result.failure for result in self.results if result.failure}
        return {
            uuid: reported.get(uuid) or self._missing(uuid)
            for uuid in self.unit.uuids
            if uuid not in computed
        }

    def _missing(self, uuid: str) -> Failure:
        if self.refused:
            return self.refused.failure
        if self.started is None:
            return self._ended("cuInit")
        if uuid not in self.started.uuids:
            return Failure(step="cuDeviceGetCount", name=signs.NOT_ENUMERATED)
        if uuid == self.begun:
            return self._ended("compute")
        return Failure(step="compute", name=signs.NOT_REACHED)

    def _ended(self, step: str) -> Failure:
        name = signs.TIMED_OUT if self.timed_out else signs.PROCESS_ENDED
        return Failure(step=step, name=name, detail=self.status)


def initial(devices: Mapping[str, Sequence[str]]) -> tuple[Unit, ...]:
    """A unit per GPU. devices: UUIDs to prove, by the GPU's UUID."""
    return tuple(Unit(gpu=gpu, uuids=tuple(uuids)) for gpu, uuids in devices.items() if uuids)


def follow_up(run: Run) -> tuple[Unit, ...]:
    """The units for the devices of a run that are worth another process.

    A device that failed gets a process of its own, once. So does one that CUDA did not show:
    drivers before R570 show a process a single MIG device. The devices behind a failure stay
    together, because the failure was not theirs. A deadline is not waited for twice.
    """
    failures = run.failures()
    if run.refused or run.started is None:
        return _after_refusal(run)
    units: list[Unit] = []
    if waiting := tuple(u for u, f in failures.items() if f.name == signs.NOT_REACHED):
        units.append(replace(run.unit, uuids=waiting))
    for uuid, failure in failures.items():
        if failure.name == signs.NOT_ENUMERATED:
            if len(run.unit.uuids) > 1:
                units.append(replace(run.unit, uuids=(uuid,)))
        elif failure.name not in (signs.NOT_REACHED, signs.TIMED_OUT):
            units += _again(replace(run.unit, uuids=(uuid,)))
    return tuple(units)


def _after_refusal(run: Run) -> tuple[Unit, ...]:
    """Follows up a process that did not get as far as a list of devices."""
    if run.timed_out:
        return ()
    failure = run.refused.failure if run.refused else None
    if failure and failure.name == signs.LIBRARY_MISSING:
        return ()
    # A UUID that does not exist hides those after it: each has to be tried by itself.
    if failure and failure.code == signs.NO_DEVICE and len(run.unit.uuids) > 1:
        return tuple(replace(run.unit, uuids=(uuid,)) for uuid in run.unit.uuids)
    return tuple(_again(run.unit))


def _again(unit: Unit) -> list[Unit]:
    return [replace(unit, attempt=unit.attempt + 1)] if unit.attempt < _ATTEMPTS else []

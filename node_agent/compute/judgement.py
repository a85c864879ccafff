"""The judgement of a proof: results against the devices that should be there, by UUID.

Never by count: a process may see fewer devices than the machine has, and be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.results import DeviceResult, Failure, Outcome
from slicewright.node_agent.compute.units import Run


@dataclass(frozen=True, kw_only=True)
class GpuResult:
    """The devices of a GPU, in the order of the expected ones."""

    uuid: str
    devices: tuple[DeviceResult, ...]
    init_ms: float | None = None
    """How long the first process took to initialize CUDA."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    gpus: tuple[GpuResult, ...]
    unexpected: tuple[str, ...] = ()
    """Devices that CUDA showed without a request, as hexadecimal digits."""
    cuda: int | None = None
    seconds: float = 0.0

    @property
    def devices(self) -> tuple[DeviceResult, ...]:
        return tuple(device for gpu in self.gpus for device in gpu.devices)

    @property
    def outcome(self) -> Outcome:
        """`computed` only if there was a device and every one computed."""
        outcomes = {device.outcome for device in self.devices}
        if "failed" in outcomes or self.unexpected:
            return "failed"
        return "computed" if outcomes == {"computed"} else "untried"


def judge(
    devices: Mapping[str, Sequence[str]],
    runs: Sequence[Run],
    *,
    seconds: float,
    in_use: Sequence[str] = (),
) -> Proof:
    """Judges the runs, oldest first: of each device the last one that says something.

    devices: the UUIDs that should compute, by the GPU's UUID.
    in_use: descriptions of other processes that use a GPU and stopped the proof.
    """
    unreached = Failure(step="start", name=signs.NOT_REACHED)
    if in_use:
        unreached = Failure(step="start", name=signs.IN_USE, detail=", ".join(in_use))
    results = {
        uuid: DeviceResult(uuid=uuid, failure=unreached)
        for uuids in devices.values()
        for uuid in uuids
    } | _last_results(runs)
    started = [run.started for run in runs if run.started]
    return Proof(
        gpus=tuple(
            GpuResult(
                uuid=gpu,
                init_ms=_first_init_ms(gpu, runs),
                devices=tuple(results[uuid] for uuid in uuids),
            )
            for gpu, uuids in devices.items()
        ),
        unexpected=tuple(dict.fromkeys(uuid for start in started for uuid in start.unexpected)),
        cuda=started[0].cuda if started else None,
        seconds=round(seconds, 2),
    )


def _first_init_ms(gpu: str, runs: Sequence[Run]) -> float | None:
    times = (run.started.init_ms for run in runs if run.unit.gpu == gpu and run.started)
    return next(times, None)


def _last_results(runs: Sequence[Run]) -> dict[str, DeviceResult]:
    last: dict[str, DeviceResult] = {}
    for run in runs:
        for uuid, failure in run.failures().items():
            if failure.name != signs.NOT_REACHED:
                last[uuid] = DeviceResult(uuid=uuid, failure=failure)
        last.update((result.uuid, result) for result in run.results)
    return last


def as_json(proof: Proof) -> dict[str, Any]:
    """The proof as plain data, for `prove --json`."""
    return {
        "outcome": proof.outcome,
        "seconds": proof.seconds,
        "cuda": proof.cuda,
        "unexpected": list(proof.unexpected),
        "gpus": [
            {
                "uuid": gpu.uuid,
                "init_ms": gpu.init_ms,
                "devices": [_device_json(device) for device in gpu.devices],
            }
            for gpu in proof.gpus
        ],
    }


def _device_json(device: DeviceResult) -> dict[str, Any]:
    fields: dict[str, Any] = {"uuid": device.uuid, "outcome": device.outcome}
    if device.measurement:
        fields["measured"] = vars(device.measurement)
    if device.failure:
        sign = device.failure.sign
        fields["failure"] = {
            "step": device.failure.step,
            "code": device.failure.code,
            "name": sign.name,
            "detail": device.failure.detail,
            "cause": sign.cause,
            "remedy": sign.remedy,
        }
    return fields

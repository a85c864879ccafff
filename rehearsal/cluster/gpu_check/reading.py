"""What the agent reads from this machine's GPUs, and error codes of invalid calls, as JSON.

Run as `python -m rehearsal.cluster.gpu_check.reading`, once with the real library and once with the
fake. Makes only calls that change nothing.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pynvml

from node_agent.host import partition
from node_agent.host.mig_state import Gpu
from node_agent.host.transaction import NvmlCallFailed
from node_agent.nvml import observed
from node_agent.nvml.prober import Prober
from rehearsal.cluster.silicon import state

_QUICK_LOOKS, _THOROUGH_LOOKS = 30, 5
_PAUSE_S = 0.05
_DEADLINE_S = 20.0
_SUCCESS = 0
_FAR = 99
"""An index, a profile or an instance that no GPU has."""


def read() -> dict[str, Any]:
    """Only `failure` if no driver answers."""
    prober = Prober.start(deadline_s=_DEADLINE_S, utilization=True)
    try:
        observation = prober.probe(thorough=True)
        if observation.failure:
            return {"failure": vars(observation.failure)}
        looks = {
            "quick look": _milliseconds(prober.probe, _QUICK_LOOKS),
            "thorough look, with utilization": _milliseconds(
                lambda: prober.probe(thorough=True), _THOROUGH_LOOKS
            ),
        }
    finally:
        prober.close()
    seen = json.loads(observed.dump(observation))
    return {
        "simulated": bool(os.environ.get(state.VARIABLE)),
        "privileged": os.geteuid() == 0,
        "driver": observation.driver,
        "cuda": observation.cuda,
        "gpus": [{**gpu, **more} for gpu, more in zip(seen["gpus"], _more(), strict=True)],
        "milliseconds": looks,
    }


def _milliseconds(look: Callable[[], object], times: int) -> dict[str, float]:
    took = []
    for _ in range(times):
        time.sleep(_PAUSE_S)
        began = time.perf_counter()
        look()
        took.append((time.perf_counter() - began) * 1e3)
    return {
        "median": round(statistics.median(took), 2),
        "longest": round(max(took), 2),
        "looks": times,
    }


def _more() -> Sequence[Mapping[str, Any]]:
    """Per GPU what the agent does not read: placements of profiles, and error codes."""
    with partition.opened() as silicon:
        gpus = silicon.read()
    pynvml.nvmlInit()
    try:
        return [_more_of(gpu) for gpu in gpus]
    finally:
        pynvml.nvmlShutdown()


def _more_of(gpu: Gpu) -> Mapping[str, Any]:
    try:
        device = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
    except pynvml.NVMLError as e:
        return {
            "places": {},
            "pci_device": f"error {e.value}",
            "compute_capability": None,
            "answers": {},
        }
    return {
        "places": {p.name: {"starts": list(p.starts), "size": p.size} for p in gpu.offered},
        "pci_device": _answer(lambda: f"{pynvml.nvmlDeviceGetPciInfo(device).pciDeviceId:#010x}"),
        "compute_capability": _answer(
            lambda: list(pynvml.nvmlDeviceGetCudaComputeCapability(device))
        ),
        "answers": {name: _code(call) for name, call in _questions(device).items()},
    }


def _questions(device: Any) -> dict[str, Callable[[], Any]]:
    n = pynvml
    return {
        "nvmlDeviceGetHandleByIndex(99)": lambda: n.nvmlDeviceGetHandleByIndex(_FAR),
        "nvmlDeviceGetHandleByUUID(MIG-0)": lambda: n.nvmlDeviceGetHandleByUUID(
            "MIG-00000000-0000-0000-0000-000000000000"
        ),
        "nvmlDeviceGetAttributes(GPU)": lambda: n.nvmlDeviceGetAttributes(device),
        "nvmlDeviceGetGpuInstanceId(GPU)": lambda: n.nvmlDeviceGetGpuInstanceId(device),
        "nvmlDeviceGetMigMode": lambda: n.nvmlDeviceGetMigMode(device),
        "nvmlDeviceGetMaxMigDeviceCount": lambda: n.nvmlDeviceGetMaxMigDeviceCount(device),
        "nvmlDeviceGetMigDeviceHandleByIndex(99)": lambda: n.nvmlDeviceGetMigDeviceHandleByIndex(
            device, _FAR
        ),
        "nvmlDeviceGetGpuInstanceProfileInfo(99)": lambda: n.nvmlDeviceGetGpuInstanceProfileInfo(
            device, _FAR
        ),
        "nvmlDeviceGetGpuInstanceById(99)": lambda: n.nvmlDeviceGetGpuInstanceById(device, _FAR),
        "nvmlDeviceGetGpuInstanceRemainingCapacity(99)": lambda: (
            n.nvmlDeviceGetGpuInstanceRemainingCapacity(device, _FAR)
        ),
        "nvmlDeviceGetUtilizationRates": lambda: n.nvmlDeviceGetUtilizationRates(device),
        "nvmlGpmSampleGet(GPU)": lambda: _sampled(
            lambda sample: n.nvmlGpmSampleGet(device, sample)
        ),
        "nvmlGpmMigSampleGet(99)": lambda: _sampled(
            lambda sample: n.nvmlGpmMigSampleGet(device, _FAR, sample)
        ),
    }


def _sampled(take: Callable[[Any], Any]) -> None:
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        take(sample)
    finally:
        pynvml.nvmlGpmSampleFree(sample)


def _code(call: Callable[[], Any]) -> int:
    try:
        call()
    except pynvml.NVMLError as e:
        return int(e.value)
    return _SUCCESS


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except pynvml.NVMLError as e:
        return f"error {e.value}"


if __name__ == "__main__":
    try:
        print(json.dumps(read()))
    except NvmlCallFailed as e:
        sys.exit(f"{e.call}: {e}")

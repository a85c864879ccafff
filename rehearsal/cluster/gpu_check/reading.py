"""What the agent reads from this machine's GPUs, and error codes of invalid calls, as JSON.

Run as `python -m slicewright.rehearsal.cluster.gpu_check.reading`, once with the real library and
once with the fake. Makes only calls that change nothing.
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

from slicewright.node_agent.host import partition
from slicewright.node_agent.host.mig_state import Gpu
from slicewright.node_agent.host.transaction import NvmlCallFailed
from slicewright.node_agent.nvml import observed
from slicewright.node_agent.nvml.prober import Prober
from slicewright.rehearsal.cluster.gpu_check import questions
from slicewright.rehearsal.cluster.gpu_check.questions import answer
from slicewright.rehearsal.cluster.silicon import state

ASKED = ("error_texts", "constants", "answers", "fields", "utilization_metrics")
"""What of each GPU is asked beyond what the agent reads."""
_QUICK_PROBES, _THOROUGH_PROBES = 30, 5
_PAUSE_S = 0.05
_DEADLINE_S = 20.0
_BETWEEN_SAMPLES_S = 0.15
"""GPM needs a tenth of a second."""


def read() -> dict[str, Any]:
    """Only `failure` if no driver answers."""
    prober = Prober.start(deadline_s=_DEADLINE_S, utilization=True)
    try:
        observation = prober.probe(thorough=True)
        if observation.failure:
            return {"failure": vars(observation.failure)}
        probes = {
            "quick": _milliseconds(prober.probe, _QUICK_PROBES),
            "thorough, with utilization": _milliseconds(
                lambda: prober.probe(thorough=True), _THOROUGH_PROBES
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
        "milliseconds": probes,
    }


def _milliseconds(probe: Callable[[], object], times: int) -> dict[str, float]:
    took = []
    for _ in range(times):
        time.sleep(_PAUSE_S)
        began = time.perf_counter()
        probe()
        took.append((time.perf_counter() - began) * 1e3)
    return {
        "median": round(statistics.median(took), 2),
        "longest": round(max(took), 2),
        "probes": times,
    }


def _more() -> Sequence[Mapping[str, Any]]:
    """Per GPU what the agent does not read: placements of profiles, and `questions`."""
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
            **{key: {} for key in ASKED},
        }
    return {
        "places": {p.name: {"starts": list(p.starts), "size": p.size} for p in gpu.offered},
        "pci_device": answer(lambda: f"{pynvml.nvmlDeviceGetPciInfo(device).pciDeviceId:#010x}"),
        "compute_capability": answer(
            lambda: list(pynvml.nvmlDeviceGetCudaComputeCapability(device))
        ),
        "error_texts": questions.error_texts(),
        "constants": questions.constants(device),
        "answers": questions.codes(device),
        "fields": questions.fields(device),
        "utilization_metrics": questions.metrics(device, lambda: time.sleep(_BETWEEN_SAMPLES_S)),
    }


if __name__ == "__main__":
    try:
        print(json.dumps(read()))
    except NvmlCallFailed as e:
        sys.exit(f"{e.call}: {e}")

"""Utilization of GPUs and GPU instances, from NVML's GPM (Hopper and later, where permitted).

Two samples within one thorough probe, so that nothing is held between probes. In MIG mode there is
a value per GPU instance, else one of the whole GPU. Source: nvml.h, nvmlGpmMetricsGet (samples must
be more than 100 ms apart).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pynvml

from node_agent.nvml.observed import Failure, ObservedGpu, Utilization

WINDOW_S = 0.12
_NOT_SUPPORTED = 3
# NVML_GPM_METRIC_*; each a percentage.
_METRICS = {"graphics": 1, "sm": 2, "dram": 10}

_Samples = dict[int | None, Any]
"""By GPU instance; None: the whole GPU."""


def measure(gpus: Sequence[ObservedGpu]) -> tuple[ObservedGpu, ...]:
    """The same GPUs with their utilization, or with why it was not measured. Takes WINDOW_S.

    Raises no NVMLError.
    """
    started = [_started(gpu) for gpu in gpus]
    if any(isinstance(samples, dict) and samples for samples in started):
        time.sleep(WINDOW_S)
    return tuple(
        replace(gpu, utilization_failure=samples)
        if isinstance(samples, Failure)
        else replace(gpu, utilization=tuple(_finished(gpu.index, samples)))
        for gpu, samples in zip(gpus, started, strict=True)
    )


def _started(gpu: ObservedGpu) -> _Samples | Failure:
    samples: _Samples = {}
    if gpu.failure:
        return samples  # the GPU itself did not answer, which its `failure` says
    call = "nvmlGpmQueryDeviceSupport"
    try:
        device = pynvml.nvmlDeviceGetHandleByIndex(gpu.index)
        if not pynvml.nvmlGpmQueryDeviceSupport(device).isSupportedDevice:
            return Failure(
                call=call,
                code=_NOT_SUPPORTED,
                text="needs Hopper or later, and a driver that supports GPM",
            )
        instances: list[int | None] = (
            [None] if gpu.mig != "enabled" else [*sorted({d.gpu_instance for d in gpu.devices})]
        )
        call = "nvmlGpmMigSampleGet" if gpu.mig == "enabled" else "nvmlGpmSampleGet"
        for instance in instances:
            samples[instance] = _sample(device, instance)
    except pynvml.NVMLError as e:
        for sample in samples.values():
            _free(sample)
        return Failure(call=call, code=int(e.value), text=str(e))
    return samples


def _sample(device: Any, instance: int | None) -> Any:
    sample = pynvml.nvmlGpmSampleAlloc()
    try:
        if instance is None:
            pynvml.nvmlGpmSampleGet(device, sample)
        else:
            pynvml.nvmlGpmMigSampleGet(device, instance, sample)
    except pynvml.NVMLError:
        _free(sample)
        raise
    return sample


def _free(sample: Any) -> None:
    try:
        pynvml.nvmlGpmSampleFree(sample)
    except pynvml.NVMLError:
        pass  # not in this driver; the process ends anyway


def _finished(index: int, samples: _Samples) -> Iterator[Utilization]:
    for instance, first in samples.items():
        second = None
        try:
            second = _sample(pynvml.nvmlDeviceGetHandleByIndex(index), instance)
            yield Utilization(gpu_instance=instance, **_ratios(first, second))
        except pynvml.NVMLError:
            pass  # the instance is gone
        finally:
            for sample in filter(None, (first, second)):
                _free(sample)


def _ratios(first: Any, second: Any) -> dict[str, float | None]:
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    asked.numMetrics = len(_METRICS)
    asked.sample1, asked.sample2 = first, second
    for position, number in enumerate(_METRICS.values()):
        asked.metrics[position].metricId = number
    pynvml.nvmlGpmMetricsGet(asked)
    return {name: _ratio(asked.metrics[position]) for position, name in enumerate(_METRICS)}


def _ratio(metric: Any) -> float | None:
    if metric.nvmlReturn != pynvml.NVML_SUCCESS or not math.isfinite(metric.value):
        return None
    # The counters' windows differ slightly: a little above 100 % counts as 100 %.
    percent: float = metric.value
    return round(min(max(percent / 100, 0.0), 1.0), 4)

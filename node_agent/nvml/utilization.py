"""Utilization of GPUs and GPU instances, from NVML's GPM (Hopper and later, where permitted).

It takes two samples within a thorough probe, so that no resource is needed between probes. In MIG
mode there is a value per GPU instance, else a value of the whole GPU. Source: nvml.h,
nvmlGpmMetricsGet (samples must be more than 100 ms apart).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import replace
from typing import Any

import pynvml

from slicewright.node_agent.nvml.binding import NOT_SUPPORTED, SUCCESS, Handle, Nvml, NvmlError
from slicewright.node_agent.nvml.observed import Failure, ObservedGpu, Utilization

WINDOW_S = 0.12
# Each value is a percentage.
_METRICS = {
    "graphics": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "dram": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
_Sample = pynvml.c_nvmlGpmSample_t
_Samples = dict[int | None, Any]
"""GPU instance -> sample. None: the whole GPU."""


def measure(nvml: Nvml, gpus: Sequence[ObservedGpu]) -> tuple[ObservedGpu, ...]:
    """The GPUs with their utilization, or the reason why it was not measured. Takes WINDOW_S.

    Raises no NvmlError.
    """
    sampling = [_start_sampling(nvml, gpu) for gpu in gpus]
    if any(isinstance(samples, dict) and samples for samples in sampling):
        time.sleep(WINDOW_S)
    return tuple(
        replace(gpu, utilization_failure=samples)
        if isinstance(samples, Failure)
        else replace(gpu, utilization=tuple(_finish_sampling(nvml, gpu.index, samples)))
        for gpu, samples in zip(gpus, sampling, strict=True)
    )


def _start_sampling(nvml: Nvml, gpu: ObservedGpu) -> _Samples | Failure:
    samples: _Samples = {}
    if gpu.failure:
        return samples  # the GPU itself did not answer, and has a `failure`
    support = pynvml.c_nvmlGpmSupport_t(version=pynvml.NVML_GPM_SUPPORT_VERSION)
    try:
        device = nvml.device(gpu.index)
        nvml.call("nvmlGpmQueryDeviceSupport", device, byref(support))
        if not support.isSupportedDevice:
            return Failure(
                call="nvmlGpmQueryDeviceSupport",
                code=NOT_SUPPORTED,
                text="needs Hopper or later, and a driver that supports GPM",
            )
        instances: list[int | None] = (
            [None] if gpu.mig != "enabled" else [*sorted({d.gpu_instance for d in gpu.devices})]
        )
        for instance in instances:
            samples[instance] = _sample(nvml, device, instance)
    except NvmlError as e:
        for sample in samples.values():
            _free(nvml, sample)
        return Failure(call=e.call, code=e.code, text=str(e))
    return samples


def _sample(nvml: Nvml, device: Handle, instance: int | None) -> Any:
    sample = nvml.read("nvmlGpmSampleAlloc", _Sample)
    try:
        if instance is None:
            nvml.call("nvmlGpmSampleGet", device, sample)
        else:
            nvml.call("nvmlGpmMigSampleGet", device, instance, sample)
    except NvmlError:
        _free(nvml, sample)
        raise
    return sample


def _free(nvml: Nvml, sample: Any) -> None:
    nvml.function("nvmlGpmSampleFree")(sample)  # if it fails, the process ends anyway


def _finish_sampling(nvml: Nvml, index: int, samples: _Samples) -> Iterator[Utilization]:
    for instance, first in samples.items():
        second = None
        try:
            second = _sample(nvml, nvml.device(index), instance)
            yield Utilization(gpu_instance=instance, **_ratios(nvml, first, second))
        except NvmlError:
            pass  # the instance is gone
        finally:
            for sample in filter(None, (first, second)):
                _free(nvml, sample)


def _ratios(nvml: Nvml, first: Any, second: Any) -> dict[str, float | None]:
    # The driver touches only the first `numMetrics` metrics.
    metrics = pynvml.c_nvmlGpmMetricsGet_t(
        version=pynvml.NVML_GPM_METRICS_GET_VERSION,
        numMetrics=len(_METRICS),
        sample1=first,
        sample2=second,
    )
    for position, number in enumerate(_METRICS.values()):
        metrics.metrics[position].metricId = number
    nvml.call("nvmlGpmMetricsGet", byref(metrics))
    return {name: _ratio(metrics.metrics[position]) for position, name in enumerate(_METRICS)}


def _ratio(metric: Any) -> float | None:
    if metric.nvmlReturn != SUCCESS or not math.isfinite(metric.value):
        return None
    # The counters' windows differ slightly: a little above 100 % counts as 100 %.
    percent: float = metric.value
    return round(min(max(percent / 100, 0.0), 1.0), 4)

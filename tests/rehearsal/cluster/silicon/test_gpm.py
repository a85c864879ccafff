"""GPM as NVIDIA's header describes it: invalid calls are refused, values are the state file's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import LIBRARY

_GRAPHICS, _SM, _DRAM, _ABSENT, _UNKNOWN = 1, 2, 10, 199, 333


def _metrics(n: Any, first: Any, second: Any, *numbers: int) -> Any:
    asked = n.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics, asked.sample1, asked.sample2 = (
        n.NVML_GPM_METRICS_GET_VERSION,
        len(numbers),
        first,
        second,
    )
    for position, number in enumerate(numbers):
        asked.metrics[position].metricId = number
    return n.nvmlGpmMetricsGet(asked).metrics


def _refused(n: Any, call: Any, *arguments: Any) -> int:
    with pytest.raises(n.NVMLError) as caught:
        call(*arguments)
    code: int = caught.value.value
    return code


def test_two_samples_give_the_utilization_between_them(nvml: Any, make_state: Any) -> None:
    path = make_state(count=1)
    state.repartition(path, 0, ["3g.40gb", "1g.10gb"])
    ids = [gi.id for gi in state.load(path).gpus[0].instances]
    state.set_load(path, state.Load(gpu=0, gi=ids[1], graphics=80, sm=40, dram=5))
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 1
    firsts = [n.nvmlGpmMigSampleGet(gpu, gi, n.nvmlGpmSampleAlloc()) for gi in ids]
    seconds = [n.nvmlGpmMigSampleGet(gpu, gi, n.nvmlGpmSampleAlloc()) for gi in ids]
    told = [
        _metrics(n, a, b, _GRAPHICS, _SM, _DRAM, _ABSENT, _UNKNOWN)
        for a, b in zip(firsts, seconds, strict=True)
    ]
    assert [[m.value for m in metrics[:3]] for metrics in told] == [[0, 0, 0], [80, 40, 5]]
    assert [m.nvmlReturn for m in told[1][:5]] == [0, 0, 0, 0, n.NVML_ERROR_INVALID_ARGUMENT]
    assert (told[1][3].value, told[1][3].metricInfo.longName) == (0, None), "it has no such metric"
    assert _refused(n, _metrics, n, firsts[0], seconds[1], _SM) == n.NVML_ERROR_INVALID_ARGUMENT
    for sample in (*firsts, *seconds):
        n.nvmlGpmSampleFree(sample)


def test_samples_taken_at_once_are_not_refused(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state(count=1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    first, second = (n.nvmlGpmSampleGet(gpu, n.nvmlGpmSampleAlloc()) for _ in range(2))
    assert _metrics(n, first, second, _SM)[0].nvmlReturn == n.NVML_SUCCESS


def test_invalid_calls_are_refused(nvml: Any, make_state: Any) -> None:
    path = make_state(count=2)
    state.repartition(path, 1, ["7g.80gb"])
    n = nvml.on(path)
    whole, cut = (n.nvmlDeviceGetHandleByIndex(index) for index in range(2))
    sample = n.nvmlGpmSampleAlloc()
    nothing = n.c_nvmlGpmSample_t()
    assert _refused(n, n.nvmlGpmMigSampleGet, whole, 0, sample) == n.NVML_ERROR_INVALID_ARGUMENT
    assert _refused(n, n.nvmlGpmSampleGet, cut, sample) == n.NVML_ERROR_NOT_SUPPORTED
    assert _refused(n, n.nvmlGpmMigSampleGet, cut, 77, sample) == n.NVML_ERROR_INVALID_ARGUMENT
    assert _refused(n, n.nvmlGpmSampleGet, whole, nothing) == n.NVML_ERROR_INVALID_ARGUMENT
    assert _refused(n, n.nvmlGpmSampleFree, nothing) == n.NVML_ERROR_INVALID_ARGUMENT
    assert _refused(n, _metrics, n, sample, sample, _SM) == n.NVML_ERROR_INVALID_ARGUMENT, (
        "nothing was sampled"
    )
    n.nvmlGpmSampleGet(whole, sample)
    assert _refused(n, _metrics, n, sample, nothing, _SM) == n.NVML_ERROR_INVALID_ARGUMENT
    assert _refused(n, _metrics, n, sample, sample) == n.NVML_ERROR_INVALID_ARGUMENT, "no metric"
    asked = n.c_nvmlGpmMetricsGet_t(version=9, numMetrics=1, sample1=sample, sample2=sample)
    assert _refused(n, n.nvmlGpmMetricsGet, asked) == n.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
    support = n.c_nvmlGpmSupport_t(version=9)
    wrong = n.nvmlLib.nvmlGpmQueryDeviceSupport(whole, n.byref(support))
    assert wrong == n.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


@pytest.mark.parametrize("model", ["A100-80", "L4", "T4"])
def test_gpus_before_hopper_do_not_support_it(model: str, nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state(model, 1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    assert n.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice == 0
    assert (
        _refused(n, n.nvmlGpmSampleGet, gpu, n.nvmlGpmSampleAlloc()) == n.NVML_ERROR_NOT_SUPPORTED
    )


_CALLER = """
#include <stdio.h>
#include <time.h>
#include "nvml_abi.h"

#define MUST(expression) \\
    if ((expression) != NVML_SUCCESS) return printf("%s failed\\n", #expression), 1

int main(void)
{
    nvmlDevice_t device;
    nvmlGpmSupport_t support = {.version = NVML_GPM_SUPPORT_VERSION};
    nvmlGpmMetricsGet_t get = {.version = NVML_GPM_METRICS_GET_VERSION, .numMetrics = 2};
    get.metrics[0].metricId = 2;
    get.metrics[1].metricId = 10;
    MUST(nvmlInit_v2());
    MUST(nvmlDeviceGetHandleByIndex_v2(0, &device));
    MUST(nvmlGpmQueryDeviceSupport(device, &support));
    MUST(nvmlGpmSampleAlloc(&get.sample1));
    MUST(nvmlGpmSampleAlloc(&get.sample2));
    MUST(nvmlGpmSampleGet(device, get.sample1));
    nanosleep(&(struct timespec){.tv_nsec = 110000000}, NULL);
    MUST(nvmlGpmSampleGet(device, get.sample2));
    MUST(nvmlGpmMetricsGet(&get));
    nvmlGpmMetric_t *sm = &get.metrics[0], *dram = &get.metrics[1];
    printf("%u %d %.1f %d %.1f\\n", support.isSupportedDevice, sm->nvmlReturn, sm->value,
        dram->nvmlReturn, dram->value);
    MUST(nvmlGpmSampleFree(get.sample1));
    MUST(nvmlGpmSampleFree(get.sample2));
    return nvmlShutdown();
}
"""


def test_a_c_program_measures_the_same(library: Path, make_state: Any, tmp_path: Path) -> None:
    (tmp_path / "caller.c").write_text(_CALLER)
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(
        [
            "cc",
            "-Wall",
            f"-I{LIBRARY}",
            "-o",
            str(tmp_path / "caller"),
            str(tmp_path / "caller.c"),
            *link,
        ],
        check=True,
    )
    path = make_state(count=1)
    state.set_load(path, state.Load(gpu=0, sm=33, dram=66))
    environment = {**os.environ, state.VARIABLE: str(path)}
    ran = subprocess.run(
        [tmp_path / "caller"], env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "1 0 33.0 0 66.0\n")

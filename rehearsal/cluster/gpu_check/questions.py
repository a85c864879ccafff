"""What is asked of a GPU beyond what the agent reads. Makes only calls that change nothing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pynvml as nvml

_SUCCESS = 0
_FAR = 99
"""An index, a profile or an instance that no GPU has."""
_FIELDS = range(280)
_METRICS = {"graphics": 1, "sm": 2, "occupancy": 3, "dram": 10, "none": 333}
_NO_UUID = "MIG-00000000-0000-0000-0000-000000000000"
_CORRECTED, _VOLATILE = 0, 0
_ProfileV2 = nvml.c_nvmlGpuInstanceProfileInfo_v2_t
_FABRIC_VERSIONS = (
    nvml.c_nvmlGpuFabricInfo_t,
    nvml.c_nvmlGpuFabricInfo_v2_t,
    nvml.c_nvmlGpuFabricInfo_v3_t,
)
_UNSUPPORTED_EVENT = 0x20
"""Bit 5 of the event types, which nvml.h does not define."""

Question = Callable[[], Any]


def constants(device: Any) -> Mapping[str, Any]:
    """What is the same on every GPU of a model with this driver; `error N` where it is refused."""
    n = nvml
    asked: dict[str, Question] = {
        "architecture": partial(n.nvmlDeviceGetArchitecture, device),
        "brand": partial(n.nvmlDeviceGetBrand, device),
        "cores": partial(n.nvmlDeviceGetNumGpuCores, device),
        "memory bus width": partial(n.nvmlDeviceGetMemoryBusWidth, device),
        "memory reserved MiB": lambda: _memory(device).reserved >> 20,
        "BAR1 MiB": lambda: n.nvmlDeviceGetBAR1MemoryInfo(device).bar1Total >> 20,
        "PCI subsystem": lambda: f"{n.nvmlDeviceGetPciInfo(device).pciSubSystemId:#010x}",
        "PCIe generation, maximum": partial(n.nvmlDeviceGetMaxPcieLinkGeneration, device),
        "PCIe width, maximum": partial(n.nvmlDeviceGetMaxPcieLinkWidth, device),
        "power limit, default mW": partial(n.nvmlDeviceGetPowerManagementDefaultLimit, device),
        "banks with spare rows": lambda: sum(_histogram(device)),
        "event types": lambda: f"{n.nvmlDeviceGetSupportedEventTypes(device):#x}",
        "clocks event reasons": lambda: f"{n.nvmlDeviceGetSupportedClocksEventReasons(device):#x}",
        "compute mode": partial(n.nvmlDeviceGetComputeMode, device),
        "fabric state": lambda: _fabric(device, n.c_nvmlGpuFabricInfo_t).state & 0xFF,
        "fabric health": lambda: f"{_fabric(device, n.c_nvmlGpuFabricInfo_v2_t).healthMask:#x}",
        "profile 0, name in version 2": partial(_profile_name, device, _ProfileV2, 2),
        "profile 0, name in version 3": partial(_profile_name, device, _ProfileV3, 3),
        "MIG devices, maximum": partial(n.nvmlDeviceGetMaxMigDeviceCount, device),
        **{
            f"clock {kind}, maximum MHz": partial(n.nvmlDeviceGetMaxClockInfo, device, kind)
            for kind in range(4)
        },
        **{
            f"temperature threshold {kind}": partial(
                n.nvmlDeviceGetTemperatureThreshold, device, kind
            )
            for kind in range(9)
        },
    }
    return {name: answer(question) for name, question in asked.items()}


def codes(device: Any) -> Mapping[str, int]:
    """NVML's return codes, of calls whose values change and of invalid ones."""
    # In the order of the page.
    questions = {
        **_partition_questions(device),
        **_vital_questions(device),
        **_gpm_questions(device),
        **_clock_questions(device),
    }
    return {name: _code(question) for name, question in questions.items()}


def _partition_questions(device: Any) -> dict[str, Question]:
    n = nvml
    return {
        "nvmlDeviceGetHandleByIndex(99)": partial(n.nvmlDeviceGetHandleByIndex, _FAR),
        "nvmlDeviceGetHandleByUUID(MIG-0)": partial(n.nvmlDeviceGetHandleByUUID, _NO_UUID),
        "nvmlDeviceGetHandleByPciBusId(none)": partial(n.nvmlDeviceGetHandleByPciBusId, "none"),
        "nvmlDeviceGetAttributes(GPU)": partial(n.nvmlDeviceGetAttributes, device),
        "nvmlDeviceGetGpuInstanceId(GPU)": partial(n.nvmlDeviceGetGpuInstanceId, device),
        "nvmlDeviceGetMigMode": partial(n.nvmlDeviceGetMigMode, device),
        "nvmlDeviceGetMigDeviceHandleByIndex(99)": partial(
            n.nvmlDeviceGetMigDeviceHandleByIndex, device, _FAR
        ),
        **{
            f"nvmlDeviceGetGpuInstanceProfileInfo({of})": partial(
                n.nvmlDeviceGetGpuInstanceProfileInfo, device, of
            )
            for of in (*range(18), _FAR)
        },
        "nvmlDeviceGetGpuInstanceById(99)": partial(n.nvmlDeviceGetGpuInstanceById, device, _FAR),
        "nvmlDeviceGetGpuInstanceRemainingCapacity(0)": partial(
            n.nvmlDeviceGetGpuInstanceRemainingCapacity, device, 0
        ),
        "nvmlDeviceGetGpuInstanceRemainingCapacity(99)": partial(
            n.nvmlDeviceGetGpuInstanceRemainingCapacity, device, _FAR
        ),
    }


def _vital_questions(device: Any) -> dict[str, Question]:
    n = nvml
    return {
        "nvmlDeviceGetMemoryInfo": partial(n.nvmlDeviceGetMemoryInfo, device),
        **{
            f"nvmlDeviceGetGpuFabricInfo(version {version})": partial(_fabric, device, kind)
            for version, kind in enumerate(_FABRIC_VERSIONS, start=1)
        },
        "nvmlDeviceGetUtilizationRates": partial(n.nvmlDeviceGetUtilizationRates, device),
        "nvmlDeviceGetEncoderUtilization": partial(n.nvmlDeviceGetEncoderUtilization, device),
        "nvmlDeviceGetPowerUsage": partial(n.nvmlDeviceGetPowerUsage, device),
        "nvmlDeviceGetTotalEnergyConsumption": partial(
            n.nvmlDeviceGetTotalEnergyConsumption, device
        ),
        "nvmlDeviceGetNumaNodeId": partial(n.nvmlDeviceGetNumaNodeId, device),
        "nvmlDeviceGetTopologyCommonAncestor(itself)": partial(
            n.nvmlDeviceGetTopologyCommonAncestor, device, device
        ),
        "nvmlDeviceGetComputeRunningProcesses": partial(
            n.nvmlDeviceGetComputeRunningProcesses, device
        ),
        **{
            f"nvmlDeviceGetMemoryErrorCounter(location {at})": partial(
                n.nvmlDeviceGetMemoryErrorCounter, device, _CORRECTED, _VOLATILE, at
            )
            for at in range(8)
        },
        "nvmlDeviceGetTotalEccErrors": partial(
            n.nvmlDeviceGetTotalEccErrors, device, _CORRECTED, _VOLATILE
        ),
        "nvmlDeviceGetRemappedRows": partial(n.nvmlDeviceGetRemappedRows, device),
        "nvmlDeviceGetRetiredPages": partial(n.nvmlDeviceGetRetiredPages, device, 0),
        "nvmlDeviceGetRetiredPagesPendingStatus": partial(
            n.nvmlDeviceGetRetiredPagesPendingStatus, device
        ),
        "nvmlDeviceRegisterEvents(unsupported)": lambda: _registered(device),
    }


def _gpm_questions(device: Any) -> dict[str, Question]:
    n = nvml
    return {
        "nvmlGpmSampleGet(GPU)": partial(_sampled, partial(n.nvmlGpmSampleGet, device)),
        **{
            f"nvmlGpmMigSampleGet({of})": partial(
                _sampled, partial(n.nvmlGpmMigSampleGet, device, of)
            )
            for of in (0, _FAR)
        },
        "nvmlGpmQueryDeviceSupport": partial(n.nvmlGpmQueryDeviceSupport, device),
        "nvmlGpmMetricsGet(version 9)": lambda: _between_samples(
            device, [_METRICS["sm"]], version=9
        ),
        "nvmlGpmMetricsGet(samples at once)": partial(_at_once, device),
    }


def _clock_questions(device: Any) -> dict[str, Question]:
    return {
        f"nvmlDeviceGetClock({kind}, {of})": partial(nvml.nvmlDeviceGetClock, device, kind, of)
        for kind in range(5)
        for of in range(5)
    }


def fields(device: Any) -> Mapping[str, str]:
    """Of every field value: its return code, and its type where it has a value."""
    found = {}
    for number in _FIELDS:
        try:
            (value,) = nvml.nvmlDeviceGetFieldValues(device, [number])
        except nvml.NVMLError as e:
            found[str(number)] = f"error {e.value}"
            continue
        code = value.nvmlReturn
        found[str(number)] = f"code {code}" if code else f"type {value.valueType}"
    return found


def error_texts() -> Mapping[str, str]:
    """What the driver's library says for each code."""
    return {str(code): str(nvml.NVMLError(code)) for code in (*range(1, 32), 999)}


def metrics(device: Any, pause: Callable[[], None]) -> Mapping[str, str]:
    """Of GPM's metrics: return code and name. pause: what to do between the two samples."""
    try:
        found = _between_samples(device, _METRICS.values(), pause=pause)
    except nvml.NVMLError as e:
        return {"samples": f"error {e.value}"}
    return {
        name: f"code {metric.nvmlReturn}, {_text(metric.metricInfo.longName)}"
        for name, metric in zip(_METRICS, found, strict=True)
    }


def answer(question: Question) -> Any:
    try:
        return question()
    except nvml.NVMLError as e:
        return f"error {e.value}"


def _code(question: Question) -> int:
    try:
        question()
    except nvml.NVMLError as e:
        return int(e.value)
    return _SUCCESS


class _ProfileV3(ctypes.Structure):
    """nvmlGpuInstanceProfileInfo_v3_t of nvml.h, which nvidia-ml-py does not have."""

    _fields_ = (
        *((f"number{position}", ctypes.c_uint) for position in range(10)),
        ("memorySizeMB", ctypes.c_ulonglong),
        ("name", ctypes.c_char * nvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE),
        ("capabilities", ctypes.c_uint),
    )


def _profile_name(device: Any, kind: type[Any], version: int) -> str:
    """Of the profile 0, in a version of its structure."""
    info = kind()
    # Both versions begin with it.
    ctypes.cast(ctypes.byref(info), ctypes.POINTER(ctypes.c_uint))[0] = (
        ctypes.sizeof(info) | version << 24
    )
    call = nvml._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstanceProfileInfoV")
    if code := call(device, 0, ctypes.byref(info)):
        raise nvml.NVMLError(code)
    # The bytes: nvidia-ml-py's own structures decode them, those of ctypes do not.
    return bytes(info)[kind.name.offset :].partition(b"\0")[0].decode()


def _fabric(device: Any, kind: type[Any]) -> Any:
    """The state of the GPU's fabric, in a version of its structure. Raises NVMLError."""
    info = kind()
    plain = kind is nvml.c_nvmlGpuFabricInfo_t
    ask = nvml.nvmlDeviceGetGpuFabricInfo if plain else nvml.nvmlDeviceGetGpuFabricInfoV
    ask(device, ctypes.byref(info))
    return info


def _memory(device: Any) -> Any:
    return nvml.nvmlDeviceGetMemoryInfo(device, version=nvml.nvmlMemory_v2)


def _histogram(device: Any) -> Sequence[int]:
    """Banks by how many spare rows they have left."""
    counted = nvml.nvmlDeviceGetRowRemapperHistogram(device)
    return [getattr(counted, name) for name, _ in counted._fields_]


def _registered(device: Any) -> None:
    events = nvml.nvmlEventSetCreate()
    try:
        nvml.nvmlDeviceRegisterEvents(device, _UNSUPPORTED_EVENT, events)
    finally:
        nvml.nvmlEventSetFree(events)


@contextmanager
def _samples(count: int) -> Iterator[Sequence[Any]]:
    allocated = [nvml.nvmlGpmSampleAlloc() for _ in range(count)]
    try:
        yield allocated
    finally:
        for sample in allocated:
            nvml.nvmlGpmSampleFree(sample)


def _sampled(take: Callable[[Any], Any]) -> None:
    with _samples(1) as (sample,):
        take(sample)


def _between_samples(
    device: Any,
    numbers: Iterable[int],
    *,
    pause: Callable[[], None] = lambda: None,
    version: int = nvml.NVML_GPM_METRICS_GET_VERSION,
) -> Sequence[Any]:
    """GPM's metrics of these numbers. pause: what to do between the two samples."""
    asked = nvml.c_nvmlGpmMetricsGet_t(version=version)
    with _samples(2) as (asked.sample1, asked.sample2):
        nvml.nvmlGpmSampleGet(device, asked.sample1)
        pause()
        nvml.nvmlGpmSampleGet(device, asked.sample2)
        for number in numbers:
            asked.metrics[asked.numMetrics].metricId = number
            asked.numMetrics += 1
        nvml.nvmlGpmMetricsGet(asked)
    return list(asked.metrics[: asked.numMetrics])


def _at_once(device: Any) -> None:
    """Raises NVMLError also where only the one metric is refused."""
    (metric,) = _between_samples(device, [_METRICS["sm"]])
    if metric.nvmlReturn:
        raise nvml.NVMLError(metric.nvmlReturn)


def _text(name: bytes | None) -> str:
    return name.decode() if name else "no name"

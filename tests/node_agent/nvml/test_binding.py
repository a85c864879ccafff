"""The agent's declarations of NVML, held against NVIDIA's own binding (nvidia-ml-py)."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pynvml
import pytest

from node_agent.nvml import binding, utilization
from node_agent.nvml.binding import NvmlError

_STRUCTURES = {
    binding.Memory: pynvml.c_nvmlMemory_t,
    binding.PciInfo: pynvml.nvmlPciInfo_t,
    binding.UtilizationRates: pynvml.c_nvmlUtilization_t,
    binding.ProcessInfo: pynvml.c_nvmlProcessInfo_v3_t,
    binding.DeviceAttributes: pynvml.c_nvmlDeviceAttributes,
    binding.GpuInstanceProfileInfo: pynvml.c_nvmlGpuInstanceProfileInfo_t,
    binding.GpuInstanceProfileInfoV2: pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    binding.ComputeInstanceProfileInfo: pynvml.c_nvmlComputeInstanceProfileInfo_t,
    binding.ComputeInstanceProfileInfoV2: pynvml.c_nvmlComputeInstanceProfileInfo_v2_t,
    binding.Placement: pynvml.c_nvmlGpuInstancePlacement_t,
    binding.GpuInstanceInfo: pynvml.c_nvmlGpuInstanceInfo_t,
    binding.ComputeInstanceInfo: pynvml.c_nvmlComputeInstanceInfo_t,
    binding.FieldValue: pynvml.c_nvmlFieldValue_t,
    utilization.GpmSupport: pynvml.c_nvmlGpmSupport_t,
    utilization.MetricInfo: pynvml.c_metricInfo_t,
    utilization.GpmMetric: pynvml.c_nvmlGpmMetric_t,
    utilization.GpmMetricsGet: pynvml.c_nvmlGpmMetricsGet_t,
}


def _layout(structure: Any) -> tuple[int, list[tuple[str, int, int]]]:
    """Size, and every field with its offset and size."""
    fields = [getattr(structure, name) for name, _ in structure._fields_]
    return ctypes.sizeof(structure), [
        (name, field.offset, field.size)
        for (name, _), field in zip(structure._fields_, fields, strict=True)
    ]


def test_every_structure_is_nvidias() -> None:
    declared = {
        value
        for module in (binding, utilization)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ctypes.Structure)
        and value is not ctypes.Structure
    }
    assert declared == set(_STRUCTURES)
    for ours, theirs in _STRUCTURES.items():
        assert _layout(ours) == _layout(theirs), ours.__name__


def test_every_member_of_a_value_is_nvidias() -> None:
    theirs = dict(pynvml.c_nvmlValue_t._fields_)
    assert ctypes.sizeof(binding.Value) == ctypes.sizeof(pynvml.c_nvmlValue_t)
    assert {name: theirs[name] for name, _ in binding.Value._fields_} == dict(
        binding.Value._fields_
    )


def test_versions_of_structures_are_nvidias() -> None:
    gpu = binding.versioned(binding.GpuInstanceProfileInfoV2, 2)
    compute = binding.versioned(binding.ComputeInstanceProfileInfoV2, 2)
    assert gpu.version == pynvml.nvmlGpuInstanceProfileInfo_v2
    assert compute.version == pynvml.nvmlComputeInstanceProfileInfo_v2
    assert utilization._VERSION == pynvml.NVML_GPM_METRICS_GET_VERSION
    assert utilization._VERSION == pynvml.NVML_GPM_SUPPORT_VERSION


def test_every_code_is_nvidias() -> None:
    codes = {
        name: value
        for name, value in vars(binding).items()
        if isinstance(value, int) and name != "TEXT_BYTES"
    }
    assert codes.pop("SUCCESS") == pynvml.NVML_SUCCESS
    assert len(codes) == 8
    for name, value in codes.items():
        assert value == getattr(pynvml, f"NVML_ERROR_{name}"), name
    assert binding.TEXT_BYTES == pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE


def test_an_error_names_the_function_without_its_version_and_says_what_the_driver_says(
    fake_library: Path,
) -> None:
    nvml = binding.Nvml(ctypes.CDLL(str(fake_library)))
    lost = nvml.error("nvmlDeviceGetHandleByIndex_v2", 15)
    assert (lost.call, lost.code, str(lost)) == ("nvmlDeviceGetHandleByIndex", 15, "GPU is lost")
    with pytest.raises(NvmlError, match="Function Not Found"):
        nvml.call("nvmlNotYet")


def test_the_newest_binding_of_nvidias_has_no_field_that_ours_numbers_otherwise() -> None:
    from node_agent.nvml import vitals

    theirs = {value: name for name, value in vars(pynvml).items() if name.startswith("NVML_FI_DEV")}
    words = {
        "ecc_corrected": "ECC_SBE_VOL_TOTAL",
        "ecc_uncorrected": "ECC_DBE_VOL_TOTAL",
        "retired_single": "RETIRED_SBE",
        "retired_double": "RETIRED_DBE",
        "retired_pending": "RETIRED_PENDING",
        "memory_temperature_c": "MEMORY_TEMP",
        "nvlinks": "NVLINK_LINK_COUNT",
        "remapped_correctable": "REMAPPED_COR",
        "remapped_uncorrectable": "REMAPPED_UNC",
        "remap_pending": "REMAPPED_PENDING",
        "remap_failed": "REMAPPED_FAILURE",
        "recovery_action": "GET_GPU_RECOVERY_ACTION",
    }
    assert {name: theirs[number] for name, number in vitals._FIELDS.items()} == {
        name: f"NVML_FI_DEV_{word}" for name, word in words.items()
    }
    assert vitals._GPU_SENSOR == pynvml.NVML_TEMPERATURE_GPU
    assert vitals._SM_CLOCK == pynvml.NVML_CLOCK_SM

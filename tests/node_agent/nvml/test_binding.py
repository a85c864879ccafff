from __future__ import annotations

import ctypes
from pathlib import Path

import pynvml
import pytest

from slicewright.node_agent.nvml import binding
from slicewright.node_agent.nvml.binding import NvmlError


def test_a_placement_of_a_compute_instance_has_the_structure_of_a_gpu_instances() -> None:
    compute = pynvml.c_nvmlComputeInstancePlacement_t
    assert binding.Placement._fields_ == compute._fields_


def test_an_error_names_the_function_without_its_version_and_says_what_the_driver_says(
    fake_library: Path,
) -> None:
    nvml = binding.Nvml(ctypes.CDLL(str(fake_library)))
    lost = nvml.error("nvmlDeviceGetHandleByIndex_v2", 15)
    assert (lost.call, lost.code, str(lost)) == ("nvmlDeviceGetHandleByIndex", 15, "GPU is lost")
    with pytest.raises(NvmlError, match="Function Not Found"):
        nvml.call("nvmlNotYet")

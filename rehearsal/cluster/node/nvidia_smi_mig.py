"""`nvidia-smi` on a simulated node, through NVML: its options for MIG.

`-i GPU -mig 0|1`, `--query-gpu=… --format=csv,noheader`, and `mig -i GPU` with `-dci`, `-dgi` or
`-cgi PROFILES -C`. Source: nvidia-smi(1), "MIG Management"; NVIDIA MIG user guide.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

from slicewright.node_agent.host.mig_state import ComputeInstance, Gpu
from slicewright.node_agent.host.partition import NvmlPartitioner, opened
from slicewright.node_agent.host.transaction import NvmlCallFailed
from slicewright.node_agent.nvml import binding
from slicewright.node_agent.nvml.binding import Handle, Nvml

_NOT_FOUND, _FAILED = 6, 3
_PCI_INFO_BYTES, _DEVICE_ID_AT = 68, 28
"""Size of nvmlPciInfo_t, and where in it the device ID is."""
_MODES: Final = {True: "Enabled", False: "Disabled", None: "[N/A]"}


def set_mode(index: str, on: str) -> int:
    """Prints a warning if the mode stays pending, and succeeds.

    Source: NVIDIA/gpu-operator #118.
    """
    with opened() as partitioner:
        try:
            pending = partitioner.set_mig_mode(int(index), on=on == "1")
        except NvmlCallFailed as e:
            pending = str(e)
    if pending is not None:
        print(f"Warning: MIG mode is in pending state for GPU {index}: {pending}")
    print("All done.")
    return 0


def query(fields: str) -> int:
    """Prints a line per GPU."""
    with binding.opened() as nvml:
        for gpu in NvmlPartitioner(nvml).read():
            values = {
                "index": str(gpu.index),
                "pci.device_id": f"0x{_device_id(nvml, gpu.index):08X}",
                "mig.mode.current": _MODES[gpu.mig],
                "mig.mode.pending": _MODES[gpu.pending if gpu.mig is not None else None],
            }
            print(", ".join(values[name] for name in fields.split(",")))
    return 0


def _device_id(nvml: Nvml, index: int) -> int:
    info = ctypes.create_string_buffer(_PCI_INFO_BYTES)
    nvml.call("nvmlDeviceGetPciInfo_v3", nvml.device(index), info)
    return int.from_bytes(info.raw[_DEVICE_ID_AT : _DEVICE_ID_AT + 4], "little")


def change_instances(index: str, arguments: Sequence[str]) -> int:
    """Creates or destroys the instances of a GPU. Prints the driver's error if it refuses."""
    try:
        with binding.opened() as nvml:
            partitioner = NvmlPartitioner(nvml)
            gpu = partitioner.read()[int(index)]
            match list(arguments):
                case ["-dci"]:
                    return _destroy_computes(partitioner, gpu)
                case ["-dgi"]:
                    return _destroy(partitioner, gpu)
                case ["-cgi", profiles, "-C"]:
                    for name in profiles.split(","):
                        _create(nvml, partitioner, gpu, name)
                    return 0
                case _:
                    print(f"simulated: nvidia-smi mig {' '.join(arguments)} is not simulated")
                    return 2
    except (NvmlCallFailed, binding.NvmlError) as e:
        print(f"Unable to change the GPU instances of GPU {index}: {e}")
        return _FAILED


def _destroy_computes(partitioner: NvmlPartitioner, gpu: Gpu) -> int:
    for instance in gpu.instances:
        for compute in instance.compute_instances:
            assert instance.id is not None
            assert compute.id is not None
            partitioner.destroy_compute_instance(gpu.index, instance.id, compute.id)
    return 0 if gpu.instances else _NOT_FOUND


def _destroy(partitioner: NvmlPartitioner, gpu: Gpu) -> int:
    for instance in gpu.instances:
        assert instance.id is not None
        partitioner.destroy_gpu_instance(gpu.index, instance.id)
    return 0 if gpu.instances else _NOT_FOUND


def _create(nvml: Nvml, partitioner: NvmlPartitioner, gpu: Gpu, name: str) -> None:
    """The driver chooses the place, and the compute instance takes all of the GPU instance."""
    profile = next((offered for offered in gpu.offered if offered.name == name), None)
    if profile is None:
        raise NvmlCallFailed("nvidia-smi", 2, f"GPU {gpu.index} has no profile {name}")
    device = nvml.device(gpu.index)
    handle = nvml.read("nvmlDeviceCreateGpuInstance", Handle, device, profile.id)
    instance = int(nvml.read("nvmlGpuInstanceGetInfo", binding.GpuInstanceInfo, handle).id)
    largest = max(
        partitioner.compute_profiles(gpu.index, instance), key=lambda offered: offered.slices
    )
    whole = ComputeInstance(slices=largest.slices)
    partitioner.create_compute_instance(gpu.index, instance, largest.id, whole)
    print(f"Successfully created GPU instance ID {instance} on GPU {gpu.index}: {name}")

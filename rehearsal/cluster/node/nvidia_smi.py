"""`nvidia-smi` on a simulated node, through NVML: `-L`, `-c MODE`, `-i GPU -c MODE`, and MIG.

The driver's own program needs the real library. Line formats and exit codes are its own. Source:
nvidia-smi(1), "--list-gpus", "--compute-mode" and "RETURN VALUE".
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence

from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.probe import probe
from slicewright.rehearsal.cluster.node import nvidia_smi_mig

_NO_DEVICES, _NO_DRIVER, _BAD_ARGUMENT = 6, 9, 2
_COMPUTE_MODES = {"DEFAULT": 0, "PROHIBITED": 2, "EXCLUSIVE_PROCESS": 3}
_MODE_NAMES = {str(number): name for name, number in _COMPUTE_MODES.items()}
_PCI_INFO_BYTES, _BUS_ID_AT = 68, 36
"""Size of nvmlPciInfo_t, and where in it the bus ID is, up to its end."""


def main(arguments: Sequence[str]) -> int:
    match list(arguments):
        case [] | ["-L" | "--list-gpus"]:
            return _list()
        case ["-i", gpu, "-c", mode] if mode in {*_COMPUTE_MODES, *_MODE_NAMES}:
            return _set_compute_mode(gpu, _MODE_NAMES.get(mode, mode))
        case ["-i", gpu, "-mig", ("0" | "1") as on]:
            return nvidia_smi_mig.set_mode(gpu, on)
        case [query, "--format=csv,noheader"] if query.startswith("--query-gpu="):
            return nvidia_smi_mig.query(query.partition("=")[2])
        case ["mig", "-i", gpu, *what]:
            return nvidia_smi_mig.change_instances(gpu, what)
        case ["-c", mode] if mode in {*_COMPUTE_MODES, *_MODE_NAMES}:
            return _set_all_compute_modes(_MODE_NAMES.get(mode, mode))
        case _:
            print(
                f"simulated: nvidia-smi {' '.join(arguments)}: only -L and [-i GPU] -c "
                f"{'|'.join(_COMPUTE_MODES)} are",
                file=sys.stderr,
            )
            return _BAD_ARGUMENT


def _list() -> int:
    seen = probe()
    if seen.failure is not None:
        print(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver: "
            f"{seen.failure.text}"
        )
        return _NO_DRIVER
    if not seen.gpus:
        print("No devices were found")
        return _NO_DEVICES
    print("\n".join(listed(seen)), flush=True)
    return 0


def _set_all_compute_modes(mode: str) -> int:
    """The exit code is that of the first GPU that refuses."""
    codes = [_set_compute_mode(gpu.uuid or "", mode) for gpu in probe().gpus]
    return next(filter(None, codes), 0)


def _set_compute_mode(gpu: str, mode: str) -> int:
    """gpu: a UUID. An error's exit code is NVML's."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlErrorString.restype = ctypes.c_char_p
    device, pci = ctypes.c_void_p(), ctypes.create_string_buffer(_PCI_INFO_BYTES)
    code = (
        nvml.nvmlInit_v2()
        or nvml.nvmlDeviceGetHandleByUUID(gpu.encode(), ctypes.byref(device))
        or nvml.nvmlDeviceGetPciInfo_v3(device, pci)
        or nvml.nvmlDeviceSetComputeMode(device, _COMPUTE_MODES[mode])
    )
    if code != 0:
        reason = nvml.nvmlErrorString(code).decode()
        print(f"Unable to set the compute mode for GPU {gpu}: {reason}")
        return int(code)
    bus_id = pci.raw[_BUS_ID_AT:].split(b"\0")[0].decode()
    print(f"Set compute mode to {mode} for GPU {bus_id}.\nAll done.")
    return 0


def listed(seen: Observation) -> Iterator[str]:
    """A line per GPU, and below it one per MIG device."""
    for gpu in seen.gpus:
        yield f"GPU {gpu.index}: {gpu.model} (UUID: {gpu.uuid})"
        for number, device in enumerate(gpu.devices):
            profile = device.name.rpartition(" MIG ")[2]
            yield f"  MIG {profile:<12} Device {number:>2}: (UUID: {device.uuid})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

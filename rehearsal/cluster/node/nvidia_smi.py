"""`nvidia-smi -L` in a container on a simulated node: what its CUDA would find, through NVML.

The driver's own program needs the real library. Line format and exit codes are its own. Source:
nvidia-smi(1), "--list-gpus" and "RETURN VALUE".
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from node_agent.nvml.observed import Observation
from node_agent.nvml.probe import probe

_NO_DEVICES, _NO_DRIVER, _BAD_ARGUMENT = 6, 9, 2


def main(arguments: Sequence[str]) -> int:
    if tuple(arguments) not in ((), ("-L",), ("--list-gpus",)):
        print(f"simulated: nvidia-smi {' '.join(arguments)}: only -L is", file=sys.stderr)
        return _BAD_ARGUMENT
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


def listed(seen: Observation) -> Iterator[str]:
    """A line per GPU, and below it one per MIG device."""
    for gpu in seen.gpus:
        yield f"GPU {gpu.index}: {gpu.model} (UUID: {gpu.uuid})"
        for number, device in enumerate(gpu.devices):
            profile = device.name.rpartition(" MIG ")[2]
            yield f"  MIG {profile:<12} Device {number:>2}: (UUID: {device.uuid})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

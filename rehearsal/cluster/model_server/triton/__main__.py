"""`python -m slicewright.rehearsal.cluster.model_server.triton ARGUMENTS…`: becomes NVIDIA's
tritonserver.

It serves at the pod's own address, because all pods share this machine's network; its Python
backend gets an interpreter with numpy 1 and this source tree; its models are told which share of a
GPU the container has. Exit codes: 1 without a device; else tritonserver's own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.nvml.probe import probe
from slicewright.rehearsal.cluster.model_server import devices, turns
from slicewright.rehearsal.cluster.model_server.devices import Device, NoDevice
from slicewright.rehearsal.cluster.model_server.triton import classifier
from slicewright.rehearsal.host.toolchain import triton

PROGRAM: Final = "SLICEWRIGHT_REHEARSAL_TRITON"
"""Path of tritonserver."""
ADDRESS: Final = "SLICEWRIGHT_REHEARSAL_POD_ADDRESS"
_SOURCE: Final = Path(__file__).resolve().parents[4]
_ADDRESSES: Final = ("--http-address", "--grpc-address", "--metrics-address")


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    program = Path(environment[PROGRAM])
    python = triton.interpreter()
    try:
        if isinstance(python, str):
            raise NoDevice(python)
        observation = probe()
        device = devices.devices(observation)[0]
        share = share_of(device, observation)
    except NoDevice as e:
        sys.exit(f"simulated: a model of kind KIND_GPU would fail: {e}")
    memory = "" if device.memory_mib is None else f", {device.memory_mib} MiB"
    print(
        f"simulated: time on the GPU: on {device.name} (UUID: {device.uuid}), "
        f"{share:.3f} of a whole GPU{memory}. Real: tritonserver {triton.SERVER} "
        f"(nvidia-pytriton {triton.VERSION}), whatever the tag of the image",
        flush=True,
    )
    backend = interpreter(Path(tempfile.mkdtemp()), triton.wheels(program))
    libraries = [without_cuda(backend.parent), *_paths(environment), python.library.parent]
    os.execve(  # noqa: S606 - no shell
        program,
        [str(program), *arguments_of(arguments, program, environment.get(ADDRESS, ""))],
        {
            **environment,
            "PATH": f"{backend}:{environment.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            classifier.SHARE: str(share),
            classifier.TURNS: str(turns.DIRECTORY / device.uuid),
            classifier.PROCESS: environment.get(ADDRESS, str(os.getpid())),
        },
    )


def without_cuda(at: Path) -> Path:
    """Makes a directory whose libcuda cannot be loaded, so that tritonserver starts without GPUs.

    The simulated libcuda has the driver's calls for the agent's proof, and not those of the CUDA
    runtime inside tritonserver, which would fail as with a driver that is too old. Its models
    compute without CUDA.
    """
    libraries = at / "without-cuda"
    libraries.mkdir()
    (libraries / "libcuda.so.1").write_text("no ELF file\n")
    return libraries


def _paths(environment: Mapping[str, str]) -> list[str]:
    library_path = environment.get("LD_LIBRARY_PATH")
    return [library_path] if library_path else []


def share_of(device: Device, observation: Observation) -> float:
    """The device's part of its GPU's multiprocessors: 1 for a whole GPU."""
    for gpu in observation.gpus:
        if device.uuid in {gpu_device.uuid for gpu_device in gpu.devices}:
            whole = max((offered.multiprocessors for offered in gpu.offered), default=0)
            if not whole or not device.multiprocessors:
                raise NoDevice(f"NVML does not tell the multiprocessors of {device.uuid}")
            return min(device.multiprocessors / whole, 1.0)
    return 1.0


def arguments_of(arguments: Sequence[str], program: Path, address: str) -> list[str]:
    """The pod's own arguments, and those without which it could not run here."""
    flag_names = {argument.partition("=")[0] for argument in arguments}
    added = {"--backend-directory": str(triton.wheels(program) / triton.BACKENDS)}
    if address:
        added |= dict.fromkeys(_ADDRESSES, address)
    return [
        *arguments,
        *(f"{flag}={value}" for flag, value in added.items() if flag not in flag_names),
    ]


def interpreter(at: Path, wheels: Path) -> Path:
    """Makes a virtual environment with the numpy of `wheels` and this source tree; its `bin`.

    The backend's stub ignores PYTHONPATH and PYTHONHOME. It takes the first python3 on PATH for its
    own program, and looks for packages where that one would.
    """
    base = Path(os.path.realpath(sys.executable))
    packages = at / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages /= "site-packages"
    packages.mkdir(parents=True)
    (at / "bin").mkdir()
    (at / "bin" / "python3").symlink_to(base)
    (at / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n"
        f"version = {'.'.join(map(str, sys.version_info[:3]))}\n"
    )
    for name in ("numpy", "numpy.libs"):
        (packages / name).symlink_to(wheels / name)
    (packages / "rehearsal.pth").write_text(f"{_SOURCE}\n")
    return at / "bin"


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)

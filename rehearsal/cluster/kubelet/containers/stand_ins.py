"""Programs of images that cannot be had: scripts which start the rehearsal's own modules.

They are found on PATH, so that a container's own command line works unchanged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from slicewright.rehearsal.cluster.kubelet.nodes import driver_requests
from slicewright.rehearsal.cluster.node import driver_kernel

MPS_CONTROL = Path(__file__).resolve().parents[2] / "node" / "mps_control.py"
"""`nvidia-cuda-mps-control`, a program of the standard library only."""

_MODULES = {
    "driver-manager": "slicewright.rehearsal.cluster.gpu_operator.driver_manager",
    "manage-crds": "slicewright.rehearsal.cluster.gpu_operator.manage_crds",
    "nvidia-toolkit": "slicewright.rehearsal.cluster.gpu_operator.toolkit",
    "nvidia-validator": "slicewright.rehearsal.cluster.gpu_operator.validator",
    "vectorAdd": "slicewright.rehearsal.cluster.gpu_operator.cuda_workload",
}
_SIMULATED = {
    driver_requests.PROGRAM: driver_requests.SCRIPT,
    driver_kernel.PROGRAM: driver_kernel.SCRIPT,
    # mig-manager has both run after a change: the first makes device nodes, which the fake NVML
    # has already, the second writes a CDI specification, which the simulated runtime does not read.
    "nvidia-ctk": "exit 0",
    # By its file: the MPS control daemon and the device plugin run it without their environment.
    "nvidia-cuda-mps-control": f'exec {os.path.realpath(sys.executable)} -I -S {MPS_CONTROL} "$@"',
}

MODEL_SERVER = "slicewright.rehearsal.cluster.model_server"
"""The stand-in for vLLM."""
TRITON = "SLICEWRIGHT_REHEARSAL_TRITON"
"""The variable with the path of the real tritonserver, where the rehearsal has it."""
_TRITON_SERVER = "slicewright.rehearsal.cluster.model_server.triton"
_NVIDIA_SMI = "slicewright.rehearsal.cluster.node.nvidia_smi"
_WORKLOADS = {
    "nvidia-smi": f'exec {sys.executable} -m {_NVIDIA_SMI} "$@"',
    "vllm": f'exec {sys.executable} -m {MODEL_SERVER} "$@"',
    # The real one, where the rehearsal has it. Else what matters is which device it was given.
    "tritonserver": f'[ -z "${TRITON}" ] || exec {sys.executable} -m {_TRITON_SERVER} "$@"\n'
    f"{sys.executable} -m {_NVIDIA_SMI} -L || exit\n"
    'echo "simulated: tritonserver serves nothing; above is what it was given"\n'
    "trap 'exit 0' TERM INT\nsleep infinity & wait $!",
}


def write(directory: Path) -> None:
    """Writes the scripts; repeated at every start of a kubelet."""
    scripts = {
        name: f'exec {sys.executable} -m {module} "$@"' for name, module in _MODULES.items()
    } | _SIMULATED
    _write(directory, scripts)
    _write(of_workloads(directory), _WORKLOADS)


def of_workloads(directory: Path) -> Path:
    """The programs of workloads' images, and `nvidia-smi`, which the runtime puts into them.

    Apart, because NVIDIA's operands do otherwise where there is no nvidia-smi on PATH; but for the
    MPS control daemon, which runs it.
    """
    return directory / "workloads"


def _write(directory: Path, scripts: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, body in scripts.items():
        temporary = directory / f".{name}.new"
        temporary.write_text(f"#!/bin/sh\n{body}\n")
        temporary.chmod(0o755)
        temporary.replace(directory / name)

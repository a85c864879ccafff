"""The program of this machine that runs for a container image."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rehearsal.cluster.kubelet.containers.environment_variables import Unsupported
from rehearsal.host.toolchain import Toolchain

_SLEEPER = (
    'echo "simulated: $0 does nothing here; $1"; trap "exit 0" TERM INT; sleep infinity & wait '
    "$!"
)  # wait can be interrupted


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of this machine that runs in place of a container's."""

    argv: tuple[str, ...]
    path: tuple[Path, ...] = ()
    """Directories to put on PATH first."""
    host_paths: tuple[Path, ...] = ()
    """Paths of this machine that it needs besides its own directory."""
    env: tuple[tuple[str, str], ...] = ()


def repository(image: str) -> str:
    """`docker.io/library/python:3.13@sha256:…` -> `docker.io/library/python`."""
    name = image.split("@")[0]
    head, _, tail = name.rpartition(":")
    return head if head and "/" not in tail else name


def program(
    image: str, command: tuple[str, ...], args: tuple[str, ...], toolchain: Toolchain, shims: Path
) -> Program:
    """What to run for one container. shims: the directory of `chroot` (nodes/reboots.py).

    Raises Unsupported for an image or command that has no program here.
    """
    name = repository(image)
    if name in ("python", "docker.io/library/python"):
        return _python(command or ("python3",), args)
    last = name.rsplit("/", 1)[-1]
    called = Path(command[0]).name if command else ""
    if name.startswith("registry.k8s.io/nfd/"):
        return _sleeper(last, "the GPU operator stand-in labels the nodes and copies NodeFeatures")
    if name.startswith("gke.gcr.io/nvidia-gpu-device-plugin"):
        return _own(toolchain.gke_device_plugin)
    match last:
        case "gpu-operator" if called in ("", "gpu-operator"):
            return _module("rehearsal.cluster.gpu_operator")
        case "gpu-operator" | "gpu-operator-validator":
            return _sleeper(
                called or last,
                "the kubelet stand-in itself reports the node's resources",
            )
        case "dcgm-exporter" | "dcgm" | "k8s-mps-control-daemon":
            return _sleeper(last, "its engine needs real GPUs")
        case "k8s-mig-manager":
            return Program(
                argv=(str(toolchain.mig_manager), *command[1:], *args),
                path=(shims, toolchain.mig_parted.parent),
                host_paths=(shims, toolchain.mig_parted.parent),
            )
        case "k8s-device-plugin" if called in ("", "nvidia-device-plugin"):
            return _own(toolchain.device_plugin, (*command[1:], *args))
        case "k8s-device-plugin" if called == "gpu-feature-discovery":
            return _own(toolchain.gpu_feature_discovery, (*command[1:], *args))
        case _:
            raise Unsupported(
                f"image {image!r} with command {list(command)!r} has no program in the rehearsal; "
                "supported are python, NVIDIA's gpu-operator, k8s-mig-manager, k8s-device-plugin "
                "(nvidia-device-plugin, gpu-feature-discovery) and GKE's nvidia-gpu-device-plugin; "
                "kwok simulates pods of other registries"
            )


def _python(command: tuple[str, ...], args: tuple[str, ...]) -> Program:
    if Path(command[0]).name not in ("python", "python3", "python3.13"):
        return Program(argv=(*command, *args))
    # Without site-packages, as in the image: an import that fails there fails here.
    interpreter = os.path.realpath(sys.executable)
    return Program(
        argv=(interpreter, "-S", *command[1:], *args), host_paths=(Path(sys.base_prefix),)
    )


def _module(module: str) -> Program:
    """A stand-in: this interpreter with this environment's packages and source tree."""
    source = Path(__file__).resolve().parents[4]
    return Program(
        argv=(sys.executable, "-m", module),
        host_paths=(Path(sys.base_prefix), Path(sys.prefix), source),
        env=(("PYTHONPATH", str(source)), ("PYTHONDONTWRITEBYTECODE", "1")),
    )


def _own(path: Path, args: tuple[str, ...] = ()) -> Program:
    return Program(argv=(str(path), *args))


def _sleeper(name: str, why: str) -> Program:
    return Program(argv=("/bin/sh", "-c", _SLEEPER, name, why))

"""The program of this machine that runs for a container image."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from slicewright.rehearsal.cluster.kubelet.containers import cluster_programs, stand_ins
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import Unsupported
from slicewright.rehearsal.cluster.kubelet.nodes import driver_requests
from slicewright.rehearsal.cluster.node import driver_kernel
from slicewright.rehearsal.cluster.node.source_tree import PACKAGES, SOURCE
from slicewright.rehearsal.host.toolchain import Toolchain, triton

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
    files: tuple[tuple[Path, Path], ...] = ()
    """(file of this machine, its path in the container) of the image."""


def repository(image: str) -> str:
    """`docker.io/library/python:3.13@sha256:…` -> `docker.io/library/python`."""
    name = image.split("@")[0]
    head, _, tail = name.rpartition(":")
    return head if head and "/" not in tail else name


def user(image: str) -> int:
    """The user of the image's own configuration. Sources: the Dockerfile of NFD; that the operator
    gives the validators of its image runAsUser 0, which needed no saying if it were root.
    """
    name = repository(image)
    if (known := cluster_programs.user(name)) is not None:
        return known
    if name.startswith("registry.k8s.io/nfd/"):
        return 65534
    return 65532 if name.rsplit("/", 1)[-1] == "gpu-operator" else 0


def home(uid: int) -> str:
    """The HOME of a container whose image and pod set none, as runc sets it: from the image's
    /etc/passwd, and `/` for a user that is not there. Users other than root are taken to be absent.

    Source: opencontainers/runc, libcontainer/init_linux.go and libcontainer/env.go.
    """
    return "/root" if uid == 0 else "/"


def working_directory(image: str) -> str:
    """The WORKDIR of the image's own configuration.

    Sources: vllm-project/vllm, Dockerfile; triton-inference-server/server, build.py.
    """
    return {_VLLM: "/vllm-workspace", _TRITON: "/opt/tritonserver"}.get(
        repository(image).rsplit("/", 1)[-1], "/"
    )


def environment(image: str) -> dict[str, str]:
    """The image's own variables for NVIDIA's container runtime. Sources: their Dockerfiles."""
    last = repository(image).rsplit("/", 1)[-1]
    if last == _VLLM:
        return {**_NVIDIA, **_MOUNTED_DRIVER, _RELEASE: _release(image)}
    if last == _TRITON:
        return {**_NVIDIA, **_MOUNTED_DRIVER}
    if last == _DRIVER:
        # The tag is the version and the system, as in 580.95.05-ubuntu22.04.
        return {"DRIVER_VERSION": _release(image).partition("-")[0]}
    return dict(_NVIDIA) if last in _ASKING else {}


def _release(image: str) -> str:
    """`vllm/vllm-openai:v0.6.2` -> `0.6.2`; empty without a tag."""
    named = image.split("@")[0]
    return named.removeprefix(repository(image)).lstrip(":v")


_DEVICE_PLUGIN_COMMANDS = (
    "",
    "sh",
    "nvidia-device-plugin",
    "gpu-feature-discovery",
    "config-manager",
    "mps-control-daemon",
)
_ASKING = ("k8s-device-plugin", "k8s-mig-manager", "cuda", "dcgm-exporter")
_VLLM, _TRITON, _DRIVER = "vllm-openai", "tritonserver", "driver"
_RELEASE = "SLICEWRIGHT_REHEARSAL_RELEASE"
"""For the stand-in for vLLM: the release of which it checks the flags."""
_MOUNTED_DRIVER = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib:/usr/local/nvidia/lib64"}
"""Of NVIDIA's CUDA images, on which those of vLLM and Triton are based: where GKE mounts the
driver's library.
"""
_VGPU = "slicewright.rehearsal.cluster.vgpu"
_NVIDIA = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def program(
    image: str,
    command: tuple[str, ...],
    args: tuple[str, ...],
    toolchain: Toolchain,
    shims: Path,
    *,
    address: str = "127.0.0.1",
) -> Program:
    """What to run for one container. shims: the directory of `chroot` (nodes/reboots.py) and of
    the stand-ins. address: the pod's.

    Raises Unsupported for an image or command that has no program here.
    """
    container = _Container(
        repository=repository(image), command=command, args=args, toolchain=toolchain, shims=shims
    )
    if container.name == "python":
        return _python(command or ("python3",), args)
    argv = cluster_programs.command_line(container.repository, args, toolchain, address)
    if argv is not None:
        return Program(argv=argv)
    for select in (_cluster_program, _operator_program, _engine_program, _workload_program):
        if (selected := select(container)) is not None:
            return selected
    raise Unsupported(
        f"image {image!r} with command {list(command)!r} has no program in the rehearsal; "
        "supported are python, vLLM's vllm-openai, NVIDIA's gpu-operator, driver, "
        "k8s-driver-manager, container-toolkit, k8s-mig-manager, k8s-device-plugin "
        "(nvidia-device-plugin, gpu-feature-discovery), cuda and tritonserver with a "
        "command, GKE's nvidia-gpu-device-plugin and driver installers, Prometheus, its "
        "operator and adapter, KEDA, Volcano, HAMi, and cert-manager; kwok simulates pods of other "
        "registries"
    )


@dataclass(frozen=True, kw_only=True)
class _Container:
    """A container's image and command line, and where programs for it are."""

    repository: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    toolchain: Toolchain
    shims: Path

    @property
    def name(self) -> str:
        """The last part of the image's repository."""
        return self.repository.rsplit("/", 1)[-1]

    @property
    def program(self) -> str:
        """The name of the program in the command; empty if the image's own one runs."""
        return Path(self.command[0]).name if self.command else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.command[1:], *self.args)

    def command_line(self, default: str) -> tuple[str, ...]:
        """default: the program of the image's entrypoint."""
        return (self.program or default, *self.arguments)


def _cluster_program(container: _Container) -> Program | None:
    """Selects by the whole repository: programs of Kubernetes, GKE and cert-manager."""
    if container.repository.startswith("registry.k8s.io/nfd/"):
        return _feature_discovery(container.program, container.arguments, container.toolchain)
    if container.repository.startswith("gke.gcr.io/nvidia-gpu-device-plugin"):
        return _own(container.toolchain.gke_device_plugin)
    match container.repository:
        case "quay.io/jetstack/cert-manager-controller":
            return _module("slicewright.rehearsal.cluster.cert_manager")
        case "registry.k8s.io/pause":
            return _sleeper(container.name, "it does nothing anywhere")
        case "cos-nvidia-installer" | "gke-nvidia-installer":
            shims = (container.shims,)
            guarded = any("lsmod" in word for word in container.command)
            options = (driver_requests.GUARDED,) if guarded else ()
            argv = (driver_requests.PROGRAM, *options)
            return Program(argv=argv, path=shims, host_paths=shims)
        case _:
            return None


def _operator_program(container: _Container) -> Program | None:
    """Selects among the images of NVIDIA's operator and its operands."""
    shims = (container.shims,)
    match container.name:
        case "gpu-operator" if container.program in ("", "gpu-operator"):
            return _module("slicewright.rehearsal.cluster.gpu_operator")
        case "gpu-operator":
            argv = _in_place(container.command_line(""))
            return _with_modules(Program(argv=argv, path=shims))
        case "driver" if container.program in (driver_kernel.PROGRAM, "sh"):
            return Program(argv=container.command_line(""), path=shims, host_paths=shims)
        case "k8s-driver-manager":
            argv = container.command_line("driver-manager")
            return _with_modules(Program(argv=argv, path=shims))
        case "container-toolkit":
            argv = _in_place(container.command_line("nvidia-toolkit"))
            return _with_modules(Program(argv=argv, path=shims))
        case "dcgm-exporter" | "dcgm" if not container.command:
            return _dcgm(container)
        case "k8s-mig-manager":
            return _mig_manager(container)
        case "k8s-device-plugin" if container.program in _DEVICE_PLUGIN_COMMANDS:
            return _device_plugin(container)
        case _:
            return None


def _dcgm(container: _Container) -> Program:
    if container.name == "dcgm":
        return _sleeper(container.name, "its engine needs real GPUs")
    if container.toolchain.prometheus is not None:
        return _module("slicewright.rehearsal.cluster.dcgm_exporter")
    return _sleeper(container.name, "its engine needs real GPUs, and nothing here would ask it")


def _mig_manager(container: _Container) -> Program:
    parted = container.toolchain.mig_parted
    path = (container.shims, container.toolchain.mig_manager.parent, parted.parent)
    return Program(
        argv=_in_place(container.command_line("nvidia-mig-manager")),
        path=path,
        host_paths=path,
        files=((parted, Path("/usr/bin/nvidia-mig-parted")),),
    )


def _device_plugin(container: _Container) -> Program:
    toolchain = container.toolchain
    programs = (
        toolchain.device_plugin,
        toolchain.gpu_feature_discovery,
        toolchain.config_manager,
        toolchain.mps_control_daemon,
    )
    path = (container.shims, *dict.fromkeys(program.parent for program in programs))
    argv = _in_place(container.command_line("nvidia-device-plugin"))
    if container.program == "mps-control-daemon":
        workloads = stand_ins.of_workloads(container.shims)
        return _with_modules(Program(argv=argv, path=(*path, workloads)))
    python = (Path(sys.base_prefix), stand_ins.MPS_CONTROL)
    return Program(argv=argv, path=path, host_paths=(*path, *python))


def _engine_program(container: _Container) -> Program | None:
    """Selects among the images of engines that share GPUs."""
    measuring = "nothing here measures processes by container"
    match container.repository.split("/")[-2:], container.program:
        case ["projecthami", "volcano-vgpu-device-plugin"], "":
            return _module(_VGPU, "volcano")
        case ["projecthami", "volcano-vgpu-device-plugin"], _:
            return _sleeper("volcano-vgpu-monitor", measuring)
        case ["projecthami", "hami"], "nvidia-device-plugin":
            return _module(_VGPU, "hami")
        case ["projecthami", "hami"], "scheduler":
            return _module(f"{_VGPU}.hami_server", *container.arguments)
        case ["projecthami", "hami"], "vGPUmonitor":
            return _sleeper("vGPUmonitor", measuring)
        case ["projecthami", "hami"], "sh":
            return Program(argv=container.command_line(""))
        case [_, "kube-scheduler"], "kube-scheduler":
            program = container.toolchain.control_plane
            wrapped = _module(f"{_VGPU}.kube_scheduler", str(program), *container.arguments)
            return replace(wrapped, host_paths=(*wrapped.host_paths, program.parent))
        case _:
            return None


def _workload_program(container: _Container) -> Program | None:
    """Selects among the images of workloads: Triton, vLLM, and CUDA's with a command."""
    command, args, shims = container.command, container.args, container.shims
    triton_server = container.toolchain.triton
    match container.name:
        case "tritonserver" if (command or args) and triton_server is not None:
            return _triton(triton_server, command, args, shims)
        case "cuda" | "tritonserver" if command:
            return _workload(command, args, shims)
        case "vllm-openai":
            path = (stand_ins.of_workloads(shims),)
            return _with_modules(Program(argv=(*_vllm(command), *args), path=path))
        case _:
            return None


def _feature_discovery(called: str, args: tuple[str, ...], toolchain: Toolchain) -> Program:
    """NFD's own programs, where the environment was made with them; else the stand-ins."""
    known = {
        "nfd-worker": (toolchain.nfd_worker, "worker"),
        "nfd-master": (toolchain.nfd_master, "prune" if "-prune" in args else "master"),
        "nfd-gc": (toolchain.nfd_gc, "collector"),
    }
    if called not in known:
        return _sleeper(called, "of Node Feature Discovery there are worker, master and nfd-gc")
    path, part = known[called]
    if path is not None:
        return _own(path, args)
    stand_in = _module(f"slicewright.rehearsal.cluster.feature_discovery.{part}")
    return replace(stand_in, argv=(*stand_in.argv, *args))


def _in_place(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command line, with `exec` before a single program of `sh -c`.

    The images' shells become it by themselves; this machine's may be dash, which would wait
    for it, so that it would neither get the container's signals nor be found by its pid.
    """
    match argv:
        case ("sh", "-c", script) if re.fullmatch(r"[\w./-]+", script):
            return ("sh", "-c", f"exec {script}")
        case _:
            return argv


def _workload(command: tuple[str, ...], args: tuple[str, ...], shims: Path) -> Program:
    """A command that finds the programs of workloads' images on PATH."""
    called = Path(command[0]).name
    argv = command if called in ("", "sh", "bash") else (called, *command[1:])
    path = (stand_ins.of_workloads(shims),)
    return _with_modules(Program(argv=(*argv, *args), path=path))


def _triton(server: Path, command: tuple[str, ...], args: tuple[str, ...], shims: Path) -> Program:
    """Without a command, the image's entrypoint executes the arguments."""
    made = _workload(command or args, args if command else (), shims)
    return replace(
        made,
        host_paths=(*made.host_paths, triton.wheels(server)),
        env=(*made.env, (stand_ins.TRITON, str(server))),
    )


def _vllm(command: tuple[str, ...]) -> tuple[str, ...]:
    """Without a command, or with that of its entrypoint, the stand-in for vLLM's server."""
    if not command:
        return (sys.executable, "-m", stand_ins.MODEL_SERVER)
    called, *rest = command
    if rest[:2] == ["-m", "vllm.entrypoints.openai.api_server"]:
        return (sys.executable, "-m", stand_ins.MODEL_SERVER, *rest[2:])
    return (Path(called).name, *rest)


def _python(command: tuple[str, ...], args: tuple[str, ...]) -> Program:
    if Path(command[0]).name not in ("python", "python3", "python3.13"):
        return Program(argv=(*command, *args))
    # Without site-packages, as in the image: an import that fails there fails here.
    interpreter = os.path.realpath(sys.executable)
    return Program(
        argv=(interpreter, "-S", *command[1:], *args), host_paths=(Path(sys.base_prefix),)
    )


def _module(module: str, *arguments: str) -> Program:
    """A stand-in: this interpreter with this environment's packages and source tree."""
    return _with_modules(Program(argv=(sys.executable, "-m", module, *arguments)))


def _with_modules(program: Program) -> Program:
    source = ("PYTHONPATH", str(SOURCE))
    return replace(
        program,
        host_paths=(
            *program.path,
            Path(sys.base_prefix),
            Path(sys.prefix),
            *PACKAGES,
        ),
        env=(source, ("PYTHONDONTWRITEBYTECODE", "1")),
    )


def _own(path: Path, args: tuple[str, ...] = ()) -> Program:
    return Program(argv=(str(path), *args))


def _sleeper(name: str, why: str) -> Program:
    return Program(argv=("/bin/sh", "-c", _SLEEPER, name, why))

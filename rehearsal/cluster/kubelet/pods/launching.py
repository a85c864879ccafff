"""Starting the process of a container on its node."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.containers import images
from slicewright.rehearsal.cluster.kubelet.containers.container import NotCreated
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
    command_line,
    text_data,
    variables,
)
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import Allocation
from slicewright.rehearsal.cluster.kubelet.logs import files as logfiles
from slicewright.rehearsal.cluster.kubelet.nodes.wrong_layout import (
    WrongLayout,
    partitioner_environment,
)
from slicewright.rehearsal.cluster.kubelet.pods.large_fleets import of_daemon_set
from slicewright.rehearsal.cluster.kubelet.pods.sources import Sources
from slicewright.rehearsal.cluster.kubelet.pods.volumes import PodVolumes
from slicewright.rehearsal.cluster.kubelet.services.names import HostsFiles
from slicewright.rehearsal.cluster.node import container_runtime, launcher
from slicewright.rehearsal.cluster.node.bottlerocket import DEVICES
from slicewright.rehearsal.cluster.node.container_runtime import Container
from slicewright.rehearsal.cluster.node.containerd import Containerd
from slicewright.rehearsal.cluster.node.forks import ForkedProgram, Forks
from slicewright.rehearsal.cluster.node.machine import Machine
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.silicon import device_rules, state
from slicewright.rehearsal.host.toolchain import Toolchain

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POD_ADDRESS = "SLICEWRIGHT_REHEARSAL_POD_ADDRESS"
"""For stand-ins that serve: all pods share this machine's network, so each has its own address."""
_HOSTS = Path("/etc/hosts")
_DRIVER_LIBRARIES = Path("/opt/nvidia/lib64")
"""Where the driver's libraries are mounted, with LD_LIBRARY_PATH.

NVIDIA's container toolkit mounts them in the system's directory, which here is this machine's.
"""

_NOTHING = "/dev/null"
"""What device plugins mount only for the name of the target; every machine has it."""

Started = subprocess.Popen[bytes] | ForkedProgram
Devices = frozenset[str] | None
"""As `LaunchSpec.gpu_devices`."""


class Node(Protocol):
    """What starting a process needs of its node."""

    @property
    def machine(self) -> Machine: ...

    @property
    def files(self) -> NodeFiles: ...

    @property
    def fault(self) -> WrongLayout | None: ...


class Pod(Protocol):
    """What starting a process needs of its pod."""

    @property
    def pod(self) -> JsonObject: ...

    @property
    def directory(self) -> Path: ...

    @property
    def node(self) -> Node: ...

    @property
    def sources(self) -> Sources: ...


@dataclass(frozen=True, kw_only=True)
class Start:
    """One start of a container."""

    run: Pod
    container: JsonObject
    attempt: int
    pod_ip: str
    volumes: PodVolumes
    devices: Allocation | None


class Launching:
    """Starts processes in few threads; each start takes tens of milliseconds.

    Pods of DaemonSets have threads of their own: on a cluster, too, the controller's node does not
    wait for what hundreds of others start.
    """

    def __init__(
        self,
        marks: Mapping[str, str],
        shims: Path,
        toolchain: Toolchain,
        host: str,
        port: str,
        runtime: container_runtime.Mode,
        hosts: HostsFiles,
        is_forked: Callable[[JsonObject], bool],
    ) -> None:
        """marks: environment variables by which leftover processes are found. is_forked: whether
        the programs of a pod are.
        """
        self._is_forked = is_forked
        self._forks = Forks(marks)
        self._hosts = hosts
        self._marks = marks
        self._shims = shims
        self._toolchain = toolchain
        self._api_address = {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }
        self._runtime = runtime
        self._threads = {
            crowd: ThreadPoolExecutor(2, thread_name_prefix="launch") for crowd in (False, True)
        }

    async def start(self, wanted: Start) -> tuple[Started, Devices]:
        """The process, and the device nodes of GPUs that its container was created with.

        Raises NotCreated, MissingReference, Unsupported, ApiError, Unreachable, OSError.
        """

        start = self._forks.start if self._is_forked(wanted.run.pod) else launcher.start

        def launch() -> tuple[Started, Devices]:
            spec = self._specify(wanted)
            logfiles.prepare(spec.log)
            return start(spec), spec.gpu_devices

        return await asyncio.get_running_loop().run_in_executor(
            self._threads[of_daemon_set(wanted.run.pod)], launch
        )

    def execute(
        self, created: Start, devices: Devices, command: Sequence[str], output: Path
    ) -> subprocess.Popen[bytes]:
        """Starts a command with the files, variables and device nodes of a container that was
        created; its processes see each other only where the pod's containers do.

        Called by other threads. Raises as `start`.
        """
        literally = [word.replace("$(", "$$(") for word in command]
        container = {**created.container, "command": literally, "args": []}
        spec = self._specify(replace(created, container=container))
        return launcher.start(replace(spec, log=output, gpu_devices=devices))

    def _specify(self, wanted: Start) -> launcher.LaunchSpec:
        run, container, pod = wanted.run, wanted.container, wanted.run.pod
        _require_runtime(pod, run.node)
        uid, gid = _user(pod, container)
        known = variables(
            pod,
            container,
            _Lookup(run.sources, pod["metadata"]["namespace"]),
            base={
                **self._base(pod, wanted.pod_ip, uid),
                **images.environment(container["image"]),
                # The kubelet puts what the pod says behind what was allocated
                # (kubernetes/kubernetes, GenerateRunContainerOptions), and the last counts.
                **(wanted.devices.env if wanted.devices else {}),
            },
            pod_ip=wanted.pod_ip,
            host_ip="127.0.0.1",
        )
        command, args = command_line(container, known)
        program = images.program(
            container["image"],
            command,
            args,
            self._toolchain,
            self._shims,
            address=wanted.pod_ip,
        )
        known.update(program.env)
        if program.path:
            known["PATH"] = ":".join([*map(str, program.path), known["PATH"]])
        binds = [launcher.Bind(source=a, target=b) for a, b in program.files]
        binds += self._mounts(wanted)
        known.update(partitioner_environment(run.node.machine.cloud, run.node.fault))
        asks = _runtime_container(
            pod,
            container,
            known,
            wanted.devices,
            run.node.machine,
            run.node.files.containerd,
        )
        if run.node.machine.gpu_model and asks.gets_driver:
            binds += self._driver_libraries(asks, run.node)
            others = known.get("LD_LIBRARY_PATH", "")
            known["LD_LIBRARY_PATH"] = f"{_DRIVER_LIBRARIES}:{others}".removesuffix(":")
        return launcher.LaunchSpec(
            argv=program.argv,
            env=known,
            cwd=Path(container.get("workingDir") or images.working_directory(container["image"])),
            read_only_root=bool(_context(pod, container).get("readOnlyRootFilesystem")),
            uid=uid,
            gid=gid,
            binds=tuple(binds),
            host_paths=program.host_paths,
            node_root=run.node.files.root,
            log=logfiles.path(run.directory, container["name"], wanted.attempt),
            privileged=asks.privileged,
            gpu_devices=self._gpu_devices(run.node, asks),
            processes=processes_of(pod, run.directory),
        )

    def _mounts(self, wanted: Start) -> list[launcher.Bind]:
        """The hosts file, the pod's volumes, and what the device plugins mount."""
        pod, container = wanted.run.pod, wanted.container
        named = self._hosts.of(pod["metadata"]["namespace"])
        mounts = [m for m in container.get("volumeMounts") or () if not _is_kernels(pod, m)]
        # As containerd: what is mounted inside another mount comes after it (internal/cri/opts,
        # orderedMounts).
        mounts.sort(key=lambda mount: len(PurePosixPath(mount["mountPath"]).parts))
        return [
            launcher.Bind(source=named, target=_HOSTS),
            *(_bind(wanted.volumes, mount) for mount in mounts),
            *(
                _allocated_mounts(wanted.run.node.files.root, wanted.devices)
                if wanted.devices
                else ()
            ),
        ]

    def _driver_libraries(self, asks: Container, node: Node) -> list[launcher.Bind]:
        given = container_runtime.libraries(asks, self._mode(node))
        files = ((self._toolchain.fake_nvml, given.nvml), (self._toolchain.fake_cuda, given.cuda))
        return [
            launcher.Bind(source=file, target=_DRIVER_LIBRARIES / file.name)
            for file, is_given in files
            if is_given
        ]

    def _mode(self, node: Node) -> container_runtime.Mode:
        return "management" if node.files.containerd.management else self._runtime

    def _gpu_devices(self, node: Node, asks: Container) -> frozenset[str] | None:
        """Those of this moment: a restarted container is a new one.

        Raises NotCreated where the runtime refuses the container.
        """
        if not node.machine.gpu_model:
            return frozenset()
        silicon = state.load(node.files.silicon) if node.files.driver_loaded else None
        try:
            nodes = container_runtime.devices(asks, silicon, mode := self._mode(node))
        except container_runtime.Refused as e:
            raise NotCreated("RunContainerError", f"failed to create containerd task: {e}") from e
        if nodes is not None and container_runtime.has_rules_of_hook(asks, mode):
            nodes |= {device_rules.marker(device_rules.times_written(node.files.silicon))}
        return nodes

    def _base(self, pod: JsonObject, pod_ip: str, uid: int) -> dict[str, str]:
        return {
            POD_ADDRESS: pod_ip,
            "PATH": _PATH,
            "HOSTNAME": pod["spec"].get("hostname") or pod["metadata"]["name"],
            "HOME": images.home(uid),
            **self._marks,
            **self._api_address,
        }


def processes_of(pod: JsonObject, directory: Path) -> Path | None:
    """The directory with the processes that the pod's containers share, if they do."""
    return directory / "processes" if pod["spec"].get("shareProcessNamespace") else None


class _Lookup:
    def __init__(self, sources: Sources, namespace: str) -> None:
        self._sources = sources
        self._namespace = namespace

    def __call__(self, kind: str, name: str) -> Mapping[str, str] | None:
        found = self._sources.find(kind, self._namespace, name)
        return None if found is None else text_data(kind, found)


def _is_kernels(pod: JsonObject, mount: JsonObject) -> bool:
    """Whether it mounts the node's /proc, /sys or /dev at the same path, as the launcher does."""
    host_paths = {
        v["name"]: v["hostPath"]["path"]
        for v in pod["spec"].get("volumes") or ()
        if "hostPath" in v
    }
    return (
        mount["mountPath"] in ("/proc", "/sys", "/dev")
        and host_paths.get(mount["name"]) == mount["mountPath"]
    )


def _bind(volumes: PodVolumes, mount: JsonObject) -> launcher.Bind:
    source = volumes.paths.get(mount["name"])
    if source is None:
        raise Unsupported(f"volumeMount {mount['name']!r}: the pod has no such volume")
    if mount.get("subPathExpr"):
        raise Unsupported(
            f"volumeMount {mount['name']!r}: the kubelet stand-in does not support subPathExpr"
        )
    if below := mount.get("subPath"):
        source = source / below
        if not source.resolve().is_relative_to(volumes.paths[mount["name"]].resolve()):
            raise Unsupported(
                f"volumeMount {mount['name']!r}: subPath {below!r} leads out of the volume"
            )
        if not source.exists():  # the kubelet makes it, for any user
            source.mkdir(parents=True)
            source.chmod(0o777)
    return launcher.Bind(
        source=source, target=Path(mount["mountPath"]), read_only=bool(mount.get("readOnly"))
    )


def _allocated_mounts(node_root: Path, devices: Allocation) -> list[launcher.Bind]:
    """The node gets directories that it lacks, as by containerd (internal/cri/opts, WithMounts)."""
    binds = []
    for target, source, read_only in devices.mounts:
        if source == _NOTHING:
            binds.append(launcher.Bind(source=Path(_NOTHING), target=Path(target)))
            continue
        at = node_root / source.lstrip("/")
        at.mkdir(parents=True, exist_ok=True)
        binds.append(launcher.Bind(source=at, target=Path(target), read_only=read_only))
    return binds


def _context(pod: JsonObject, container: JsonObject) -> JsonObject:
    return {
        **(pod["spec"].get("securityContext") or {}),
        **(container.get("securityContext") or {}),
    }


def _runtime_container(
    pod: JsonObject,
    container: JsonObject,
    known: Mapping[str, str],
    allocated: Allocation | None,
    machine: Machine,
    configured: Containerd,
) -> Container:
    """What the container runtime sees of it.

    NVIDIA's runtime runs it under its runtime class, where it is the default runtime, and where it
    is privileged and asks through NVIDIA_VISIBLE_DEVICES. A pod without either may still mount the
    driver's directory from its node, as GKE's do.
    """
    privileged = bool(_context(pod, container).get("privileged"))
    bottlerocket = machine.bottlerocket is not None
    mounts_count = bottlerocket or configured.mounts_count
    return Container(
        privileged=privileged,
        nvidia_runtime=privileged
        or machine.nvidia_by_default
        or configured.nvidia_by_default
        or pod["spec"].get("runtimeClassName") == "nvidia",
        env=known,
        cdi_devices=allocated.cdi_devices if allocated else frozenset(),
        device_files=allocated.device_files if allocated else frozenset(),
        by_mount=_devices_by_mount(pod, container, allocated) if mounts_count else frozenset(),
        variable_counts=_administers(pod, container)
        or (configured.variable_counts and not bottlerocket),
        host_dev=any(
            mount["mountPath"] == "/dev" and _is_kernels(pod, mount)
            for mount in container.get("volumeMounts") or ()
        ),
    )


def _administers(pod: JsonObject, container: JsonObject) -> bool:
    """True if the container is given CAP_SYS_ADMIN, which NVIDIA's runtime takes for privileged.

    Source: NVIDIA/nvidia-container-toolkit, internal/config/image/privileged.go.
    """
    capabilities = _context(pod, container).get("capabilities") or {}
    return not {"SYS_ADMIN", "ALL"}.isdisjoint(capabilities.get("add") or ())


def _devices_by_mount(
    pod: JsonObject, container: JsonObject, allocated: Allocation | None
) -> frozenset[str]:
    """Names below the runtime's directory at which /dev/null of the node is mounted.

    Source: NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go.
    """
    nothing = {
        volume["name"]
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("hostPath", {}).get("path") == _NOTHING
    }
    targets = [
        mount["mountPath"]
        for mount in container.get("volumeMounts") or ()
        if mount["name"] in nothing
    ]
    mounts = allocated.mounts if allocated else ()
    targets += [target for target, source, _ in mounts if source == _NOTHING]
    named = (PurePosixPath(target) for target in targets)
    return frozenset(path.name for path in named if str(path.parent) == DEVICES)


def _require_runtime(pod: JsonObject, node: Node) -> None:
    """A new container in an old sandbox needs containerd to know the sandbox's runtime still.

    Raises NotCreated.
    """
    handler = pod["spec"].get("runtimeClassName")
    if handler and handler not in node.files.runtimes:
        raise NotCreated(
            "CreateContainerError",
            f'failed to get sandbox runtime: no runtime for "{handler}" is configured',
        )


def _user(pod: JsonObject, container: JsonObject) -> tuple[int, int]:
    """(uid, gid). Without runAsUser it is the image's own user."""
    context = _context(pod, container)
    uid = int(context.get("runAsUser", images.user(container["image"])))
    if context.get("runAsNonRoot") and uid == 0:
        # The real kubelet's message; it retries for ever, too.
        raise MissingReference("container has runAsNonRoot and image will run as root")
    return uid, int(context.get("runAsGroup", 0))

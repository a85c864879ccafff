"""Which of the node's GPU device nodes a container has. Pure.

A container has the device nodes of the moment it was created: those of instances made later do not
appear in it, privileged or not (NVIDIA/nvidia-docker #1473, NVIDIA/gpu-operator #117). Only the
host's own /dev, mounted over the container's, follows the host.

Sources: libnvidia-container's nvc_mount and CLI for the legacy mode; nvidia-container-toolkit 1.19,
nvcdi, for CDI, where a GPU in MIG mode without instances is left out of `all`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from slicewright.rehearsal.cluster.silicon import device_nodes
from slicewright.rehearsal.cluster.silicon.node_silicon import Gpu, NodeSilicon

Mode = Literal["legacy", "cdi", "management"]
"""How the NVIDIA container runtime finds what to put into a container.

`management`: by the CDI specification of every device node, which the GPU Operator's toolkit makes
the runtime's default; for the operands. Source: NVIDIA/gpu-operator,
assets/state-container-toolkit/0500_daemonset.yaml.
"""

VARIABLE = "SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME"
"""Chooses the mode of all simulated nodes."""
_MODES: Mapping[str, Mode] = {"legacy": "legacy", "cdi": "cdi"}
_NO_GPUS = ("", "void", "none")
_PLUGIN_CDI = "k8s.device-plugin.nvidia.com/gpu="
"""Vendor and class of the specification that NVIDIA's device plugin writes."""
_MANAGEMENT = "management.nvidia.com/gpu"
_WITHOUT_DRIVER: Mapping[Mode, str] = {
    "legacy": "nvidia-container-cli: initialization error: nvml error: driver not loaded",
    "cdi": "failed to generate a CDI spec: failed to initialize NVML: Driver Not Loaded",
    "management": f"unresolvable CDI devices {_MANAGEMENT}=all",
}


def mode_of(environment: Mapping[str, str]) -> Mode:
    """The mode that the environment asks for, or legacy. Raises ValueError."""
    asked = environment.get(VARIABLE) or "legacy"
    if asked not in _MODES:
        raise ValueError(f"{VARIABLE}={asked}: must be legacy or cdi")
    return _MODES[asked]


CAPABILITIES: Final = "NVIDIA_DRIVER_CAPABILITIES"
_UTILITY: Final = "utility"
"""Brings libnvidia-ml."""
_COMPUTE: Final = "compute"
"""Brings libcuda, and the device nodes of CUDA's memory manager."""
_DEFAULT: Final = frozenset({_UTILITY, _COMPUTE})
"""Source: NVIDIA/nvidia-container-toolkit, internal/config/image, DefaultDriverCapabilities."""
_EVERY: Final = "all"


class Refused(Exception):
    """The runtime does not create this container; the message is the runtime's own."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """What a runtime looks at."""

    privileged: bool
    nvidia_runtime: bool
    """Run by NVIDIA's runtime: by its runtime class, or because it is the node's default."""
    env: Mapping[str, str]
    host_dev: bool = False
    """The host's /dev is mounted over the container's."""
    cdi_devices: frozenset[str] = frozenset()
    """What its device plugins allocated by CDI; any runtime class gets these."""

    device_files: frozenset[str] = frozenset()
    """What its device plugins allocated by path, as GKE's does; any runtime class gets these."""

    by_mount: frozenset[str] = frozenset()
    """Names of the mounts in /var/run/nvidia-container-devices, if the runtime obeys mounts."""
    variable_counts: bool = True
    """False if the runtime ignores the variable of containers without privileges."""

    @property
    def visible_devices(self) -> str:
        """Source: nvidia-container-toolkit, internal/config/image/cuda_image.go."""
        if self.by_mount:
            return ",".join(sorted(self.by_mount))
        if not self.variable_counts and not self.privileged:
            return "void"
        return self.env.get("NVIDIA_VISIBLE_DEVICES", "all" if self._of_old_image else "void")

    @property
    def _of_old_image(self) -> bool:
        """Whether the image is from before the variable, or the pod says so: such get all GPUs."""
        return bool(self.env.get("CUDA_VERSION")) and not self.env.get("NVIDIA_REQUIRE_CUDA")

    @property
    def gets_driver(self) -> bool:
        """Whether its runtime puts the driver's libraries into it."""
        return bool(self.allocated) or (
            self.nvidia_runtime and self.visible_devices not in _NO_GPUS
        )

    @property
    def capabilities(self) -> frozenset[str]:
        """The driver's capabilities that the legacy hook obeys.

        Source: nvidia-container-toolkit, cmd/nvidia-container-runtime-hook, getDriverCapabilities.
        """
        requested = self.env.get(CAPABILITIES)
        if requested == _EVERY or (requested is None and self._of_old_image):
            return _DEFAULT
        return frozenset(requested.split(",")) & _DEFAULT if requested else _DEFAULT

    @property
    def allocated(self) -> frozenset[str]:
        """UUIDs of the GPUs and MIG devices that NVIDIA's device plugin allocated by CDI."""
        return frozenset(
            name.removeprefix(_PLUGIN_CDI)
            for name in self.cdi_devices
            if name.startswith(_PLUGIN_CDI)
        )


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """The driver's libraries that the runtime puts into a container."""

    nvml: bool
    cuda: bool


def libraries(container: Container, mode: Mode) -> Libraries:
    """By CDI a container gets every library, whatever NVIDIA_DRIVER_CAPABILITIES is.

    Source: nvidia-container-toolkit, pkg/nvcdi/driver-nvml.go.
    """
    if not container.gets_driver:
        return Libraries(nvml=False, cuda=False)
    if container.allocated or mode != "legacy":
        return Libraries(nvml=True, cuda=True)
    capabilities = container.capabilities
    return Libraries(nvml=_UTILITY in capabilities, cuda=_COMPUTE in capabilities)


def has_rules_of_hook(container: Container, mode: Mode) -> bool:
    """True if NVIDIA's hook has put the GPUs into the device rules of the container's cgroup.

    By CDI they are in the container's specification, and a privileged container has no rules. A
    device plugin that allocates files has them in the specification, too.
    """
    by_hook = container.gets_driver and not container.allocated and mode == "legacy"
    return by_hook and not container.privileged


def devices(container: Container, silicon: NodeSilicon | None, mode: Mode) -> frozenset[str] | None:
    """Names below /dev that the container can open; None where it sees the host's own /dev.

    silicon: None while the node has no loaded driver. Raises Refused.
    """
    if silicon is None and container.gets_driver:
        raise Refused(_WITHOUT_DRIVER[mode])
    if container.host_dev:
        # Without privileges the device cgroup refuses to open any of them.
        return None if container.privileged else frozenset()
    if silicon is None:
        return frozenset()
    existing = device_nodes.existing(silicon)
    found = existing if container.privileged else existing & _names(container.device_files)
    if container.allocated:
        # The specification's common edits set NVIDIA_VISIBLE_DEVICES=void: no second injection.
        return found | _allocated(container.allocated, silicon)
    if container.gets_driver:
        match mode:
            case "legacy":
                found |= _legacy(container, silicon)
            case "cdi":
                found |= _cdi(container, silicon)
            case "management":
                found |= _management(container, silicon)
    return found


def _names(files: frozenset[str]) -> frozenset[str]:
    return frozenset(file.removeprefix("/dev/") for file in files)


def _legacy(container: Container, silicon: NodeSilicon) -> frozenset[str]:
    # libnvidia-container, nvc_mount.c: only compute libraries need the memory manager's nodes.
    computes = _COMPUTE in container.capabilities
    found = set(device_nodes.CONTROL if computes else device_nodes.CONTROL - device_nodes.UVM)
    asked = container.visible_devices.split(",")
    for gpu in silicon.gpus:
        whole = "all" in asked or str(gpu.index) in asked or gpu.uuid in asked
        for number, (uuid, nodes) in enumerate(_mig_devices(silicon, gpu)):
            if "all" in asked or uuid in asked or f"{gpu.index}:{number}" in asked:
                found |= nodes
        if whole:
            found.add(device_nodes.gpu_node(gpu))
    for what, node in (
        ("CONFIG", device_nodes.config_node(silicon)),
        ("MONITOR", device_nodes.monitor_node(silicon)),
    ):
        if f"NVIDIA_MIG_{what}_DEVICES" in container.env:
            if not container.privileged:
                raise Refused(f"cannot set MIG_{what}_DEVICES in non privileged container")
            found.add(node)
    return frozenset(found)


def _cdi(container: Container, silicon: NodeSilicon) -> frozenset[str]:
    found = set(device_nodes.CONTROL)
    asked = container.visible_devices.split(",")
    for gpu in silicon.gpus:
        if not gpu.mig:
            if {"all", str(gpu.index), gpu.uuid} & set(asked):
                found.add(device_nodes.gpu_node(gpu))
            continue
        for number, (uuid, nodes) in enumerate(_mig_devices(silicon, gpu)):
            if {"all", uuid, f"{gpu.index}:{number}"} & set(asked):
                found |= nodes
    return frozenset(found)


def _management(container: Container, silicon: NodeSilicon) -> frozenset[str]:
    """Every device node: the specification has one device, `all`. Raises Refused.

    Source: NVIDIA/nvidia-container-toolkit, pkg/nvcdi/management.go.
    """
    requests = sorted(set(container.visible_devices.split(",")))
    if requests != ["all"]:
        names = ", ".join(f"{_MANAGEMENT}={request}" for request in requests)
        raise Refused(f"failed to inject CDI devices: unresolvable CDI devices {names}")
    return device_nodes.existing(silicon)


def _allocated(uuids: frozenset[str], silicon: NodeSilicon) -> frozenset[str]:
    found = set(device_nodes.CONTROL)
    for gpu in silicon.gpus:
        if gpu.uuid in uuids:
            found.add(device_nodes.gpu_node(gpu))
        for uuid, nodes in _mig_devices(silicon, gpu):
            if uuid in uuids:
                found |= nodes
    return frozenset(found)


def _mig_devices(silicon: NodeSilicon, gpu: Gpu) -> list[tuple[str, frozenset[str]]]:
    """UUID and device nodes, the GPU's among them, of every MIG device in order."""
    own = device_nodes.gpu_node(gpu)
    return [
        (ci.uuid, device_nodes.mig_device_nodes(silicon, gpu, gi, ci) | {own})
        for gi in gpu.instances
        for ci in gi.compute_instances
    ]

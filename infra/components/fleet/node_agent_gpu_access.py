"""The access of an agent's container to the driver and the GPUs of its node.

The agent requests no GPU: it would take it from the workloads, and it has to see all of them. So
each kind of node needs another way to the device nodes and to the driver's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components import pods
from slicewright.infra.plan import (
    EksSettings,
    ExistingSettings,
    GkeSettings,
    PoolPlan,
    asks_by_mount,
)
from slicewright.infra.stack_file import GpuOperator

_GKE_DRIVER: Final = "/home/kubernetes/bin/nvidia"
"""The host directory of the driver that GKE installs. Source:
GoogleCloudPlatform/container-engine-accelerators, cmd/nvidia_gpu.
"""
_DEVICE_MOUNTS: Final = "/var/run/nvidia-container-devices"
"""The directory of mounts that name a container's devices for NVIDIA's runtime. Bottlerocket's
runtime reads it, and the operator's with `device_list: volume-mounts`. Source: bottlerocket.dev,
settings.nvidia-container-runtime; NVIDIA/k8s-device-plugin, internal/plugin/server.go.
"""
_PRIVILEGED: Final = k8s.core.v1.SecurityContextArgs(
    privileged=True, read_only_root_filesystem=True
)
"""A privileged container, as Google's own DCGM exporter has.

On GKE no runtime gives device nodes to a pod that requests no GPU. The process runs as an ordinary
user without capabilities.
"""


@dataclass(frozen=True, kw_only=True)
class HostMount:
    """A path of the host that the agent's container reads."""

    name: str
    host_path: str
    host_type: str
    mount_path: str

    def volume(self) -> k8s.core.v1.VolumeArgs:
        return k8s.core.v1.VolumeArgs(
            name=self.name,
            host_path=k8s.core.v1.HostPathVolumeSourceArgs(
                path=self.host_path, type=self.host_type
            ),
        )

    def mount(self) -> k8s.core.v1.VolumeMountArgs:
        return k8s.core.v1.VolumeMountArgs(
            name=self.name, mount_path=self.mount_path, read_only=True
        )


_DRIVER: Final = HostMount(
    name="driver",
    host_path=_GKE_DRIVER,
    host_type="DirectoryOrCreate",
    mount_path="/usr/local/nvidia",
)
_ALL_GPUS: Final = HostMount(
    name="all-gpus",
    host_path="/dev/null",
    host_type="CharDevice",
    mount_path=f"{_DEVICE_MOUNTS}/all",
)


@dataclass(frozen=True, kw_only=True)
class GpuAccess:
    """The parts of a pod that depend on the program that partitions the node."""

    host_mounts: tuple[HostMount, ...] = ()
    environment: Mapping[str, str]
    security_context: k8s.core.v1.SecurityContextArgs
    runtime_class: str | None = None
    """None: containerd's default runtime."""


def gpu_access(pool: PoolPlan, operator: GpuOperator | None) -> GpuAccess:
    """operator: the fleet's GPU operator.

    An agent that computes needs the driver's CUDA libraries and /dev/nvidia-uvm besides NVML. On
    GKE the mounted directory has the whole driver, and a privileged container opens every device.
    Elsewhere NVIDIA's runtime brings both for the capability `compute`. No variant needs another
    privilege, user, or mount of the host.

    NVIDIA's runtime is containerd's default on EKS's GPU images (awslabs/amazon-eks-ami, nodeadm,
    default_runtime_name). On GKE the operator's toolkit adds it as a second runtime
    (NVIDIA/gpu-operator, transformToolkitCtrForCDI). On existing nodes the operator's operands use
    its class, so the agents do too. The API server refuses pods of this class until the operator
    has created it.
    """
    if isinstance(pool.settings, GkeSettings) and not pool.operated:
        return GpuAccess(
            host_mounts=(_DRIVER,),
            environment={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
            security_context=_PRIVILEGED,
        )
    bottlerocket = isinstance(pool.settings, EksSettings) and pool.settings.bottlerocket
    # `compute` brings libcuda and its compiler into the container, and the right to open
    # /dev/nvidia-uvm. Source: NVIDIA/libnvidia-container, src/nvc_info.c and nvc_mount.c.
    capabilities = "compute,utility" if pool.verification.compute else "utility"
    return GpuAccess(
        host_mounts=(_ALL_GPUS,) if asks_by_mount(pool, operator) else (),
        environment={
            # Stated with a mount too: while `device_list` changes, a node's runtime obeys either
            # the mount or the variable.
            "NVIDIA_VISIBLE_DEVICES": _DEVICE_MOUNTS if bottlerocket else "all",
            "NVIDIA_DRIVER_CAPABILITIES": capabilities,
        },
        security_context=pods.restricted(),
        runtime_class=(
            manifests.RUNTIME_CLASS
            if isinstance(pool.settings, ExistingSettings | GkeSettings)
            else None
        ),
    )

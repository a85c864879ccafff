"""Every reason that a verdict can have: one table for verdicts, documentation and tests.

The codes are stable: programs, alerts and the fleet controller read them. The order is the order of
precedence: if there are several findings, the first in this table gives the verdict its reason. A
mismatch precedes an unknown state, and a lasting problem precedes one that may settle without help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from apis.desired_state import Partitioner

Outcome = Literal["Match", "Mismatch", "Unknown"]
Setting = Partitioner | Literal["host"]
"""The context of a message: a bare host, or a pool with this partitioner."""


@dataclass(frozen=True, kw_only=True)
class Reason:
    """The meaning of a reason code, and the remedy."""

    code: str
    verdict: Outcome
    settles: bool = False
    """True if a node that is still being set up can look like this for a while."""
    of_layout: bool = False
    """True if a healthy node that still has an earlier layout of its pool can look like this."""
    driver_silent: bool = False
    """True if the agent runs, and learns nothing from the driver at this moment."""
    meaning: str
    """One clause for the documentation."""
    cause: str = ""
    """Likely cause, for the message."""
    advice: str = ""
    """Next step, for the message."""
    causes: Mapping[Setting, str] = field(default_factory=dict)
    """Causes that differ by setting. They come before `cause`."""
    advices: Mapping[Setting, str] = field(default_factory=dict)

    def cause_for(self, partitioner: Partitioner, *, on_host: bool) -> str:
        return _chosen(self.causes, partitioner, on_host) or self.cause

    def advice_for(self, partitioner: Partitioner, *, on_host: bool) -> str:
        return _chosen(self.advices, partitioner, on_host) or self.advice


def _chosen(texts: Mapping[Setting, str], partitioner: Partitioner, on_host: bool) -> str | None:
    return (texts.get("host") if on_host else None) or texts.get(partitioner)


_GKE_LOG = "read the log of the node's nvidia-gpu-device-plugin pod in kube-system"
_OPERATOR_LOG = (
    "read the node's label nvidia.com/mig.config.state and the log of its nvidia-mig-manager pod"
)
_BOTTLEROCKET_LOG = (
    "read the log of nvidia-migmanager in the node's admin container: `sheltie journalctl -u "
    "nvidia-migmanager`"
)
_HOST_PLUGIN_LOG = (
    "read the log of the node's own device plugin in its admin container: `sheltie journalctl -u "
    "nvidia-k8s-device-plugin`"
)
_RESTART_HOST_PLUGIN = (
    "restart the node's own device plugin in its admin container: `sheltie systemctl restart "
    "nvidia-k8s-device-plugin`"
)
_PLUGIN_LOG = "read the log of the node's device plugin pod"
_REPLACE = "delete the node's instance in the cloud; its node pool makes a new one"
_KERNEL_LOG = "read the host's kernel log for NVRM and Xid lines (`dmesg`)"
_RESET = (
    "stop the programs that use the GPU, then reset it (`nvidia-smi --gpu-reset -i <GPU>`) or "
    "reboot the host"
)

_ALL = (
    Reason(
        code="PartitionsMatch",
        verdict="Match",
        meaning="every GPU and every advertised resource is as wanted",
    ),
    # --- mismatches that stay
    Reason(
        code="GpuLost",
        verdict="Mismatch",
        meaning="a GPU fell off the bus",
        cause="the GPU fell off the bus",
        advice=f"cordon and drain, then reboot, or {_REPLACE}",
        advices={"host": "power-cycle the host; if the GPU stays lost, replace it"},
    ),
    Reason(
        code="GpuResetRequired",
        verdict="Mismatch",
        meaning="the driver refuses a GPU until it is reset",
        cause="the GPU met an error that only a reset clears",
        advice="cordon and drain the node, then reboot it",
        advices={"host": _RESET},
    ),
    Reason(
        code="GpuResetRequested",
        verdict="Mismatch",
        meaning="the driver asks for a reset or a reboot (its recovery action), or a row remapping "
        "or a page retirement waits for one",
        cause="the GPU met an error, and works with what is left of it until it is reset",
        advice="cordon and drain the node, then reboot it",
        advices={"host": _RESET},
    ),
    Reason(
        code="RowRemapFailed",
        verdict="Mismatch",
        meaning="a bad row of a GPU's memory stays in use: there was no spare row to remap it to",
        cause="the GPU's memory has more bad rows than spare ones",
        advice=f"cordon and drain, then {_REPLACE}",
        advices={"host": "stop using the GPU and have it replaced"},
    ),
    Reason(
        code="WrongGpuCount",
        verdict="Mismatch",
        meaning="the driver sees more or fewer GPUs than the machine type has",
        cause="a GPU is broken, or the node's machine type is not the pool's",
        advice=f"compare with the machine type, then {_REPLACE}",
        causes={"host": "a GPU is broken, or the layout is for another machine"},
        advices={"host": "compare the layout with `nvidia-smi -L`"},
    ),
    Reason(
        code="WrongGpuModel",
        verdict="Mismatch",
        meaning="a GPU is of a model that the layout is not made for",
        cause="the pool's machine type and its layout disagree",
        advice="correct the pool in the stack file",
        causes={"host": "the desired state is for another machine"},
        advices={"host": "compare it with `nvidia-smi -L`"},
    ),
    Reason(
        code="DriverTooOld",
        verdict="Mismatch",
        meaning="the driver is older than the layout needs",
        cause="the node image carries an old driver",
        advice="choose a newer driver or node image for the pool",
        causes={"host": "the installed driver is old"},
        advices={"host": "install a newer driver"},
    ),
    Reason(
        code="MigUnsupported",
        verdict="Mismatch",
        meaning="MIG is wanted on a GPU that does not support it",
        cause="the GPU, or its driver, does not support MIG",
        advice="choose another machine type, or a layout without MIG",
        advices={"host": "choose another GPU, or a layout without MIG"},
    ),
    Reason(
        code="WrongLayout",
        verdict="Mismatch",
        of_layout=True,
        meaning="a GPU has other partitions than wanted",
        causes={
            "gke": "GKE's node set-up partitioned it for another size, and does not check which",
            "bottlerocket": "the node booted with other settings than the pool has now, or with a "
            "profile that Bottlerocket does not know",
            "mig-manager": "mig-manager applied another layout, or something changed the GPU "
            "afterwards",
            "none": "it was partitioned by hand",
        },
        advices={
            "gke": "compare /etc/nvidia/gpu_config.json on the node with the pool, then "
            f"{_REPLACE}",
            "bottlerocket": "compare `apiclient get settings.kubelet-device-plugins` on the node "
            f"with the pool; a node of an earlier launch template goes as EKS updates the pool, "
            f"else {_REPLACE}",
            "mig-manager": "compare the node's label nvidia.com/mig.config with the pool, then "
            "delete its nvidia-mig-manager pod",
            "none": "apply the layout again",
        },
    ),
    Reason(
        code="UnwantedMig",
        verdict="Mismatch",
        of_layout=True,
        meaning="MIG is on where a whole GPU is wanted",
        cause="the GPU was partitioned for something else",
        advice=f"turn MIG off on the node, or {_REPLACE}",
        advices={"host": "turn MIG off with `slicewright-agent clear <GPU>`"},
    ),
    Reason(
        code="ComputeInstanceMissing",
        verdict="Mismatch",
        meaning="a GPU instance has no compute instance, so no program can use it (seen with "
        "privileges only)",
        cause="partitioning stopped half way",
        advice="apply the layout again",
    ),
    # --- mismatches that may settle
    Reason(
        code="LayoutChangePending",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the pool wants another layout, and the node keeps the one that it has until it is "
        "its turn to change and its pods have left",
        cause="the change of the node's layout waits for other nodes, for its pods to leave, or "
        "for a paused rollout",
        advice="`slicewright status` says what it waits for",
    ),
    Reason(
        code="MigModePending",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="MIG mode changes with the next reset of the GPU or reboot of the node",
        cause="the change of MIG mode waits for a reset or a reboot",
        advice="if no reboot follows in 15 minutes, reboot the node",
        advices={"host": _RESET},
    ),
    Reason(
        code="NotPartitioned",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="a GPU that should be partitioned is whole, or has MIG on and no partition",
        causes={
            "gke": "GKE's node set-up has not partitioned it yet, or could not read "
            "/etc/nvidia/gpu_config.json",
            "bottlerocket": "the node's settings ask for none, or its nvidia-migmanager failed",
            "mig-manager": "mig-manager has not applied the layout yet",
            "none": "it has not been partitioned yet",
        },
        advices={
            "gke": _GKE_LOG,
            "bottlerocket": _BOTTLEROCKET_LOG,
            "mig-manager": _OPERATOR_LOG,
            "none": "apply the layout",
        },
    ),
    Reason(
        code="LayoutIncomplete",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="a GPU has some of the wanted partitions and no others",
        cause="partitioning is in progress, or stopped half way",
        advices={
            "gke": _GKE_LOG,
            "bottlerocket": _BOTTLEROCKET_LOG,
            "mig-manager": _OPERATOR_LOG,
            "none": "apply the layout again",
        },
    ),
    Reason(
        code="ResourcesNotAdvertised",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the GPUs are right, but the kubelet advertises none of a wanted resource",
        cause="the device plugin has not registered yet",
        advice=_PLUGIN_LOG,
        advices={"bottlerocket": _HOST_PLUGIN_LOG},
    ),
    Reason(
        code="WrongResources",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the GPUs are right, but the kubelet advertises another number of a wanted "
        "resource",
        cause="the device plugin has not enumerated the GPUs again since they were partitioned",
        advice="restart the node's device plugin pod",
        advices={"bottlerocket": _RESTART_HOST_PLUGIN},
    ),
    Reason(
        code="UnexpectedResources",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the kubelet advertises a GPU resource that the layout does not have",
        cause="it is left over from an earlier layout, or the device plugin runs with another "
        "MIG strategy",
        advice="restart the node's device plugin pod, and check its MIG strategy",
        advices={"bottlerocket": _RESTART_HOST_PLUGIN},
    ),
    Reason(
        code="ResourcesWithheld",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="less of a resource is allocatable than the node's capacity",
        cause="the device plugin reports devices as unhealthy, or is restarting",
        advice=f"{_PLUGIN_LOG} for Xid errors",
        advices={"bottlerocket": f"{_HOST_PLUGIN_LOG}, for Xid errors"},
    ),
    Reason(
        code="WrongLabels",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the GPUs and their resources are right, but the node's labels describe others: "
        "product, count or replicas",
        cause="GPU feature discovery renews its labels every minute, or another program writes "
        "them",
        advice="if this lasts, restart the node's gpu-feature-discovery pod",
    ),
    # --- unknown
    Reason(
        code="DriverHung",
        verdict="Unknown",
        driver_silent=True,
        meaning="the driver did not answer in time",
        cause="the driver or a GPU hangs",
        advice="cordon and drain the node, then reboot it",
        advices={"host": f"{_KERNEL_LOG}, then reboot the host"},
    ),
    Reason(
        code="DriverVersionMismatch",
        verdict="Unknown",
        driver_silent=True,
        meaning="the driver's library and its kernel module are of different versions",
        cause="the driver was upgraded under a running node",
        advice="reboot the node",
        causes={"host": "the driver was upgraded while its old kernel module stays loaded"},
        advices={"host": "reboot the host"},
    ),
    Reason(
        code="NoPermission",
        verdict="Unknown",
        driver_silent=True,
        meaning="the driver refuses a call that the agent needs",
        cause="the container has none of the GPU's device files, or outdated ones",
        advice="restart the node's agent pod; if that does not help, check how the pod gets the "
        "driver",
        causes={"host": "this user may not open the GPU's device files (/dev/nvidia*)"},
        advices={"host": "run it as root, or check the owner and mode of /dev/nvidia*"},
    ),
    Reason(
        code="ProfileUnclear",
        verdict="Unknown",
        meaning="a partition could be one of several profiles",
        cause="this driver does not say enough to an unprivileged process",
        advice="use a newer driver",
        advices={"host": "run it as root, or use a newer driver"},
    ),
    Reason(
        code="DriverError",
        verdict="Unknown",
        driver_silent=True,
        meaning="the driver answered a call with an error that has no reason of its own",
        cause="see the NVML error",
        advice="read the kernel log of the node for NVRM and Xid lines",
        advices={"host": _KERNEL_LOG},
    ),
    Reason(
        code="ProbeBroken",
        verdict="Unknown",
        driver_silent=True,
        meaning="the process that probes the GPUs ended without an answer",
        cause="the driver's library crashed, or the agent has a bug",
        advice="read the log of the node's agent pod",
        advices={"host": f"{_KERNEL_LOG}, and run it again"},
    ),
    Reason(
        code="DriverLibraryMissing",
        verdict="Unknown",
        settles=True,
        driver_silent=True,
        meaning="libnvidia-ml.so.1 cannot be found",
        cause="the driver is not installed yet, or the pod does not see it",
        advice="wait for the driver; if it is there, check the pod's mounts or its runtime class",
        causes={"host": "the NVIDIA driver is not installed on this host"},
        advices={
            "host": "install the NVIDIA driver; if `nvidia-smi` works, the library is missing from "
            "the loader's path: check `ldconfig -p | grep libnvidia-ml`"
        },
    ),
    Reason(
        code="DriverNotLoaded",
        verdict="Unknown",
        settles=True,
        driver_silent=True,
        meaning="the driver's library is there, its kernel module is not loaded",
        cause="the driver is still being installed, or its module failed to load",
        advice="read the kernel log of the node for NVRM lines",
        causes={"host": "the NVIDIA kernel module is not loaded on this host"},
        advices={
            "host": "run `modprobe nvidia` as root; if it fails, read the kernel log for NVRM "
            "lines (`dmesg`)"
        },
    ),
    Reason(
        code="PartitioningUnderWay",
        verdict="Unknown",
        settles=True,
        meaning="mig-manager changes the GPUs and the agent does not probe them: an NVML client "
        "can make a change of MIG mode fail",
        cause="mig-manager is changing the partitions",
        advice="if it takes more than 15 minutes, delete the node's nvidia-mig-manager pod; it "
        "then starts again",
    ),
    Reason(
        code="DeviceNodesOutdated",
        verdict="Unknown",
        settles=True,
        meaning="the agent's container sees less than the node has, because a container keeps the "
        "device nodes and the driver's library of its creation",
        cause="the container has the device nodes, or the driver's library, that it was created "
        "with, before the last change; the agent ends its process once, so that the kubelet "
        "creates a new container",
        advice="if it takes more than 10 minutes, delete the node's agent pod",
    ),
    Reason(
        code="NodeUnreadable",
        verdict="Unknown",
        settles=True,
        meaning="the GPUs are right, but the node's advertised resources could not be read",
        cause="the API server does not answer, or refuses",
        advice="read the log of the node's agent pod",
    ),
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in _ALL}
SETTLING: Final = frozenset(code for code, reason in REASONS.items() if reason.settles)
OF_LAYOUT: Final = frozenset(code for code, reason in REASONS.items() if reason.of_layout)
DRIVER_DOES_NOT_ANSWER: Final = frozenset(
    code for code, reason in REASONS.items() if reason.driver_silent
)
RANK: Mapping[str, int] = {reason.code: position for position, reason in enumerate(_ALL)}

MATCH = "PartitionsMatch"

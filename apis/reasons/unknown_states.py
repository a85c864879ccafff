"""Reasons why a verdict is Unknown, in the order of precedence."""

from __future__ import annotations

from typing import Final

from slicewright.apis.reasons.advice import KERNEL_LOG
from slicewright.apis.reasons.agent_reason import Reason

UNKNOWN_STATES: Final = (
    Reason(
        code="DriverHung",
        verdict="Unknown",
        driver_silent=True,
        meaning="the driver did not answer in time",
        cause="the driver or a GPU hangs",
        advice="cordon and drain the node, then reboot it",
        advices={"host": f"{KERNEL_LOG}, then reboot the host"},
    ),
    Reason(
        code="DriverVersionMismatch",
        verdict="Unknown",
        driver_silent=True,
        meaning="the driver's library and its kernel module have different versions",
        cause="the driver was upgraded while the node was running",
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
        cause="this driver tells an unprivileged process too little to distinguish them",
        advice="use a newer driver",
        advices={"host": "run it as root, or use a newer driver"},
    ),
    Reason(
        code="DriverError",
        verdict="Unknown",
        driver_silent=True,
        meaning="a call of the driver failed with an error that has no separate reason",
        cause="see the NVML error",
        advice="read the kernel log of the node for NVRM and Xid lines",
        advices={"host": KERNEL_LOG},
    ),
    Reason(
        code="ProbeBroken",
        verdict="Unknown",
        driver_silent=True,
        meaning="the process that probes the GPUs ended without an answer",
        cause="the driver's library crashed, or the agent has a bug",
        advice="read the log of the node's agent pod",
        advices={"host": f"{KERNEL_LOG}, and run it again"},
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
        meaning="the driver's library is installed, but its kernel module is not loaded",
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
        meaning="mig-manager is changing the GPUs, or GKE may be partitioning them until it "
        "advertises them, and the agent does not probe them meanwhile: an NVML client can make a "
        "change of MIG mode fail",
        cause="mig-manager is changing the partitions",
        advice="if it takes more than 15 minutes, delete the node's nvidia-mig-manager pod, so "
        "that it starts again",
        causes={"gke": "GKE may still be partitioning the GPUs"},
        advices={
            "gke": "the agent probes the GPUs in 5 minutes at the latest; if it takes longer, read "
            "the logs of the node's pods nvidia-gpu-device-plugin and nvidia-driver-installer in "
            "kube-system"
        },
    ),
    Reason(
        code="DeviceNodesOutdated",
        verdict="Unknown",
        settles=True,
        meaning="the agent's container sees less than the node has, because a container keeps "
        "the device nodes and the driver's library that existed when it was created, and can lose "
        "the permission to open them (`systemctl daemon-reload`)",
        cause="the container still has the device nodes, or the driver's library, from before "
        "the last change, or has lost its devices; the agent exits once, so that the kubelet "
        "creates a new container",
        advice="if it takes more than 10 minutes, delete the node's agent pod",
    ),
    Reason(
        code="NodeUnreadable",
        verdict="Unknown",
        settles=True,
        meaning="the GPUs match, but the node's advertised resources could not be read",
        cause="the API server does not answer, or refuses the request",
        advice="read the log of the node's agent pod",
    ),
    Reason(
        code="ComputeUntried",
        verdict="Unknown",
        settles=True,
        meaning="the GPUs match, but the agent could not test whether CUDA computes on them",
        cause="pods or a process use the GPUs, or the agent's container lacks a library of the "
        "driver",
        advice="nothing is computed beside tenants: wait until the pods end, or drain the node; "
        "if a library is missing, check how the pod gets the driver",
    ),
)

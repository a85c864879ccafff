"""Every reason that a verdict can have: one table, for the verdict, for the documentation, for the
tests.

The codes are stable: programs, alerts and the fleet controller read them. The order is the order of
importance: of several findings the first in this table gives the verdict its reason, after the rule
that what is surely wrong comes before what is unknown, and what will not heal by itself before what
may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from node_agent.desired import Partitioner

Word = Literal["Match", "Mismatch", "Unknown"]


@dataclass(frozen=True, kw_only=True)
class Reason:
    """What a reason code means and what to do about it."""

    code: str
    verdict: Word
    settles: bool = False
    """True where a node that is still being set up looks like this for a while."""
    meaning: str
    """For the documentation; one clause."""
    cause: str = ""
    """Likely cause, for the message."""
    advice: str = ""
    """Next step, for the message."""
    causes: Mapping[Partitioner, str] = field(default_factory=dict)
    """Where the cause depends on who partitions."""
    advices: Mapping[Partitioner, str] = field(default_factory=dict)


_GKE_LOG = "read the log of the node's nvidia-gpu-device-plugin pod in kube-system"
_OPERATOR_LOG = (
    "look at the node's label nvidia.com/mig.config.state and the log of its nvidia-mig-manager pod"
)
_REPLACE = "delete the node; its pool makes a new one"

_ALL = (
    Reason(
        code="PartitionsMatch",
        verdict="Match",
        meaning="every GPU and every advertised resource is as wanted",
    ),
    # --- surely wrong, stays wrong
    # -------------------------------------------------------------------------------------
    Reason(
        code="GpuLost",
        verdict="Mismatch",
        meaning="a GPU fell off the bus",
        cause="the GPU fell off the bus",
        advice=f"cordon and drain, then reboot, or {_REPLACE}",
    ),
    Reason(
        code="GpuResetRequired",
        verdict="Mismatch",
        meaning="the driver refuses a GPU until it is reset",
        cause="the GPU met an error that only a reset clears",
        advice="cordon and drain the node, then reboot it",
    ),
    Reason(
        code="WrongGpuCount",
        verdict="Mismatch",
        meaning="the driver sees more or fewer GPUs than the machine type has",
        cause="a GPU is broken, or the machine is of another type than the pool's",
        advice=f"compare with the machine type, then {_REPLACE}",
    ),
    Reason(
        code="WrongGpuModel",
        verdict="Mismatch",
        meaning="a GPU is of a model that the layout is not made for",
        cause="the pool's machine type and its layout disagree",
        advice="correct the pool in the stack file",
    ),
    Reason(
        code="DriverTooOld",
        verdict="Mismatch",
        meaning="the driver is older than the layout needs",
        cause="the node image carries an old driver",
        advice="choose a newer driver or node image for the pool",
    ),
    Reason(
        code="MigUnsupported",
        verdict="Mismatch",
        meaning="MIG is wanted on a GPU that cannot do it",
        cause="the GPU, or its driver, has no MIG",
        advice="choose another machine type, or a layout without MIG",
    ),
    Reason(
        code="WrongLayout",
        verdict="Mismatch",
        meaning="a GPU is cut into other partitions than wanted",
        causes={
            "gke": "GKE's set-up cut it for another size, and does not check which",
            "mig-manager": "mig-manager applied another layout, or something changed the GPU "
            "afterwards",
            "none": "somebody partitioned it by hand",
        },
        advices={
            "gke": "compare /etc/nvidia/gpu_config.json on the node with the pool, then "
            f"{_REPLACE}",
            "mig-manager": "compare the node's label nvidia.com/mig.config with the pool, then "
            "delete its "
            "nvidia-mig-manager pod",
            "none": "apply the layout again",
        },
    ),
    Reason(
        code="UnwantedMig",
        verdict="Mismatch",
        meaning="MIG is on where a whole GPU is wanted",
        cause="the GPU was partitioned for something else",
        advice="turn MIG off on the node, or " + _REPLACE,
    ),
    Reason(
        code="ComputeInstanceMissing",
        verdict="Mismatch",
        meaning="a GPU instance has no compute instance, so nothing can use it (seen with "
        "privileges only)",
        cause="whoever partitioned the GPU stopped half way",
        advice="apply the layout again",
    ),
    # --- wrong, and may be on its way
    # ----------------------------------------------------------------------------------
    Reason(
        code="MigModePending",
        verdict="Mismatch",
        settles=True,
        meaning="MIG mode changes with the next reset of the GPU or reboot of the node",
        cause="the change of MIG mode waits for a reset or a reboot",
        advice="if no reboot follows in 15 minutes, reboot the node",
    ),
    Reason(
        code="NotPartitioned",
        verdict="Mismatch",
        settles=True,
        meaning="a GPU that should be partitioned is whole, or has MIG on and no partition",
        causes={
            "gke": "GKE's set-up has not cut it yet, or could not read /etc/nvidia/gpu_config.json",
            "mig-manager": "mig-manager has not applied the layout yet",
            "none": "nobody has partitioned it yet",
        },
        advices={"gke": _GKE_LOG, "mig-manager": _OPERATOR_LOG, "none": "apply the layout"},
    ),
    Reason(
        code="LayoutIncomplete",
        verdict="Mismatch",
        settles=True,
        meaning="a GPU has some of the wanted partitions and nothing else",
        cause="partitioning is under way, or stopped half way",
        advices={"gke": _GKE_LOG, "mig-manager": _OPERATOR_LOG, "none": "apply the layout again"},
    ),
    Reason(
        code="ResourcesNotAdvertised",
        verdict="Mismatch",
        settles=True,
        meaning="the GPUs are right, but the kubelet offers none of a wanted resource",
        cause="the device plugin has not registered yet",
        advice="read the log of the node's device plugin pod",
    ),
    Reason(
        code="WrongResources",
        verdict="Mismatch",
        settles=True,
        meaning="the GPUs are right, but the kubelet offers another number of a wanted resource",
        cause="the device plugin has not looked again since the GPUs were partitioned",
        advice="restart the node's device plugin pod",
    ),
    Reason(
        code="UnexpectedResources",
        verdict="Mismatch",
        settles=True,
        meaning="the kubelet offers a GPU resource that the layout does not have",
        cause="it is left over from an earlier layout, or the device plugin runs with another "
        "MIG strategy",
        advice="restart the node's device plugin pod, and check its MIG strategy",
    ),
    Reason(
        code="ResourcesWithheld",
        verdict="Mismatch",
        settles=True,
        meaning="the kubelet has the resource but may hand out less of it",
        cause="the device plugin calls devices unhealthy, or is being restarted",
        advice="read the log of the node's device plugin pod for XID errors",
    ),
    # --- could not tell
    # ----------------------------------------------------------------------------------------------
    Reason(
        code="DriverHung",
        verdict="Unknown",
        meaning="the driver did not answer in time",
        cause="the driver or a GPU hangs",
        advice="cordon and drain the node, then reboot it",
    ),
    Reason(
        code="DriverVersionMismatch",
        verdict="Unknown",
        meaning="the driver's library and its kernel module are of different versions",
        cause="the driver was upgraded under a running node",
        advice="reboot the node",
    ),
    Reason(
        code="NoPermission",
        verdict="Unknown",
        meaning="the driver refuses the agent a question that it needs to ask",
        cause="the container sees none of the GPU's device files, or too old ones",
        advice="restart the node's agent pod; if it stays, check how the pod gets the driver",
    ),
    Reason(
        code="ProfileUnclear",
        verdict="Unknown",
        meaning="a partition could be one of several profiles",
        cause="this driver does not tell enough without privileges",
        advice="use a newer driver",
    ),
    Reason(
        code="DriverError",
        verdict="Unknown",
        meaning="the driver answered a question with an error that has no reason of its own",
        cause="see the NVML error",
        advice="read the kernel log of the node for NVRM and Xid lines",
    ),
    Reason(
        code="ProbeBroken",
        verdict="Unknown",
        meaning="the look at the GPUs ended without an answer",
        cause="the driver's library crashed or the agent has a fault",
        advice="read the log of the node's agent pod",
    ),
    Reason(
        code="DriverLibraryMissing",
        verdict="Unknown",
        settles=True,
        meaning="libnvidia-ml.so.1 cannot be found",
        cause="the driver is not installed yet, or the pod does not see it",
        advice="wait for the driver; if it is there, check the pod's mounts or its runtime class",
    ),
    Reason(
        code="DriverNotLoaded",
        verdict="Unknown",
        settles=True,
        meaning="the driver's library is there, its kernel module is not loaded",
        cause="the driver is still being installed, or its module failed to load",
        advice="read the kernel log of the node for NVRM lines",
    ),
    Reason(
        code="PartitioningUnderWay",
        verdict="Unknown",
        settles=True,
        meaning="mig-manager is at work, so the agent keeps away from the driver: a client can "
        "make a change of MIG mode fail",
        cause="mig-manager is changing the partitions",
        advice="if it takes more than 15 minutes, delete the node's nvidia-mig-manager pod, which "
        "makes it start again",
    ),
    Reason(
        code="NodeUnreadable",
        verdict="Unknown",
        settles=True,
        meaning="the GPUs are right, but the API server did not tell what the kubelet advertises",
        cause="the API server does not answer, or refuses",
        advice="read the log of the node's agent pod",
    ),
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in _ALL}
RANK: Mapping[str, int] = {reason.code: position for position, reason in enumerate(_ALL)}

MATCH = "PartitionsMatch"

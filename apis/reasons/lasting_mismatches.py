"""Mismatches that no waiting ends, in the order of precedence."""

from __future__ import annotations

from typing import Final

from slicewright.apis.reasons.advice import FABRIC_MANAGER, REPLACE, RESET, SHARES_LOG
from slicewright.apis.reasons.agent_reason import Reason

LASTING_MISMATCHES: Final = (
    Reason(
        code="GpuLost",
        verdict="Mismatch",
        meaning="a GPU fell off the bus",
        cause="the GPU fell off the bus",
        advice=f"cordon and drain, then reboot, or {REPLACE}",
        advices={"host": "power-cycle the host; if the GPU stays lost, replace it"},
    ),
    Reason(
        code="GpuResetRequired",
        verdict="Mismatch",
        meaning="a GPU cannot be used until it is reset",
        cause="the GPU had an error that only a reset clears",
        advice="cordon and drain the node, then reboot it",
        advices={"host": RESET},
    ),
    Reason(
        code="GpuResetRequested",
        verdict="Mismatch",
        meaning="the driver asks for a reset or a reboot (its recovery action), or a row remapping "
        "or a page retirement waits for one",
        cause="the GPU had an error, and works without the affected parts until it is reset",
        advice="cordon and drain the node, then reboot it",
        advices={"host": RESET},
    ),
    Reason(
        code="RowRemapFailed",
        verdict="Mismatch",
        meaning="a bad row of a GPU's memory stays in use, because no spare row was left to "
        "replace it",
        cause="the GPU's memory has more bad rows than spare ones",
        advice=f"cordon and drain, then {REPLACE}",
        advices={"host": "stop using the GPU and have it replaced"},
    ),
    Reason(
        code="WrongGpuCount",
        verdict="Mismatch",
        meaning="the driver sees more or fewer GPUs than the machine type has",
        cause="a GPU is broken, or the node's machine type is not the pool's",
        advice=f"compare with the machine type, then {REPLACE}",
        causes={"host": "a GPU is broken, or the layout is for another machine"},
        advices={"host": "compare the layout with `nvidia-smi -L`"},
    ),
    Reason(
        code="WrongGpuModel",
        verdict="Mismatch",
        meaning="the layout is for another GPU model",
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
        code="FabricFailed",
        verdict="Mismatch",
        meaning="the NVLink fabric of a machine with NVSwitches reports an error, or was not set "
        "up in ten minutes, so programs fail at their start (CUDA error 802)",
        cause="Fabric Manager does not run or has another version than the driver, or an NVLink "
        "or NVSwitch is broken",
        advice=f"{FABRIC_MANAGER}; on EKS choose a node image, on GKE a node version, whose Fabric "
        f"Manager has the driver's version; if it runs and has, {REPLACE}",
        advices={
            "host": "install the Fabric Manager of the driver's version and run `systemctl enable "
            "--now nvidia-fabricmanager`; if it runs, read `journalctl -u nvidia-fabricmanager`"
        },
    ),
    Reason(
        code="ComputeModeWrong",
        verdict="Mismatch",
        meaning="the compute mode of a GPU refuses the programs of a second container, or all",
        cause="a program has changed the compute mode, for example an MPS daemon that did not stop "
        "cleanly",
        advice="run `nvidia-smi -c 0` as root on the node (on GKE it is in "
        "/home/kubernetes/bin/nvidia/bin), or reboot the node",
        advices={
            "mig-manager": "run `nvidia-smi -c 0` in the node's nvidia-driver-daemonset pod, or on "
            "the node as root; or reboot the node",
            "bottlerocket": "run `sheltie nvidia-smi -c 0` in the node's admin container, or "
            "reboot the node",
            "host": "run `nvidia-smi -c 0` as root",
        },
    ),
    Reason(
        code="WrongLayout",
        verdict="Mismatch",
        of_layout=True,
        meaning="a GPU has other partitions than the layout",
        causes={
            "gke": "GKE's node set-up partitioned it for another size, and does not check which",
            "bottlerocket": "the node booted with settings that the pool no longer has, or with "
            "a profile that Bottlerocket does not know",
            "mig-manager": "mig-manager applied another layout, or something changed the GPU "
            "afterwards",
            "none": "it was partitioned by hand",
        },
        advices={
            "gke": f"compare /etc/nvidia/gpu_config.json on the node with the pool, then {REPLACE}",
            "bottlerocket": "compare `apiclient get settings.kubelet-device-plugins` on the node "
            "with the pool; EKS replaces a node of an earlier launch template when it updates the "
            f"pool; otherwise {REPLACE}",
            "mig-manager": "compare the node's label nvidia.com/mig.config with the pool, then "
            "delete its nvidia-mig-manager pod",
            "none": "apply the layout again",
        },
    ),
    Reason(
        code="UnwantedMig",
        verdict="Mismatch",
        of_layout=True,
        meaning="MIG is on, but the layout expects a whole GPU",
        cause="the GPU was partitioned for something else",
        advice=f"turn MIG off on the node, or {REPLACE}",
        advices={"host": "turn MIG off with `slicewright-agent clear <GPU>`"},
    ),
    Reason(
        code="ComputeInstanceMissing",
        verdict="Mismatch",
        meaning="a GPU instance has no compute instance, so no program can use it (only root can "
        "see this)",
        cause="partitioning stopped half way",
        advice="apply the layout again",
    ),
    Reason(
        code="PartitionDoesNotCompute",
        verdict="Mismatch",
        meaning="NVML lists a partition or a GPU, and CUDA does not compute on it",
        cause="a hardware error, or a part of the driver's setup that NVML does not show",
        advice="look up the CUDA error in docs/reference/reasons.md; if it is the hardware, drain "
        f"the node and reset the GPU, or {REPLACE}",
    ),
    Reason(
        code="CardUnhealthy",
        verdict="Mismatch",
        meaning="the engine for fractions has registered a card as unhealthy; Volcano goes on "
        "allocating shares of it",
        cause="the engine's device plugin has seen a critical Xid of the card",
        advice=f"{SHARES_LOG} for Xid errors, drain the node, and reset the GPU or reboot the node",
    ),
)

"""Mismatches that may settle without help, in the order of precedence."""

from __future__ import annotations

from typing import Final

from slicewright.apis.reasons.advice import (
    BOTTLEROCKET_LOG,
    FABRIC_MANAGER,
    GKE_LOG,
    HOST_PLUGIN_LOG,
    OPERATOR_LOG,
    PLUGIN_LOG,
    RESET,
    RESTART_HOST_PLUGIN,
    SHARES_LOG,
)
from slicewright.apis.reasons.agent_reason import Reason

SETTLING_MISMATCHES: Final = (
    Reason(
        code="LayoutChangePending",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the pool has a new layout; the node keeps its old layout until its turn in the "
        "rollout, and until its pods have left",
        cause="the node's layout change waits for other nodes, for its pods to leave, or for a "
        "paused rollout",
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
        advices={"host": RESET},
    ),
    Reason(
        code="FabricNotReady",
        verdict="Mismatch",
        settles=True,
        meaning="the NVLink fabric of a machine with NVSwitches is not set up, so programs fail at "
        "their start (CUDA error 802)",
        cause="Fabric Manager has not set up the NVSwitches yet",
        advice=f"if it takes more than ten minutes, {FABRIC_MANAGER}",
        advices={"host": "run `systemctl enable --now nvidia-fabricmanager`"},
    ),
    Reason(
        code="NotPartitioned",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="a GPU that should be partitioned is whole, or has MIG on but no partition",
        causes={
            "gke": "GKE's node set-up has not partitioned it yet, or could not read "
            "/etc/nvidia/gpu_config.json",
            "bottlerocket": "the node's settings request no partition, or its nvidia-migmanager "
            "failed",
            "mig-manager": "mig-manager has not applied the layout yet",
            "none": "it has not been partitioned yet",
        },
        advices={
            "gke": GKE_LOG,
            "bottlerocket": BOTTLEROCKET_LOG,
            "mig-manager": OPERATOR_LOG,
            "none": "apply the layout",
        },
    ),
    Reason(
        code="LayoutIncomplete",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="a GPU has only some of its partitions",
        cause="partitioning is in progress, or stopped half way",
        advices={
            "gke": GKE_LOG,
            "bottlerocket": BOTTLEROCKET_LOG,
            "mig-manager": OPERATOR_LOG,
            "none": "apply the layout again",
        },
    ),
    Reason(
        code="CardsNotRegistered",
        verdict="Mismatch",
        settles=True,
        meaning="the engine for fractions has not registered a card of the node, so its scheduler "
        "cannot allocate shares of it",
        cause="the engine's device plugin has not started on the node yet, or it hides the card",
        advice=SHARES_LOG,
    ),
    Reason(
        code="CardsRegisteredWrong",
        verdict="Mismatch",
        settles=True,
        meaning="the cards that the engine for fractions has registered differ from those that "
        "NVML shows, or from the stack file: UUIDs, memory, compute, containers per card, mode",
        cause="the engine's device plugin has not registered the cards again since they or its "
        "settings were changed, or its settings were changed by hand",
        advice=f"restart the engine's device plugin pod on the node; if that does not help, "
        f"{SHARES_LOG}",
    ),
    Reason(
        code="AnotherDevicePlugin",
        verdict="Mismatch",
        settles=True,
        meaning="besides the engine for fractions another device plugin advertises GPUs of the "
        "node, so two pods could get the same card",
        cause="NVIDIA's device plugin or another engine's runs on the node",
        advice="take the other plugin off the node: `kubectl get pods --all-namespaces "
        "--field-selector spec.nodeName=NODE` shows it",
    ),
    Reason(
        code="ResourcesNotAdvertised",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the GPUs match, but the kubelet does not advertise an expected resource",
        cause="the device plugin has not registered yet",
        advice=PLUGIN_LOG,
        advices={"bottlerocket": HOST_PLUGIN_LOG},
    ),
    Reason(
        code="WrongResources",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the GPUs match, but the kubelet advertises another quantity of an expected "
        "resource",
        cause="the device plugin has not enumerated the GPUs again since they were partitioned",
        advice="restart the node's device plugin pod",
        advices={"bottlerocket": RESTART_HOST_PLUGIN},
    ),
    Reason(
        code="UnexpectedResources",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the kubelet advertises a GPU resource that the layout does not have",
        cause="the resource is left over from an earlier layout, or the device plugin runs with "
        "another MIG strategy",
        advice="restart the node's device plugin pod, and check its MIG strategy",
        advices={"bottlerocket": RESTART_HOST_PLUGIN},
    ),
    Reason(
        code="ResourcesWithheld",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="less of a resource is allocatable than the node's capacity",
        cause="the device plugin reports devices as unhealthy, or is restarting",
        advice=f"{PLUGIN_LOG} for Xid errors",
        advices={"bottlerocket": f"{HOST_PLUGIN_LOG}, for Xid errors"},
    ),
    Reason(
        code="WrongLabels",
        verdict="Mismatch",
        settles=True,
        of_layout=True,
        meaning="the GPUs and their resources match, but the node's labels name another product, "
        "count or number of replicas",
        cause="GPU feature discovery renews its labels every minute, or another program writes "
        "them",
        advice="if this lasts, restart the node's gpu-feature-discovery pod",
    ),
)

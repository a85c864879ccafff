"""The ways a node can be stuck, and the remedy for each. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

TroubleName = Literal[
    "",
    "PartitioningNotStarted",
    "PartitioningStuck",
    "RebootStuck",
    "MigManagerFailed",
    "OperandsPaused",
    "StaleSuccess",
    "PluginStale",
    "OperandCrashLoop",
    "ValidatorFails",
    "DriverSilent",
]
"""The way a node is stuck. Empty means that it no longer is, but is not verified yet either."""

MOST_TRIES: Final = 3
PAUSES_S: Final = (600.0, 1200.0, 1200.0)
"""Shortest pause after each try, in seconds."""
MIG_MANAGER: Final = "nvidia-mig-manager"
DEVICE_PLUGIN: Final = "nvidia-device-plugin-daemonset"
"""Values of the operands' label `app`. Source: NVIDIA/gpu-operator, assets/."""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    after_s: float
    """Time that the trouble must last, counted from the note, in seconds."""
    restart: str | None = None
    """The operand to restart, named by its label `app`, or None."""
    under_pods: bool = False
    """True if the restart hurts no pod that uses the node's GPUs."""
    reason: str = ""
    """The reason shown instead of the node's own reason. Empty keeps the node's own."""
    meaning: str = ""
    remedy: str = ""


_READ_MIG_MANAGER_LOG = "read the log of the nvidia-mig-manager pod on the node"
TROUBLES: Final[Mapping[TroubleName, Trouble]] = {
    "PartitioningNotStarted": Trouble(
        after_s=900,
        restart=MIG_MANAGER,
        reason="PartitioningNotStarted",
        meaning="mig-manager has not started to apply the layout of the label "
        "nvidia.com/mig.config",
        remedy="check whether an nvidia-mig-manager pod runs on the node, and read its log; the "
        "node's label nvidia.com/gpu.deploy.mig-manager must be true",
    ),
    # At most five waits of five minutes each are legal, but they take seconds.
    "PartitioningStuck": Trouble(
        after_s=900,
        restart=MIG_MANAGER,
        reason="PartitioningStuck",
        meaning="nvidia.com/mig.config.state stays pending",
        remedy=f"{_READ_MIG_MANAGER_LOG}, stop the processes that hold the GPUs, or delete the "
        "node's instance in the cloud",
    ),
    # A restart of mig-manager would only make it failed: it reboots once.
    "RebootStuck": Trouble(
        after_s=1200,
        reason="RebootStuck",
        meaning="nvidia.com/mig.config.state stays rebooting: the reboot failed, or the node "
        "does not come back",
        remedy="reboot the node with the cloud's API, or delete its instance there",
    ),
    "MigManagerFailed": Trouble(after_s=0, restart=MIG_MANAGER),
    "OperandsPaused": Trouble(
        after_s=300,
        restart=MIG_MANAGER,
        under_pods=True,
        reason="OperandsPaused",
        meaning="mig-manager has finished, but operands are still paused",
        remedy="set their labels nvidia.com/gpu.deploy.… from paused-for-mig-change to true",
    ),
    "StaleSuccess": Trouble(after_s=600, restart=MIG_MANAGER),
    "PluginStale": Trouble(after_s=600, restart=DEVICE_PLUGIN, under_pods=True),
    "OperandCrashLoop": Trouble(
        after_s=600,
        reason="OperandCrashLoop",
        meaning="one of NVIDIA's operands on the node exits again and again",
        remedy="read the log of its last run (kubectl logs --previous)",
    ),
    "ValidatorFails": Trouble(
        after_s=300,
        reason="ValidatorFailing",
        meaning="NVIDIA's validator on the node exits again and again: its own CUDA program, or "
        "its look at driver, toolkit or device plugin, does not succeed",
        remedy="read the logs of the init containers of the nvidia-operator-validator pod on the "
        "node, and of nvidia-cuda-validator; if CUDA fails, reboot the node or replace it",
    ),
    # Noted after two minutes, so held after five. A report that is late holds no node: an outage of
    # the API server makes all of them late.
    "DriverSilent": Trouble(after_s=180),
}

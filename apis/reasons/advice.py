"""Next steps that several reasons of the agent advise."""

from __future__ import annotations

from typing import Final

GKE_LOG: Final = "read the log of the node's nvidia-gpu-device-plugin pod in kube-system"
OPERATOR_LOG: Final = (
    "read the node's label nvidia.com/mig.config.state and the log of its nvidia-mig-manager pod"
)
BOTTLEROCKET_LOG: Final = (
    "read the log of nvidia-migmanager in the node's admin container: `sheltie journalctl -u "
    "nvidia-migmanager`"
)
HOST_PLUGIN_LOG: Final = (
    "read the log of the node's own device plugin in its admin container: `sheltie journalctl -u "
    "nvidia-k8s-device-plugin`"
)
RESTART_HOST_PLUGIN: Final = (
    "restart the node's own device plugin in its admin container: `sheltie systemctl restart "
    "nvidia-k8s-device-plugin`"
)
SHARES_LOG: Final = (
    "read the log of the engine's device plugin pod on the node (hami-device-plugin in "
    "hami-system, or volcano-device-plugin in kube-system)"
)
PLUGIN_LOG: Final = "read the log of the node's device plugin pod"
REPLACE: Final = "delete the node's instance in the cloud; its node pool creates a new one"
KERNEL_LOG: Final = "read the host's kernel log for NVRM and Xid lines (`dmesg`)"
RESET: Final = (
    "stop the programs that use the GPU, then reset it (`nvidia-smi --gpu-reset -i <GPU>`) or "
    "reboot the host"
)
FABRIC_MANAGER: Final = (
    "on the node read `systemctl status nvidia-fabricmanager`, or with a driver container the log "
    "of the node's nvidia-driver-daemonset pod"
)

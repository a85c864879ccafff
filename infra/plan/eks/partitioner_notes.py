"""Recommends, by the pool's GPU, whether mig-manager or a program at boot partitions EKS nodes."""

from __future__ import annotations

from typing import Final

from slicewright.infra.plan.model.pools import EksPoolPlan

_STOPPED_KUBELET: Final = "NVIDIA/gpu-operator #2415"


def partitioner_notes(pool: EksPoolPlan) -> list[str]:
    """A note if the other way is better for the pool's GPU. Bottlerocket has only one."""
    if pool.settings.bottlerocket or not pool.offer.partitioned:
        return []
    if pool.boot_layout is None:
        return _better_at_boot(pool)
    return _better_by_mig_manager(pool)


def _better_at_boot(pool: EksPoolPlan) -> list[str]:
    if pool.gpu.mode_change_resets:
        return []
    return [
        f"pool {pool.name}: partition: {{mode: boot, …}} is recommended for {pool.gpu.name}, which "
        "needs no reboot to change its MIG mode: after each boot of a node mig-manager stops the "
        "kubelet while it turns MIG on, and on EKS's images some nodes do not come back "
        f"({_STOPPED_KUBELET}). With mode: operator, write "
        "gpu_operator.mig_manager.stop_kubelet: false"
    ]


def _better_by_mig_manager(pool: EksPoolPlan) -> list[str]:
    if not pool.gpu.mode_change_resets:
        return []
    return [
        f"pool {pool.name}: partition: {{mode: operator, …}} is recommended for {pool.gpu.name}: "
        "with mode: boot each new node reboots once before it joins, and EKS and Karpenter give "
        "up on a node that has not joined after 15 minutes"
    ]

"""Pools of EKS with Amazon Linux whose nodes partition their GPUs when they boot.

A program in the user data does it before the kubelet starts, so NVIDIA's mig-manager stays off
these nodes. Another layout is a new version of the launch template, and the cloud or Karpenter
replaces the nodes. Source: NVIDIA/gpu-operator #2415, where users do so because mig-manager stops
the kubelet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from slicewright.infra import geometry, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.findings import Checked, Stated
from slicewright.infra.plan.model.launch_templates import BootLayout
from slicewright.infra.plan.model.nodes import AnyPool, Gpus, Layout, MigStrategy
from slicewright.infra.plan.partition.partitions import Partitioning, operator_partitioning

MIG_MANAGER_OFF: Final = {"nvidia.com/gpu.deploy.mig-manager": "false"}
"""The label that keeps mig-manager off a node: the GPU Operator writes it only if it is absent.
Source: NVIDIA/gpu-operator, controllers/state_manager.go.
"""


def partitioned_at_boot(pool: AnyPool) -> bool:
    """True if a program in the user data partitions the pool's nodes."""
    return isinstance(pool.partition, stack_file.Boot)


def boot_partitioning(
    partition: stack_file.Boot,
    pool: str,
    path: stack_file.Path,
    gpus: Gpus,
    strategy: MigStrategy,
    stated: Stated,
) -> Checked[Partitioning | None]:
    """The same partitions as by mig-manager, without its label."""
    by_manager = yield from operator_partitioning(partition, pool, path, gpus, strategy, stated)
    if by_manager is None:
        return None
    return dataclasses.replace(by_manager, partitioner="boot", mig_config=None)


def boot_layout(gpu: Gpu, layouts: Sequence[Layout]) -> BootLayout:
    """layouts: by GPU index."""
    return BootLayout(
        gpus=tuple(
            tuple(profile.name for profile in geometry.creation_order(gpu, layout))
            for layout in layouts
        ),
        pci_ids=tuple(pci_id.upper().replace("0X", "0x") for pci_id in gpu.pci_ids),
        reboots=gpu.mode_change_resets,
    )

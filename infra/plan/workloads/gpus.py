"""Checks the number of GPUs of a replica, and the share of their memory that it states."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, listed, refuse, rule
from slicewright.infra.plan.model.deployments import Devices
from slicewright.infra.plan.model.pools import PoolPlan
from slicewright.infra.plan.workloads.larger import larger


@rule("workload-gpus")
def check_gpus(gpus: int, at: stack_file.Path, pool: PoolPlan, devices: Devices) -> Checked[None]:
    """gpus: of one replica. at: the key that states them."""
    if gpus == 1:
        return
    if devices.profiles:
        yield refuse(
            at,
            f"{gpus} partitions of one pod cannot reach each other's memory",
            "write 1, or choose a pool with whole GPUs",
            "NVIDIA MIG user guide, application considerations: no peer-to-peer",
        )
    elif devices.sharers > 1:
        yield refuse(
            at,
            f"{devices.resource} is shared: {gpus} of them may be the same GPU",
            "write 1, or choose a pool without sharing",
            "NVIDIA/k8s-device-plugin, README",
        )
    elif gpus > pool.gpu_count:
        yield refuse(
            at,
            f"a pod runs on one node, and nodes of {pool.name} have {pool.gpu_count} GPUs",
            f"write {pool.gpu_count} or less",
            "Kubernetes docs, Pods: a pod runs on one node",
        )


@rule("workload-gpu-memory")
def check_gpu_memory(
    workload: stack_file.TritonWorkload | stack_file.ContainerWorkload,
    path: stack_file.Path,
    pool: PoolPlan,
    devices: Devices,
    stated: Stated,
) -> Checked[None]:
    """Refuses a replica that takes more memory than a GPU or partition has."""
    at = (*path, "gpu_memory")
    if workload.gpu_memory is None or devices.mib is None or not stated.has(at):
        return
    each = stack_file.mebibytes(workload.gpu_memory)
    kind = f"{listed(devices.profiles)} of" if devices.profiles else "whole"
    if each > devices.mib:
        yield refuse(
            at,
            f"a {kind} {pool.gpu.name} has {devices.mib} MiB",
            f"choose {larger(pool, each)}",
            pool.gpu.source,
        )

"""Checks a served workload that asks for a fraction of GPUs, whose request is planned elsewhere."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.deployments import WorkloadPlan
from slicewright.infra.plan.workloads.model_memory import model_memory


@rule("workload-share")
def check_share(
    workload: stack_file.ServedWorkload,
    share: stack_file.FractionalRequest,
    path: stack_file.Path,
    stated: Stated,
) -> Checked[None]:
    """Refuses keys that contradict the share."""
    if workload.resource is not None and stated.has((*path, "resource")):
        yield refuse(
            (*path, "resource"),
            "the engine for fractions has one resource, and gpu_share requests it",
            "leave it out",
            in_key=True,
        )
    yield from _check_gpus(workload, share, path, stated)
    scaled = workload.autoscaling
    if (
        scaled is not None
        and scaled.max == "partitions"
        and stated.has((*path, "autoscaling"), (*path, "autoscaling", "max"))
    ):
        yield refuse(
            (*path, "autoscaling", "max"),
            "shared cards have no fixed number of partitions",
            "write a number of replicas",
        )


@rule("workload-share-gpus")
def _check_gpus(
    workload: stack_file.ServedWorkload,
    share: stack_file.FractionalRequest,
    path: stack_file.Path,
    stated: Stated,
) -> Checked[None]:
    """A server that counts its GPUs must count as many as its share has cards."""
    match workload:
        case stack_file.VllmWorkload():
            key, gpus = "tensor_parallel", workload.tensor_parallel
        case stack_file.ContainerWorkload() if "gpus" in workload.model_fields_set:
            key, gpus = "gpus", workload.gpus
        case _:
            return
    if gpus != share.cards and stated.has((*path, key), (*path, "gpu_share", "cards")):
        yield refuse(
            (*path, key),
            f"{gpus}, but gpu_share has {share.cards} card{'s' if share.cards > 1 else ''}",
            f"write {share.cards}",
        )


@rule("workload-share-memory")
def check_share_memory(
    workload: stack_file.ServedWorkload,
    share: WorkloadPlan,
    path: stack_file.Path,
    stated: Stated,
) -> Checked[None]:
    """Refuses a server that needs more memory of each card than its share has."""
    at = (*path, "gpu_share", "memory")
    if share.memory_mib_per_card is None or not stated.has(at, *_memory_keys(workload, path)):
        return
    needed_mib, percent = _needed_memory(workload)
    if needed_mib * 100 <= share.memory_mib_per_card * percent:
        return
    enough_mib = -(-needed_mib * 100 // percent)
    part = f"{percent} % of its share" if percent < 100 else "its share"
    yield refuse(
        at,
        f"a replica needs {needed_mib} MiB of each card, and {part} is "
        f"{share.memory_mib_per_card * percent // 100} MiB",
        f"write {enough_mib * share.cards}Mi or more",
        "vLLM docs, conserving memory" if percent < 100 else stack_file.REFERENCE,
    )


def _needed_memory(workload: stack_file.ServedWorkload) -> tuple[int, int]:
    """The MiB of each card that a replica needs, 0 if unknown, and the percentage of its share
    that it may take.
    """
    if isinstance(workload, stack_file.VllmWorkload):
        return model_memory(workload).needed_mib, workload.gpu_memory_percent
    stated = workload.gpu_memory
    return (0 if stated is None else stack_file.mebibytes(stated)), 100


def _memory_keys(
    workload: stack_file.ServedWorkload, path: stack_file.Path
) -> tuple[stack_file.Path, ...]:
    if isinstance(workload, stack_file.VllmWorkload):
        keys = ("model", "dtype", "kv_cache_dtype", "max_model_len", "gpu_memory_percent")
        return tuple((*path, key) for key in (*keys, "tensor_parallel"))
    return ((*path, "gpu_memory"),)

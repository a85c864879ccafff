"""Checks a served workload that asks for a fraction of GPUs, whose request is planned elsewhere."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse


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

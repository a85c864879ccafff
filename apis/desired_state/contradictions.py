"""Contradictions inside a desired state."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from slicewright.apis.desired_state.model import Desired, DesiredGpu

_MOST_GPUS: Final = 1024


_PROFILE = re.compile(
    r"(?:[1-9]\d?c\.)?[1-9]\d?g\.\d{1,4}gb(?:[+-][a-z][a-z0-9.]*(?:,[a-z][a-z0-9.]*)*)?"
)


# An extended resource is a qualified name: DNS subdomain, slash, name. (Kubernetes API
# conventions.)
_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


_DRIVER = re.compile(r"\d+\.\d+(?:\.\d+)?")


def check(desired: Desired) -> tuple[str, ...]:
    """Returns every contradiction in `desired`, or an empty tuple."""
    return (
        *_check_node(desired),
        *_check_indexes(desired),
        *_check_gpus(desired),
        *_check_resources(desired),
        *_check_sharing(desired),
        *_check_labels(desired),
        *_check_shares(desired),
    )


def _check_node(desired: Desired) -> Iterator[str]:
    if not desired.pool:
        yield "pool: is empty; write the pool's name"
    if desired.gpu_count < 1:
        yield f"gpu_count: {desired.gpu_count}; must be at least 1"
    if desired.gpu_count > _MOST_GPUS:
        yield f"gpu_count: more than {_MOST_GPUS}, which no node has"
    if not desired.gpu_models or not all(desired.gpu_models):
        yield "gpu_models: name at least one NVML product name, for example 'NVIDIA H100 80GB HBM3'"
    if desired.gpu_memory_mib is not None and desired.gpu_memory_mib < 1:
        yield f"gpu_memory_mib: {desired.gpu_memory_mib}; MiB of one whole GPU, or leave it out"
    if desired.minimum_driver is not None and not _DRIVER.fullmatch(desired.minimum_driver):
        yield (
            f"minimum_driver: {desired.minimum_driver!r} is not a driver version; write it "
            "like 525.60.13"
        )


def _check_indexes(desired: Desired) -> Iterator[str]:
    indexes = [entry.index for entry in desired.gpus]
    count = min(desired.gpu_count, _MOST_GPUS)
    if indexes != ["all"] and sorted(map(str, indexes)) != sorted(map(str, range(count))):
        yield (
            f'gpus: indexes {indexes}; write one entry "all", or each of 0 to '
            f"{desired.gpu_count - 1} once"
        )


def _check_gpus(desired: Desired) -> Iterator[str]:
    for position, entry in enumerate(desired.gpus):
        yield from _check_gpu(position, entry)


def _check_gpu(position: int, entry: DesiredGpu) -> Iterator[str]:
    path = f"gpus[{position}]"
    if entry.instances and not entry.mig:
        yield f"{path}: instances without MIG; set mig to true, or leave instances out"
    for profile, count in entry.instances.items():
        if not _is_profile(profile):
            yield (
                f"{path}.instances: {profile!r} is not a MIG profile; write it "
                "like 3g.40gb or 1g.10gb+me"
            )
        if count < 1:
            yield (
                f"{path}.instances.{profile}: {count}; must be at least 1, or leave the profile out"
            )


def _check_resources(desired: Desired) -> Iterator[str]:
    for name, quantity in desired.resources.items():
        if not _is_resource(name):
            yield f"resources: {name!r} is not an extended resource; write it like nvidia.com/gpu"
        if quantity < 0:
            yield f"resources.{name}: {quantity}; must be 0 or more"


def _check_sharing(desired: Desired) -> Iterator[str]:
    for position, sharing in enumerate(desired.sharing):
        path = f"sharing[{position}]"
        quantity = desired.resources.get(sharing.resource)
        if quantity is None:
            resources = ", ".join(sorted(desired.resources)) or "empty"
            yield f"{path}.resource: {sharing.resource!r} is not in resources ({resources})"
        elif sharing.replicas < 2 or quantity % sharing.replicas:
            yield (
                f"{path}.replicas: {sharing.replicas}; must be at least 2 and divide "
                f"resources.{sharing.resource} = {quantity}"
            )


def _check_labels(desired: Desired) -> Iterator[str]:
    for name, accepted in desired.labels.items():
        if not accepted:
            yield f"labels.{name}: has no value; list at least one"


def _check_shares(desired: Desired) -> Iterator[str]:
    shares = desired.shares
    if shares is None:
        return
    if desired.sharing or any(entry.mig for entry in desired.gpus):
        yield "shares: an engine for fractions shares whole GPUs; leave out MIG and sharing"
    numbers = {
        "slots": (shares.slots, 1),
        "memory_percent": (shares.memory_percent, 100),
        "compute_percent": (shares.compute_percent, 100),
        "memory_unit_mib": (shares.memory_unit_mib, 1),
    }
    for name, (number, least) in numbers.items():
        if number < least:
            yield f"shares.{name}: {number}; must be at least {least}"


# The pools of a fleet have few names between them.
@lru_cache(maxsize=1024)
def _is_resource(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _is_profile(name: str) -> bool:
    return _PROFILE.fullmatch(name) is not None

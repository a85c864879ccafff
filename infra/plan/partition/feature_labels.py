"""The node labels of GPU feature discovery: they tell pods the GPUs of a pool's nodes.

Source: NVIDIA/k8s-device-plugin v0.19.0, internal/lm/mig-strategy.go and resource.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from slicewright.infra.catalog import Gpu
from slicewright.infra.plan.model.nodes import WHOLE_GPU, Layout, MigStrategy
from slicewright.infra.plan.model.offers import ReplicatedResource, instances_of
from slicewright.infra.plan.partition.resource_names import resource_of


def feature_labels(
    gpu: Gpu,
    layouts: Sequence[Layout],
    strategy: MigStrategy,
    sharing: Sequence[ReplicatedResource],
) -> Mapping[str, tuple[str, ...]]:
    """Label -> its possible values: product, count and replicas of whole GPUs and of partitions.

    Several values only if the GPU model has several products. layouts: by GPU.
    """
    shared = {replicated.resource: replicated for replicated in sharing}
    all_partitioned = all(layouts)
    labels = dict(
        _labels(gpu, WHOLE_GPU, len(layouts), None if all_partitioned else shared.get(WHOLE_GPU))
    )
    if all_partitioned:
        # Without its sharing config, GFD counts no replicas.
        labels[f"{WHOLE_GPU}.replicas"] = ("0",)
    if strategy == "none":
        return labels
    for profile, count in sorted(instances_of(layouts).items()):
        resource = WHOLE_GPU if strategy == "single" else resource_of(profile)
        labels |= _labels(gpu, resource, count, shared.get(resource), profile)
    return labels


@lru_cache(maxsize=1024)  # pools are alike
def _labels(
    gpu: Gpu, resource: str, count: int, shared: ReplicatedResource | None, profile: str = ""
) -> Mapping[str, tuple[str, ...]]:
    return {
        f"{resource}.product": tuple(
            "-".join(_parts(product, profile, shared)) for product in gpu.products
        ),
        f"{resource}.count": (str(count),),
        f"{resource}.replicas": (str(shared.replicas if shared else 1),),
    }


@cache
def _label_of(product: str) -> str:
    return "-".join(re.sub(r"[^A-Za-z0-9-_. ]", "", product).split())


def _parts(product: str, profile: str, shared: ReplicatedResource | None) -> Iterator[str]:
    yield _label_of(product)
    if profile:
        yield f"MIG-{profile.replace('+', '.')}"
    if shared and shared.advertised == shared.resource:
        yield "SHARED"

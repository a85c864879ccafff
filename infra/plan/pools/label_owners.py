"""Labels of nodes that other programs write or read, by who does it.

A label of a pool would be overwritten, or would change what its reader does with the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.nodes import WHOLE_GPU, AnyCloud, AnyPool
from slicewright.infra.stack_file import REFERENCE, Path

_ACCELERATOR: Final = "k8s.amazonaws.com/accelerator"
"""cluster-autoscaler takes nodes of AWS with this label for GPU nodes.

Source: kubernetes/autoscaler, cloudprovider/aws (GPULabel).
"""


@dataclass(frozen=True, kw_only=True)
class ReservedLabel:
    """A label that the stack file may not set, with the reason and the alternative."""

    reason: str
    instead: str
    source: str = REFERENCE


_BY_DISCOVERY: Final = re.compile(
    r"nvidia\.com/("
    r"(gpu|mig-[^/]*|vgpu|gfd|mps)\.(?!deploy\.)[^/]*|(cuda|mig)\.[^/]*|gpu-driver-[^/]*|gpu\.replicas)"
)
_DISCOVERY: Final = ReservedLabel(
    reason="GPU feature discovery writes it from what it finds on the node, and pods select nodes "
    "by it: another value would be overwritten, or mislead them",
    instead="choose another key",
    source="NVIDIA/k8s-device-plugin, docs/gpu-feature-discovery",
)
_ENGINE: Final = ReservedLabel(
    reason="an engine of fractional GPUs reads it, and would hand out the GPUs of these nodes",
    instead="use fractional, or choose another key",
    source="Project-HAMi/HAMi and volcano-vgpu-device-plugin, README",
)
_NFD: Final = ReservedLabel(
    reason="Node Feature Discovery writes labels with this prefix, and removes others",
    instead="choose another key",
    source="Node Feature Discovery docs, nfd-master",
)
_BY_PREFIX: Final[Mapping[str, ReservedLabel]] = {
    "feature.node.kubernetes.io": _NFD,
    "hami.io": _ENGINE,
    "volcano.sh": _ENGINE,
}


def label_of_others(key: str, pool: AnyPool, cloud: AnyCloud) -> ReservedLabel | None:
    """None if no other program has an interest in the label."""
    prefix = key.rpartition("/")[0]
    if prefix in _BY_PREFIX:
        return _BY_PREFIX[prefix]
    # On GKE, feature discovery runs on the operator's pools only.
    discovered = cloud != "gke" or isinstance(pool.partition, stack_file.Operator)
    return _DISCOVERY if discovered and _BY_DISCOVERY.fullmatch(key) else None


@rule("accelerator-label")
def check_accelerator_label(
    pool: AnyPool, path: Path, cloud: AnyCloud, resources: Collection[str]
) -> Checked[None]:
    """resources: names of the extended resources that the nodes offer."""
    if cloud == "eks" and _ACCELERATOR in pool.labels and WHOLE_GPU not in resources:
        yield refuse(
            (*path, "labels", _ACCELERATOR),
            "cluster-autoscaler takes a node with this label for unready until it has "
            f"{WHOLE_GPU}, which this pool's nodes never offer: more than three such nodes, and 45 "
            "% of the cluster's, stop all scaling",
            "leave it out: cluster-autoscaler knows the partitions by tags that slicewright sets",
            "kubernetes/autoscaler #8095",
            in_key=True,
        )

"""Compares a Node's advertised resources and labels with the desired state. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import MATCH
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.verdict.findings import Check

# GPU resources, unlike other resources of the vendor (nvidia.com/hostdev).
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-.+)(?:\.shared)?")


def check_resources(desired: Desired, node: NodeState | None) -> Iterator[Check]:
    if node is None:
        if desired.resources:
            yield _unreadable(desired)
        return
    for name, quantity in sorted(desired.resources.items()):
        capacity, allocatable = node.capacity.get(name, 0), node.allocatable.get(name, 0)
        yield Check(
            reason=_resource_reason(quantity, capacity, allocatable),
            where=name,
            expected=str(quantity),
            observed=str(capacity)
            if capacity == allocatable
            else f"{allocatable} allocatable of {capacity}",
        )
    for name, allocatable in sorted(node.allocatable.items()):
        # Only allocatable counts: the kubelet keeps the capacity of a resource for five minutes
        # after its device plugin has gone, but no pod can get any. Resources of an earlier layout
        # stay in the node's status with 0, which means absent.
        if name not in desired.resources and is_gpu_resource(name) and allocatable:
            yield Check(
                reason="UnexpectedResources", where=name, expected="0", observed=str(allocatable)
            )


def _unreadable(desired: Desired) -> Check:
    resources = sorted(desired.resources.items())
    return Check(
        reason="NodeUnreadable",
        where="node",
        expected=", ".join(f"{name} {quantity}" for name, quantity in resources),
        observed="no answer from the API server",
    )


def check_labels(desired: Desired, node: NodeState | None) -> Iterator[Check]:
    """Checks the labels that pods select nodes by. They may be written up to a minute later."""
    if node is None:
        return  # reported already: NodeUnreadable
    for name, accepted in sorted(desired.labels.items()):
        observed = node.feature_labels.get(name)
        right = observed is not None and _product(observed) in map(_product, accepted)
        yield Check(
            reason=MATCH if right else "WrongLabels",
            where=name,
            expected=" or ".join(accepted),
            observed="no label" if observed is None else observed or "an empty label",
        )


def is_gpu_resource(name: str) -> bool:
    """True if an extended resource stands for GPUs or their partitions."""
    return _GPU_RESOURCE.fullmatch(name) is not None


def _resource_reason(expected: int, capacity: int, allocatable: int) -> str:
    if capacity == allocatable == expected:
        return MATCH
    if capacity == expected:
        return "ResourcesWithheld"
    return "WrongResources" if capacity or allocatable else "ResourcesNotAdvertised"


def _product(label: str) -> str:
    # Like `_model`, in GPU feature discovery's spelling.
    return label.removeprefix("NVIDIA-")

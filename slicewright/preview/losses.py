"""Changes that end pods or delete data, and the guard that asks for each to be acknowledged.

Pulumi replaces and deletes node pools without draining them, so disruption budgets do not count
(pulumi/pulumi-gcp#255). A policy pack cannot refuse that: it sees the desired resources, but not
the engine's steps.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from slicewright.apis.names import POOL_LABEL
from slicewright.preview.steps import Outcome, Preview, Step

_POOL: Final = "its nodes and the pods on them"
_CLUSTER: Final = "the whole cluster"
_GUARDED: Mapping[str, str] = {
    "gcp:container/cluster:Cluster": _CLUSTER,
    "aws:eks/cluster:Cluster": _CLUSTER,
    "gcp:container/nodePool:NodePool": _POOL,
    "aws:eks/nodeGroup:NodeGroup": _POOL,
    "kubernetes:karpenter.sh/v1:NodePool": _POOL,
    "kubernetes:apps/v1:Deployment": "its pods",
    "kubernetes:apps/v1:StatefulSet": "its pods",
    "kubernetes:core/v1:Namespace": "everything in the namespace",
    "kubernetes:core/v1:PersistentVolumeClaim": "the data on its volume",
    "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition": "all objects of this kind",
    "kubernetes:helm.sh/v3:Release": "everything that the chart installed: no GPU is offered",
}
"""Type of resource -> the loss if such a resource ends."""
_RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_OF_CHART: Mapping[str, str] = {
    "keda": "its CRDs with all ScaledObjects; replicas stay as they are until it is back",
    "kube-prometheus-stack": "Prometheus's data, unless it is on a persistent volume",
    "cluster-autoscaler": "the autoscaler: existing nodes stay, and none is added or removed",
}
"""End of a Helm release's chart name -> the loss if it ends. Other charts are GPU operators."""


CODE: Final = re.compile(r"[A-Za-z0-9._-]+:[0-9a-f]{8}")
"""The code of a change, in `Loss.code` and in the stack file. It needs no escape in YAML."""
_NOT_IN_CODES: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A resource whose replacement or deletion ends pods or deletes data."""

    step: Step
    affected: str
    nodes: int | None
    """The number of nodes in Pulumi's state. None: unknown, or not a node pool."""
    code: str
    """The acknowledgement of this change of this object, and of no other."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    acknowledged: tuple[Loss, ...]
    open: tuple[Loss, ...]
    """Losses that nobody acknowledged."""
    unneeded: tuple[str, ...]
    """Acknowledgements of changes that do not happen."""


def rank(step: Step) -> tuple[int, bool, str, str]:
    """Returns the position of a step in a list: what pods run on first, then the cloud's resources.

    The engine's own order differs between two previews of the same program.
    """
    kinds = list(_GUARDED)
    position = kinds.index(step.type) if step.type in kinds else len(kinds)
    return position, step.type.startswith("kubernetes:"), step.type, step.name


def guard(preview: Preview, acknowledged: Collection[str]) -> Guard:
    losses = [loss for step in preview.steps if (loss := _loss(step)) is not None]
    codes = {loss.code for loss in losses}
    return Guard(
        acknowledged=tuple(loss for loss in losses if loss.code in acknowledged),
        open=tuple(loss for loss in losses if loss.code not in acknowledged),
        unneeded=tuple(code for code in acknowledged if code not in codes),
    )


def pools_that_end(
    preview: Preview, pools: Iterable[str]
) -> dict[str, Literal["replaced", "deleted"]]:
    """The ones of `pools` that lose all nodes, because their node pool or the cluster ends."""
    ending: dict[str, Literal["replaced", "deleted"]] = {}
    for step in preview.steps:
        affected = _GUARDED.get(step.type)
        if _loss(step) is None or affected not in (_POOL, _CLUSTER):
            continue
        gone = pools if affected == _CLUSTER else [_pool_of(step)]
        how: Literal["replaced", "deleted"] = (
            "replaced" if step.outcome is Outcome.REPLACED else "deleted"
        )
        ending.update({pool: ending.get(pool, how) for pool in gone})
    return {pool: ending[pool] for pool in pools if pool in ending}


def _pool_of(step: Step) -> str:
    """The pool's name in the stack file, from the label of its nodes. Empty if there is none."""
    match step.before:
        case (
            {"labels": dict(labels)}
            | {"nodeConfig": {"labels": dict(labels)}}
            | {"spec": {"template": {"metadata": {"labels": dict(labels)}}}}
        ) if POOL_LABEL in labels:
            return str(labels[POOL_LABEL])
        case _:
            return ""


def _loss(step: Step) -> Loss | None:
    ends = step.outcome in (Outcome.REPLACED, Outcome.DELETED)
    affected = _GUARDED.get(step.type)
    if not ends or affected is None or step.retained or not step.identity:
        return None
    if step.type == _RELEASE:
        affected = _OF_CHART.get(str(step.before.get("chart", "")).rpartition("/")[2], affected)
    return Loss(step=step, affected=affected, nodes=_nodes(step.before), code=_code(step))


def _code(step: Step) -> str:
    """Returns a code that differs for another object and for other reasons.

    An acknowledgement that stays in the file thus covers no later change. The ID alone is not
    enough: GKE's IDs consist of names.
    """
    identity = json.dumps(
        [step.urn, step.outcome.value, step.identity, step.since, sorted(step.causes)]
    )
    name = _NOT_IN_CODES.sub("_", step.name)
    return f"{name}:{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _nodes(state: Mapping[str, Any]) -> int | None:
    """Returns the number of nodes. GKE counts a pool's nodes per zone, EKS counts all of them."""
    match state:
        case {"scalingConfig": {"desiredSize": int(desired)}}:
            return desired
        case {"nodeCount": int(per_zone), "nodeLocations": list(zones)}:
            return per_zone * len(zones)
        case {"nodeCount": int(count)}:
            return count
        case _:
            return None

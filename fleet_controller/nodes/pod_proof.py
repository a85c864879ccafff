"""The proof of a held node by a pod: when a pod is created and deleted, and its meaning. Pure.

A node that matches otherwise gets one pod, which goes through scheduler, device plugin and runtime
like a tenant's. Its success is noted on the node. A failed pod stays for its log, and is then
replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from slicewright.apis.names import PROOF_POD_PREFIX
from slicewright.fleet_controller.objects.action import NodeAction
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.proof_pod import (
    FAILED,
    WRONG_DEVICE,
    ProofPod,
    ProofPodSettings,
)

TIME_LIMIT_S: Final = 300.0
"""Time from its creation after which a pod ends (activeDeadlineSeconds), in seconds."""
UNSCHEDULED_S: Final = 120.0
"""Time after which a pod that is not scheduled is a problem, in seconds."""
RETRY_S: Final = 300.0
"""Time from its creation after which a failed pod is replaced, in seconds."""


@dataclass(frozen=True, kw_only=True)
class CreateProofPod(NodeAction):
    """Creates the pod that proves a node."""

    LOG_MESSAGE = "proof pod created"

    pod: str
    key: str
    pool: str
    pool_uid: str
    settings: ProofPodSettings

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "pod": self.pod}


@dataclass(frozen=True, kw_only=True)
class DeleteProofPod(NodeAction):
    """Deletes a pod whose result is noted, is no longer needed, or is to be tried again."""

    LOG_MESSAGE = "proof pod deleted"

    pod: str

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "pod": self.pod}


@dataclass(frozen=True, kw_only=True)
class NotePodProof(NodeAction):
    """Notes on a node that a pod has computed in its present boot and layout."""

    LOG_MESSAGE = "proof by a pod noted"

    key: str


PodProofAction = CreateProofPod | DeleteProofPod | NotePodProof


@dataclass(frozen=True, kw_only=True)
class PodProof:
    """The result for one node in one pass."""

    action: PodProofAction | None = None
    assessment: Assessment | None = None
    """The assessment to use instead of the node's own."""
    deadline: float | None = None


NO_POD: Final = PodProof()


def key_of(node: Node, pool: Pool) -> str:
    """Returns the digest of everything that a pod's success depends on."""
    facts = (node.uid, node.boot_id, pool.name, pool.layout_hash)
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def prove_by_pod(
    node: Node, pool: Pool, base: Assessment, pod: ProofPod | None, now: float
) -> PodProof:
    """Decides about one node.

    base: the node's own assessment. pod: the pod that is for this node.
    """
    key = key_of(node, pool)
    if pool.proof_pod is None or base.status != "True" or not node.held or node.pod_proof == key:
        return PodProof(action=_delete(pod))
    if pod is None:
        create = CreateProofPod(
            node=node.name,
            pod=f"{PROOF_POD_PREFIX}{key}",
            key=key,
            pool=pool.name,
            pool_uid=pool.uid,
            settings=pool.proof_pod,
        )
        return PodProof(action=create, assessment=_waiting(base))
    if pod.key != key or pod.leaving:
        return PodProof(action=_delete(pod), assessment=_waiting(base))
    return _judge(node, base, pod, now)


def _judge(node: Node, base: Assessment, pod: ProofPod, now: float) -> PodProof:
    match pod.progress:
        case "succeeded":
            return PodProof(
                action=NotePodProof(node=node.name, key=pod.key), assessment=_waiting(base)
            )
        case "failed":
            retry = pod.created + RETRY_S
            return PodProof(
                action=_delete(pod) if now >= retry else None,
                assessment=_failed(base, pod),
                deadline=retry,
            )
        case "unscheduled" if now >= pod.created + UNSCHEDULED_S:
            return PodProof(
                assessment=_problem(
                    base, "PodNotScheduled", f"pod {pod.name} is not scheduled: {pod.why}"
                )
            )
        case _:
            return PodProof(assessment=_waiting(base), deadline=pod.created + UNSCHEDULED_S)


def _delete(pod: ProofPod | None) -> DeleteProofPod | None:
    if pod is None or pod.leaving:
        return None
    return DeleteProofPod(node=pod.node, pod=pod.name)


def _waiting(base: Assessment) -> Assessment:
    message = "the partitions match, and a pod has not computed on the node's devices yet"
    return replace(base, status="Unknown", reason="PodProofUnderWay", message=message, settles=True)


def _failed(base: Assessment, pod: ProofPod) -> Assessment:
    if WRONG_DEVICE in pod.exit_codes:
        return _problem(base, "WrongDeviceAllotted", f"pod {pod.name}: {pod.why}")
    if FAILED in pod.exit_codes:
        return _problem(base, "PodDoesNotCompute", f"pod {pod.name}: {pod.why}")
    if not pod.exit_codes:
        return _problem(base, "PodNotServed", f"pod {pod.name}: {pod.why}")
    return _problem(base, "PodProofUntried", f"pod {pod.name}: {pod.why}")


def _problem(base: Assessment, reason: str, message: str) -> Assessment:
    return replace(base, status="False", reason=reason, message=message)

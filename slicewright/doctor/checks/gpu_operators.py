"""Checks that a cluster has one GPU operator at most, in a form that slicewright manages. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from slicewright.doctor.checks.gpu_owners import (
    DeviceOwners,
    GpuOperator,
    OwnerAnswers,
    Pool,
    is_managed_by_gke,
    owner_findings,
)
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    checks,
    fails,
    not_asked,
    ok,
)

_SUBJECT: Final = "GPU operator"
_USE_IT: Final = "gpu_operator: {existing: true}"


@dataclass(frozen=True, kw_only=True)
class PlannedOperator:
    """The operator of the plan."""

    namespace: str
    adopted: bool = False
    """True if the stack file says that it exists."""
    adoptable: bool = True
    """True if a stack file for this kind of cluster can say that it exists."""
    owned: Owned | None = None
    """Whether the stack's state has the namespace. None: the namespace does not exist."""


@checks("gpu-operator")
def operator_findings(
    planned: PlannedOperator,
    policies: Answer[tuple[GpuOperator, ...]],
    owners: Answer[DeviceOwners],
) -> Iterator[Finding]:
    """Source: NVIDIA GPU operator docs, GPUCluster: it and a ClusterPolicy exclude each other."""
    if isinstance(policies, NotAnswered):
        yield not_asked(_SUBJECT, policies)
    elif isinstance(owners, NotAnswered):
        yield not_asked(_SUBJECT, owners)
    elif owners.gpu_clusters:
        yield fails(
            _SUBJECT,
            f"the operator of this cluster has a GPUCluster ({', '.join(owners.gpu_clusters)}): it "
            "hands out the GPUs by DRA, which slicewright does not manage; a second operator or a "
            "ClusterPolicy would break it",
            "leave this cluster as it is and use another one, or move it back to the device plugin "
            "first: drain its GPU pods, delete the GPUCluster, and create a ClusterPolicy",
        )
    elif policies:
        yield _of_policy(policies[0], planned)
    else:
        created = {planned.namespace} if planned.owned == "yes" else set()
        yield _without_policy(planned, [n for n in owners.operator_namespaces if n not in created])


def _without_policy(planned: PlannedOperator, foreign: list[str]) -> Finding:
    """foreign: namespaces with an operator that this stack did not install."""
    if foreign:
        create = f", or create its ClusterPolicy and write {_USE_IT}" if planned.adoptable else ""
        return fails(
            _SUBJECT,
            f"one runs in namespace {foreign[0]}, but has no ClusterPolicy; a cluster can have "
            "only one operator",
            f"uninstall it{create}",
        )
    if planned.adopted:
        return fails(
            _SUBJECT,
            "does not exist, but the stack file says gpu_operator.existing: true",
            "remove `existing`, so that `up` installs one",
        )
    return ok(_SUBJECT, "not installed: `up` installs one")


def _of_policy(policy: GpuOperator, planned: PlannedOperator) -> Finding:
    if planned.adopted:
        return ok(_SUBJECT, f"ClusterPolicy {policy.name} exists, as the stack file says")
    if policy.release_namespace == planned.namespace and planned.owned == "yes":
        return ok(_SUBJECT, "exists, installed by this stack")
    where = f" in namespace {policy.release_namespace}" if policy.release_namespace else ""
    use_it = f"write {_USE_IT} to use it, or uninstall it"
    if not planned.adoptable:
        use_it = f"uninstall it, or manage the cluster as cloud: byo with {_USE_IT}"
    unknown = (
        "; if this stack created it, continue: the stack's state cannot be read"
        if planned.owned == "unknown"
        else ""
    )
    return fails(
        _SUBJECT,
        f"one is installed{where} (ClusterPolicy {policy.name}), but a cluster can have only one",
        use_it + unknown,
    )


def has_operator(policies: Answer[tuple[GpuOperator, ...]], owners: Answer[DeviceOwners]) -> bool:
    """True if an operator is known to be in the cluster, in either form."""
    by_dra = isinstance(owners, DeviceOwners) and bool(
        owners.gpu_clusters or owners.operator_namespaces
    )
    return by_dra or (isinstance(policies, tuple) and bool(policies))


def inside_findings(
    inside: OwnerAnswers, planned: PlannedOperator | None, pools: tuple[Pool, ...]
) -> Iterator[Finding]:
    """Checks an existing cluster of a cloud.

    planned: None if the cloud's own device plugin serves the pools: the operands of an operator
    would come beside it.
    """
    daemonsets = inside.daemonsets
    if isinstance(daemonsets, tuple):
        daemonsets = tuple(
            daemonset if planned is not None else replace(daemonset, of_operator=False)
            for daemonset in daemonsets
            if not is_managed_by_gke(daemonset)
        )
    created = set()
    if planned is not None:
        yield from operator_findings(planned, inside.policies, inside.owners)
        created = {planned.namespace} if planned.owned == "yes" else set()
    yield from owner_findings(daemonsets, inside.owners, pools, own_namespaces=created)

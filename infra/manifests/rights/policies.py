"""The rights in the account that a plan needs, as an AWS policy and as a Google custom role.

Rights inside the cluster are not among them: EKS makes the creator of a cluster its administrator,
and on GKE they come from another role (docs/how-to/least-privilege.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from slicewright.infra import catalog
from slicewright.infra.catalog import OPERATIONS, Operation
from slicewright.infra.manifests.rights.aws_limits import (
    addon_identities,
    has_launch_templates,
    has_placement_groups,
    stack_limits,
)
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan

READING: tuple[Operation, ...] = ("read",)
"""Operations of `pulumi preview` and `refresh`."""
_NODE_ROLE = "roles/container.defaultNodeServiceAccount"
_ROLE_TITLE_MAX = 100
"""Characters. Source: IAM REST reference, Role."""


@dataclass(frozen=True, kw_only=True, order=True)
class Need:
    """A right, and the operation that needs it."""

    right: str
    """ec2:CreateVpc, compute.networks.create."""
    type: str
    """Pulumi's token of a resource type or function."""
    operation: Operation
    why: str | None
    """None: the rehearsal shows the call that needs it."""
    source: str


def rights(
    fleet: EksFleetPlan | GkeFleetPlan, operations: Sequence[Operation] = OPERATIONS
) -> tuple[Need, ...]:
    """Every right that the program needs in the account, for these operations."""
    catalogued = _catalogued(fleet)
    occasions = _occasions(fleet)
    needs = {
        need
        for resource in catalogued.resources.values()
        if resource.when in occasions
        for need in (
            *_needs_of_calls(catalogued, resource, operations),
            *_needs_behind_calls(resource, operations, occasions),
        )
    }
    return tuple(sorted(needs, key=lambda n: (n.right, n.type, n.operation, n.why or "")))


def _needs_of_calls(
    catalogued: catalog.Rights, resource: catalog.Calling, operations: Sequence[Operation]
) -> Iterator[Need]:
    for operation in operations:
        for call in resource.calls[operation]:
            for right in catalogued.rights_for(call):
                yield Need(
                    right=right,
                    type=resource.type,
                    operation=operation,
                    why=None,
                    source=resource.source,
                )


def _needs_behind_calls(
    resource: catalog.Calling, operations: Sequence[Operation], occasions: set[str]
) -> Iterator[Need]:
    for behind in resource.behind:
        if behind.during in operations and behind.when in occasions:
            for right in behind.rights:
                yield Need(
                    right=right,
                    type=resource.type,
                    operation=behind.during,
                    why=behind.why,
                    source=behind.source,
                )


def needs_boundary(
    fleet: EksFleetPlan | GkeFleetPlan, operations: Sequence[Operation] = OPERATIONS
) -> tuple[str, ...]:
    """The actions that would make their holder an administrator of the account. `aws_policy` leaves
    them out: only a permissions boundary of the stack's roles limits them, and the plan has none.
    """
    if not isinstance(fleet, EksFleetPlan) or fleet.cluster.permissions_boundary is not None:
        return ()
    scopes = catalog.aws_rights().scopes
    needed = {need.right for need in rights(fleet, operations)}
    return tuple(
        sorted(right for right in needed if right in scopes and scopes[right].needs_boundary)
    )


def aws_policy(
    fleet: EksFleetPlan,
    operations: Sequence[Operation] = OPERATIONS,
    *,
    role_names: Mapping[str, str] | None = None,
    all_needed: bool = False,
) -> JsonObject:
    """An IAM policy document with these rights, limited to the stack's resources if AWS can.

    role_names: for a stack whose roles were created before role names contained the stack's name.
    The default is the names of a new stack. all_needed: True to include the actions of
    `needs_boundary`.
    """
    stack = stack_limits(fleet, {**fleet.cluster.role_names, **(role_names or {})})
    left_out = () if all_needed else needs_boundary(fleet, operations)
    actions: dict[str, set[str]] = {}
    for need in rights(fleet, operations):
        if need.right in left_out:
            continue
        for limits in stack.statements(need.right, need.operation):
            actions.setdefault(json.dumps(limits, sort_keys=True), set()).add(need.right)
    statements = [
        {"Effect": "Allow", "Action": sorted(allowed), **json.loads(limits)}
        for limits, allowed in sorted(actions.items(), key=lambda entry: sorted(entry[1]))
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def google_role(fleet: GkeFleetPlan, operations: Sequence[Operation] = OPERATIONS) -> JsonObject:
    """A custom role with these rights, as `gcloud iam roles create --file` reads it."""
    command = "preview" if tuple(operations) == READING else "up"
    return {
        "title": f"slicewright {command} {fleet.cluster.name}"[:_ROLE_TITLE_MAX],
        "description": f"What pulumi {command} needs for GKE cluster {fleet.cluster.name}",
        "stage": "GA",
        "includedPermissions": sorted({need.right for need in rights(fleet, operations)}),
    }


def google_condition() -> str:
    """An IAM condition for the grant of the role: it may grant the role of nodes, and no other.

    Source: IAM documentation, set limits on granting roles.
    """
    grants = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    return f"{grants}.hasOnly(['{_NODE_ROLE}'])"


def _catalogued(fleet: EksFleetPlan | GkeFleetPlan) -> catalog.Rights:
    match fleet:
        case EksFleetPlan():
            return catalog.aws_rights()
        case GkeFleetPlan():
            return catalog.google_rights()


def _occasions(fleet: EksFleetPlan | GkeFleetPlan) -> set[str]:
    system = [fleet.system.nodes] if fleet.system is not None else []
    pools = fleet.node_groups if isinstance(fleet, EksFleetPlan) else fleet.pools
    counts = [*system, *(pool.nodes for pool in pools)]
    autoscaled = any(nodes.autoscaled for nodes in counts)
    occasions = {"autoscaled": autoscaled, **_by_cloud(fleet)}
    return {"always", *(occasion for occasion, holds in occasions.items() if holds)}


def _by_cloud(fleet: EksFleetPlan | GkeFleetPlan) -> Mapping[str, bool]:
    match fleet:
        case GkeFleetPlan():
            return {
                "by-dns": fleet.cluster.by_dns,
                "nat": fleet.cluster.nat,
                "own-cluster": not fleet.cluster.existing,
                "gpu-networks": fleet.cluster.makes_gpu_networks,
                "own-network": fleet.cluster.makes_gpu_networks
                or (fleet.cluster.network is None and not fleet.cluster.existing),
            }
        case EksFleetPlan(cluster=cluster):
            return {
                "autoscaler": cluster.autoscaler is not None,
                "bounded": cluster.permissions_boundary is not None,
                "cluster-tags": bool(cluster.tags),
                "access": bool(cluster.access),
                "access-policies": any(entry.policies for entry in cluster.access),
                "existing-cluster": cluster.existing,
                "own-cluster": not cluster.existing,
                "existing-subnets": not cluster.own_vpc,
                "nat": bool(cluster.nat_zones),
                "own-network": cluster.own_vpc,
                "placed": has_placement_groups(fleet),
                "pod-identity": bool(addon_identities(cluster)),
                "pod-roles": cluster.autoscaler is not None or bool(cluster.pod_identities),
                "secrets-key": cluster.secrets_key is not None,
                "tagged": bool(cluster.tags) or any(pool.settings.tags for pool in fleet.pools),
                "templated": has_launch_templates(fleet),
            }

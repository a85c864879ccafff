"""The rights in the account that a plan needs, as an AWS policy and as a Google custom role.

Rights inside the cluster are none of them: EKS makes the creator of a cluster its administrator,
and on GKE they come from another role (docs/how-to/least-privilege.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra import catalog, plan
from infra.catalog import OPERATIONS, Operation
from infra.plan import AddonIdentity, EksClusterPlan, EksFleetPlan, GkeFleetPlan
from infra.values.text import JsonObject

READING: tuple[Operation, ...] = ("read",)
"""Operations of `pulumi preview` and `refresh`."""

_EC2 = ("internet-gateway", "route-table", "subnet", "vpc")
_TEMPLATED = ("instance", "launch-template", "volume")
"""The resources of stacks with a launch template."""
_BEHIND_NAT = ("elastic-ip", "natgateway")
"""The resources of stacks with NAT gateways."""
_PLACED = ("placement-group",)
"""The resources of stacks with a placement group."""
_BESIDE_THE_VPC = (
    *("internet-gateway", "launch-template", "route-table", "subnet"),
    *(*_BEHIND_NAT, *_PLACED),
)
_EKS = ("access-entry", "addon", "cluster", "nodegroup", "pod-identity")
_AUTOSCALER = "autoscaler"
"""The part of a stack whose role has an inline policy: cluster-autoscaler's, or Karpenter's."""
_ATTACHED = (
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
)
_OF_CONTROL_PLANE = "AmazonEKSClusterPolicy"
_SERVICE_LINKED = {
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
}
_LINKED = "service-linked-role"
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
    known = _known(fleet)
    occasions = _occasions(fleet)
    found = set()
    for resource in known.resources.values():
        if resource.when not in occasions:
            continue
        for operation in operations:
            found |= {
                Need(
                    right=right,
                    type=resource.type,
                    operation=operation,
                    why=None,
                    source=resource.source,
                )
                for call in resource.calls[operation]
                for right in known.rights_for(call)
            }
        found |= {
            Need(
                right=right,
                type=resource.type,
                operation=behind.during,
                why=behind.why,
                source=behind.source,
            )
            for behind in resource.behind
            if behind.during in operations and behind.when in occasions
            for right in behind.rights
        }
    return tuple(sorted(found, key=lambda n: (n.right, n.type, n.operation, n.why or "")))


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

    role_names: of a stack whose roles were made before their names told the stack. The default is
    the names of a new stack. all_needed: includes the actions of `needs_boundary`.
    """
    account = _Account(fleet, {**fleet.cluster.role_names, **(role_names or {})})
    left_out = () if all_needed else needs_boundary(fleet, operations)
    actions: dict[str, set[str]] = {}
    for need in rights(fleet, operations):
        if need.right in left_out:
            continue
        for limits in account.limits(need):
            actions.setdefault(json.dumps(limits, sort_keys=True), set()).add(need.right)
    statements = [
        {"Effect": "Allow", "Action": sorted(allowed), **json.loads(limits)}
        for limits, allowed in sorted(actions.items(), key=lambda one: sorted(one[1]))
    ]
    return {"Version": "2012-10-17", "Statement": statements}


def google_role(fleet: GkeFleetPlan, operations: Sequence[Operation] = OPERATIONS) -> JsonObject:
    """A custom role with these rights, as `gcloud iam roles create --file` reads it."""
    what = "preview" if tuple(operations) == READING else "up"
    return {
        "title": f"slicewright {what} {fleet.cluster.name}"[:_ROLE_TITLE_MAX],
        "description": f"What pulumi {what} needs for GKE cluster {fleet.cluster.name}",
        "stage": "GA",
        "includedPermissions": sorted({need.right for need in rights(fleet, operations)}),
    }


def google_condition() -> str:
    """An IAM condition for the grant of the role: of all roles it may grant the nodes' one only.

    Source: IAM documentation, set limits on granting roles.
    """
    grants = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    return f"{grants}.hasOnly(['{_NODE_ROLE}'])"


def _known(fleet: EksFleetPlan | GkeFleetPlan) -> catalog.Rights:
    match fleet:
        case EksFleetPlan():
            return catalog.aws_rights()
        case GkeFleetPlan():
            return catalog.google_rights()


def _occasions(fleet: EksFleetPlan | GkeFleetPlan) -> set[str]:
    system = [fleet.system.nodes] if fleet.system is not None else []
    made = fleet.node_groups if isinstance(fleet, EksFleetPlan) else fleet.pools
    counts = [*system, *(pool.nodes for pool in made)]
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
                "placed": _placed(fleet),
                "pod-identity": bool(_identities(cluster)),
                "pod-roles": cluster.autoscaler is not None or bool(cluster.pod_identities),
                "secrets-key": cluster.secrets_key is not None,
                "tagged": bool(cluster.tags) or any(pool.settings.tags for pool in fleet.pools),
                "templated": _templated(fleet),
            }


def _templated(fleet: EksFleetPlan) -> bool:
    return fleet.system.templated or any(pool.settings.templated for pool in fleet.pools)


def _identities(cluster: EksClusterPlan) -> list[AddonIdentity]:
    return [addon.identity for addon in cluster.addons if addon.identity is not None]


def _placed(fleet: EksFleetPlan) -> bool:
    return any(
        pool.settings.template is not None and pool.settings.template.placement
        for pool in fleet.pools
    )


class _Account:
    """The limits of an action to the stack: resources, and conditions."""

    def __init__(self, fleet: EksFleetPlan, role_names: Mapping[str, str]) -> None:
        cluster = fleet.cluster
        region = catalog.aws_region(cluster.region)
        self._region = region.name
        self._partition = region.partition
        self._names = _names(fleet)
        ec2 = f"arn:{region.partition}:ec2:{region.name}:*"
        eks = f"arn:{region.partition}:eks:{region.name}:*"
        iam = f"arn:{region.partition}:iam::*:role"
        identities = _identities(cluster)
        own = [f"{iam}/{name}" for name in _role_patterns(cluster, role_names)]
        of_pods = [f"{iam}/{name}" for part, name in role_names.items() if part == _AUTOSCALER]
        self._ec2 = (
            *_EC2,
            *(_TEMPLATED if _templated(fleet) else ()),
            *(_BEHIND_NAT if cluster.nat_zones else ()),
            *(_PLACED if _placed(fleet) else ()),
        )
        given = sorted({one.role for one in cluster.pod_identities})
        granted = {policy.arn for entry in cluster.access for policy in entry.policies}
        self._arns: Mapping[str, Sequence[str]] = {
            **{kind: [f"{ec2}:{kind}/*"] for kind in self._ec2},
            "what-an-instance-has": ["*"],
            "cluster": [f"{eks}:cluster/{cluster.name}"],
            "nodegroup": [f"{eks}:nodegroup/{cluster.name}/*/*"],
            "addon": [f"{eks}:addon/{cluster.name}/*/*"],
            **(
                {"access-entry": [f"{eks}:access-entry/{cluster.name}/*"]} if cluster.access else {}
            ),
            **({"secrets-key": [cluster.secrets_key]} if cluster.secrets_key else {}),
            "role": own,
            **({"pod-role": of_pods} if of_pods else {}),
            **(
                {"pod-identity": [f"{eks}:podidentityassociation/{cluster.name}/*"]}
                if of_pods or identities or cluster.pod_identities
                else {}
            ),
            **({"role-of-pods": given} if given else {}),
            _LINKED: [
                f"{iam}/aws-service-role/{service}/{name}"
                for service, name in _SERVICE_LINKED.items()
            ],
        }
        attached: JsonObject = {
            "ArnEquals": {
                "iam:PolicyARN": [
                    f"arn:{region.partition}:iam::aws:policy/{policy}"
                    for policy in (*_ATTACHED, *(one.policy for one in identities))
                    if not (cluster.existing and policy == _OF_CONTROL_PLANE)
                ]
            }
        }
        bounded = _bounded(cluster)
        self._only: Mapping[str, JsonObject] = {
            "attached-policies": {**attached, **bounded},
            "bounded": bounded,
            "own-tags": _own_tags(cluster),
            "access-policies": {"ArnEquals": {"eks:policyArn": sorted(granted)}},
            "by-launch-template": {"ArnLike": {"ec2:LaunchTemplate": f"{ec2}:launch-template/*"}},
            "passed-to-eks": {"StringEquals": {"iam:PassedToService": _passed_to(cluster)}},
            "service-linked": {"StringEquals": {"iam:AWSServiceName": sorted(_SERVICE_LINKED)}},
        }

    def limits(self, need: Need) -> list[JsonObject]:
        """Resource and Condition of each statement that the need is part of."""
        scope = catalog.aws_rights().scopes.get(need.right)
        if scope is None:
            # AWS knows no resource for it.
            return [_limits(["*"], {"StringEquals": {"aws:RequestedRegion": self._region}})]
        if scope.tags_what_is_made and need.operation == "create":
            makers = {"StringEquals": {"ec2:CreateAction": self._makers()}}
            return [_limits(self._of(scope.uses), makers)]
        # Not with the VPC: a subnet with the right name could then be made in any.
        new = self._of(_alike(scope.makes, [_BESIDE_THE_VPC]))
        made = [_limits(new, self._tag("aws:RequestTag"))] if new else []
        if not scope.uses:
            return made
        condition = self._condition(need.right, scope.only)
        there = self._there(scope.uses)
        # By themselves, so that the stack's own roles are in the statement of the other actions.
        linked = [kind for kind in there if kind == _LINKED and len(there) > 1]
        own = self._of(_alike([kind for kind in there if kind not in linked], [self._ec2, _EKS]))
        return [
            *made,
            _limits(own, condition),
            *([_limits(self._of(linked), condition)] if linked else []),
        ]

    def _condition(self, right: str, only: str | None) -> JsonObject:
        if only is not None:
            return self._only[only]
        return self._tag("aws:ResourceTag") if right.startswith("ec2:") else {}

    def _tag(self, key: str) -> JsonObject:
        return {"StringLike": {f"{key}/Name": self._names}}

    def _of(self, kinds: Sequence[str]) -> list[str]:
        return [arn for kind in self._there(kinds) for arn in self._arns[kind]]

    def _there(self, kinds: Sequence[str]) -> Sequence[str]:
        """The given kinds that the stack may have."""
        return [kind for kind in kinds if kind in self._arns]

    def _makers(self) -> list[str]:
        """The EC2 actions that create something with tags."""
        makes = {
            action: scope.makes or (_TEMPLATED if action == "ec2:RunInstances" else ())
            for action, scope in catalog.aws_rights().scopes.items()
        }
        return sorted(
            action.partition(":")[2] for action, made in makes.items() if self._there(made)
        )


def _role_patterns(cluster: EksClusterPlan, role_names: Mapping[str, str]) -> list[str]:
    """One for the roles that have the stack in their names, and the others as they are."""
    pattern = plan.role_pattern(
        cluster=cluster.name, region=cluster.region, existing=cluster.existing
    )
    beginning = pattern.removesuffix("*")
    return [pattern, *(n for n in sorted(role_names.values()) if not n.startswith(beginning))]


def _bounded(cluster: EksClusterPlan) -> JsonObject:
    """A condition on the plan's boundary. For an existing role, it is that role's boundary."""
    boundary = cluster.permissions_boundary
    return {"StringEquals": {"iam:PermissionsBoundary": boundary}} if boundary else {}


def _own_tags(cluster: EksClusterPlan) -> JsonObject:
    """Only tags of the file: others may give a role rights, by conditions on the tags of callers.

    Source: IAM user guide, controlling access to and for IAM users and roles using tags.
    """
    if not cluster.tags:
        return {}
    return {
        "ForAllValues:StringEquals": {"aws:TagKeys": sorted(cluster.tags)},
        "StringEqualsIfExists": {
            f"aws:RequestTag/{key}": value for key, value in sorted(cluster.tags.items())
        },
    }


def _names(fleet: EksFleetPlan) -> list[str]:
    """The values of the tag Name of infra/components/eks.py: subnets, their route tables and NAT
    gateways have their zone in it, the rest the cluster alone.

    `?` is the letter or number of a zone: a pattern with `*` would also match other clusters, such
    as prod-us-east-1-b for prod.
    """
    cluster, region = fleet.cluster.name, fleet.cluster.region
    zones = {f"{region}?"}
    for zone in _zones(fleet):
        by_id = catalog.is_zone_id(zone) and zone.count("-") == 1
        ordinary = zone[:-1] == region or by_id
        zones.add(f"{zone[:-1]}?" if ordinary else zone)
    kinds = ("", "-private") if fleet.cluster.nat_zones else ("",)
    return [cluster, *(f"{cluster}-{zone}{kind}" for zone in sorted(zones) for kind in kinds)]


def _passed_to(cluster: EksClusterPlan) -> str | list[str]:
    """Roles of cluster and nodes are passed to EKS, roles of pods to its Pod Identity."""
    service = "eks.amazonaws.com"
    pods = cluster.autoscaler is not None or _identities(cluster) or cluster.pod_identities
    return [service, f"pods.{service}"] if pods else service


def _zones(fleet: EksFleetPlan) -> Sequence[str]:
    return (*fleet.cluster.zones, *fleet.cluster.pool_zones)


def _alike(kinds: Sequence[str], groups: Sequence[Sequence[str]]) -> Sequence[str]:
    """The group of these kinds: AWS checks an action against its own kinds only, so kinds with the
    same condition share a statement. A managed policy has at most 6,144 characters without white
    space (IAM user guide, IAM and AWS STS quotas).
    """
    if not kinds:
        return ()
    return next((group for group in groups if set(kinds) <= set(group)), kinds)


def _limits(resources: Sequence[str], condition: Mapping[str, Any]) -> JsonObject:
    return {
        "Resource": sorted(resources) if len(resources) > 1 else resources[0],
        **({"Condition": dict(condition)} if condition else {}),
    }

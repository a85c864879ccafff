"""The limits of AWS actions to a stack: the ARNs of its resources, and conditions.

A managed policy has at most 6,144 characters without white space (IAM user guide, IAM and AWS STS
quotas), so actions share statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.infra import catalog, plan
from slicewright.infra.catalog import Operation
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import AddonIdentity, EksClusterPlan, EksFleetPlan

_EC2: Final = ("internet-gateway", "route-table", "subnet", "vpc")
_TEMPLATED: Final = ("instance", "launch-template", "volume")
"""The resources of stacks with a launch template."""
_BEHIND_NAT: Final = ("elastic-ip", "natgateway")
"""The resources of stacks with NAT gateways."""
_PLACED: Final = ("placement-group",)
"""The resources of stacks with a placement group."""
_CREATED_IN_A_VPC: Final = (
    *("internet-gateway", "launch-template", "route-table", "subnet"),
    *(*_BEHIND_NAT, *_PLACED),
)
_EKS: Final = ("access-entry", "addon", "cluster", "nodegroup", "pod-identity")
_AUTOSCALER: Final = "autoscaler"
"""The part of a stack whose role has an inline policy: cluster-autoscaler's, or Karpenter's."""
_ATTACHED: Final = (
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonEKSClusterPolicy",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
)
_OF_CONTROL_PLANE: Final = "AmazonEKSClusterPolicy"
_SERVICE_LINKED: Final[Mapping[str, str]] = {
    "eks.amazonaws.com": "AWSServiceRoleForAmazonEKS",
    "eks-nodegroup.amazonaws.com": "AWSServiceRoleForAmazonEKSNodegroup",
}
_LINKED: Final = "service-linked-role"


@dataclass(frozen=True, kw_only=True)
class StackLimits:
    """The limits of an action to one stack."""

    region: str
    names: Sequence[str]
    """Values of the tag Name of the stack's resources."""
    ec2_kinds: Sequence[str]
    """The kinds of EC2 resources that the stack may have."""
    arns: Mapping[str, Sequence[str]]
    """Kind of resource -> patterns of the stack's ARNs. Kinds that the stack cannot have lack."""
    conditions: Mapping[str, JsonObject]
    """Names of conditions in the catalog (`Scope.only`) -> condition."""

    def statements(self, right: str, operation: Operation) -> list[JsonObject]:
        """Resource and Condition of each statement that must list the right."""
        scope = catalog.aws_rights().scopes.get(right)
        if scope is None:
            # AWS cannot limit it to a resource.
            return [_statement(["*"], {"StringEquals": {"aws:RequestedRegion": self.region}})]
        if scope.tags_new_resources and operation == "create":
            condition = {"StringEquals": {"ec2:CreateAction": self._creating_actions()}}
            return [_statement(self._arns_of(scope.uses), condition)]
        return [*self._creations(scope), *self._uses(right, scope)]

    def _creations(self, scope: catalog.Scope) -> list[JsonObject]:
        # Not in one statement with the VPC: a subnet with the right name could then be created in
        # any VPC.
        created = self._arns_of(_widen_to_group(scope.makes, [_CREATED_IN_A_VPC]))
        return [_statement(created, self._name_tag("aws:RequestTag"))] if created else []

    def _uses(self, right: str, scope: catalog.Scope) -> list[JsonObject]:
        if not scope.uses:
            return []
        condition = self._condition(right, scope.only)
        kinds = self._existing(scope.uses)
        # In a statement of their own: the stack's own roles share the one of the other actions.
        linked = [kind for kind in kinds if kind == _LINKED and len(kinds) > 1]
        own_kinds = [kind for kind in kinds if kind not in linked]
        used = self._arns_of(_widen_to_group(own_kinds, [self.ec2_kinds, _EKS]))
        return [
            _statement(used, condition),
            *([_statement(self._arns_of(linked), condition)] if linked else []),
        ]

    def _condition(self, right: str, only: str | None) -> JsonObject:
        if only is not None:
            return self.conditions[only]
        return self._name_tag("aws:ResourceTag") if right.startswith("ec2:") else {}

    def _name_tag(self, key: str) -> JsonObject:
        return {"StringLike": {f"{key}/Name": list(self.names)}}

    def _arns_of(self, kinds: Sequence[str]) -> list[str]:
        return [arn for kind in self._existing(kinds) for arn in self.arns[kind]]

    def _existing(self, kinds: Sequence[str]) -> Sequence[str]:
        """The kinds that the stack may have."""
        return [kind for kind in kinds if kind in self.arns]

    def _creating_actions(self) -> list[str]:
        """The EC2 actions that create a resource of the stack together with its tags."""
        created = {
            action: scope.makes or (_TEMPLATED if action == "ec2:RunInstances" else ())
            for action, scope in catalog.aws_rights().scopes.items()
        }
        return sorted(
            action.partition(":")[2] for action, kinds in created.items() if self._existing(kinds)
        )


def stack_limits(fleet: EksFleetPlan, role_names: Mapping[str, str]) -> StackLimits:
    """role_names: part of the stack -> name of its role."""
    region = catalog.aws_region(fleet.cluster.region)
    ec2_kinds = _ec2_kinds(fleet)
    ec2 = f"arn:{region.partition}:ec2:{region.name}:*"
    return StackLimits(
        region=region.name,
        names=_names(fleet),
        ec2_kinds=ec2_kinds,
        arns={
            **{kind: [f"{ec2}:{kind}/*"] for kind in ec2_kinds},
            "instance-parts": ["*"],
            **_eks_arns(fleet.cluster, region, role_names),
            **_role_arns(fleet.cluster, region, role_names),
        },
        conditions=_conditions(fleet.cluster, region),
    )


def has_launch_templates(fleet: EksFleetPlan) -> bool:
    return fleet.system.templated or any(pool.settings.templated for pool in fleet.pools)


def has_placement_groups(fleet: EksFleetPlan) -> bool:
    return any(
        pool.settings.template is not None and pool.settings.template.placement
        for pool in fleet.pools
    )


def addon_identities(cluster: EksClusterPlan) -> list[AddonIdentity]:
    return [addon.identity for addon in cluster.addons if addon.identity is not None]


def _ec2_kinds(fleet: EksFleetPlan) -> tuple[str, ...]:
    return (
        *_EC2,
        *(_TEMPLATED if has_launch_templates(fleet) else ()),
        *(_BEHIND_NAT if fleet.cluster.nat_zones else ()),
        *(_PLACED if has_placement_groups(fleet) else ()),
    )


def _eks_arns(
    cluster: EksClusterPlan, region: catalog.AwsRegion, role_names: Mapping[str, str]
) -> dict[str, list[str]]:
    eks, name = f"arn:{region.partition}:eks:{region.name}:*", cluster.name
    arns = {
        "cluster": [f"{eks}:cluster/{name}"],
        "nodegroup": [f"{eks}:nodegroup/{name}/*/*"],
        "addon": [f"{eks}:addon/{name}/*/*"],
    }
    if cluster.access:
        arns["access-entry"] = [f"{eks}:access-entry/{name}/*"]
    if _AUTOSCALER in role_names or addon_identities(cluster) or cluster.pod_identities:
        arns["pod-identity"] = [f"{eks}:podidentityassociation/{name}/*"]
    if cluster.secrets_key:
        arns["secrets-key"] = [cluster.secrets_key]
    return arns


def _role_arns(
    cluster: EksClusterPlan, region: catalog.AwsRegion, role_names: Mapping[str, str]
) -> dict[str, list[str]]:
    iam = f"arn:{region.partition}:iam::*:role"
    arns = {
        "role": [f"{iam}/{name}" for name in _role_patterns(cluster, role_names)],
        _LINKED: [
            f"{iam}/aws-service-role/{service}/{name}" for service, name in _SERVICE_LINKED.items()
        ],
    }
    if _AUTOSCALER in role_names:
        arns["pod-role"] = [f"{iam}/{role_names[_AUTOSCALER]}"]
    if cluster.pod_identities:
        arns["role-of-pods"] = sorted({identity.role for identity in cluster.pod_identities})
    return arns


def _conditions(cluster: EksClusterPlan, region: catalog.AwsRegion) -> dict[str, JsonObject]:
    bounded = _bounded(cluster)
    access_policies = {policy.arn for entry in cluster.access for policy in entry.policies}
    templates = f"arn:{region.partition}:ec2:{region.name}:*:launch-template/*"
    return {
        "attached-policies": {
            "ArnEquals": {"iam:PolicyARN": _attached_policies(cluster, region)},
            **bounded,
        },
        "bounded": bounded,
        "own-tags": _own_tags(cluster),
        "access-policies": {"ArnEquals": {"eks:policyArn": sorted(access_policies)}},
        "by-launch-template": {"ArnLike": {"ec2:LaunchTemplate": templates}},
        "passed-to-eks": {"StringEquals": {"iam:PassedToService": _passed_to(cluster)}},
        "service-linked": {"StringEquals": {"iam:AWSServiceName": sorted(_SERVICE_LINKED)}},
    }


def _attached_policies(cluster: EksClusterPlan, region: catalog.AwsRegion) -> list[str]:
    """AWS's own policies that the stack attaches to its roles."""
    of_addons = (identity.policy for identity in addon_identities(cluster))
    return [
        f"arn:{region.partition}:iam::aws:policy/{policy}"
        for policy in (*_ATTACHED, *of_addons)
        if not (cluster.existing and policy == _OF_CONTROL_PLANE)
    ]


def _role_patterns(cluster: EksClusterPlan, role_names: Mapping[str, str]) -> list[str]:
    """One pattern for the roles whose names contain the stack's name, and all other names."""
    pattern = plan.role_pattern(
        cluster=cluster.name, region=cluster.region, existing=cluster.existing
    )
    beginning = pattern.removesuffix("*")
    return [pattern, *(n for n in sorted(role_names.values()) if not n.startswith(beginning))]


def _bounded(cluster: EksClusterPlan) -> JsonObject:
    """A condition on the plan's boundary. AWS compares an existing role's own one."""
    boundary = cluster.permissions_boundary
    return {"StringEquals": {"iam:PermissionsBoundary": boundary}} if boundary else {}


def _own_tags(cluster: EksClusterPlan) -> JsonObject:
    """Only tags of the stack file: with other tags a role could gain rights, because policies may
    have conditions on the tags of callers.

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
    """The values of the tag Name of infra/components/eks/cluster.py: subnets, their route tables
    and NAT gateways have their zone in it, the rest the cluster alone.

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
    pods = cluster.autoscaler is not None or addon_identities(cluster) or cluster.pod_identities
    return [service, f"pods.{service}"] if pods else service


def _zones(fleet: EksFleetPlan) -> Sequence[str]:
    return (*fleet.cluster.zones, *fleet.cluster.pool_zones)


def _widen_to_group(kinds: Sequence[str], groups: Sequence[Sequence[str]]) -> Sequence[str]:
    """The group that contains these kinds, else the kinds. Kinds with the same condition can share
    a statement, because AWS checks an action against the action's own kinds only.
    """
    if not kinds:
        return ()
    return next((group for group in groups if set(kinds) <= set(group)), kinds)


def _statement(resources: Sequence[str], condition: Mapping[str, Any]) -> JsonObject:
    return {
        "Resource": sorted(resources) if len(resources) > 1 else resources[0],
        **({"Condition": dict(condition)} if condition else {}),
    }

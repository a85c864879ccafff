"""The IAM policy of Karpenter's pods on EKS.

Sources: aws/karpenter-provider-aws v1.15.1, pkg/aws/sdk.go; karpenter.sh docs, reference,
CloudFormation, "KarpenterControllerPolicy".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.infra import catalog
from slicewright.infra.manifests.eks.karpenter import karpenter_plan
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import EksFleetPlan

_READS: Final = (
    *("ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances"),
    *("ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings"),
    *("ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups"),
    *("ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets"),
)
"""AWS cannot limit these to resources."""
_LAUNCHED: Final = ("fleet", "instance", "launch-template", "network-interface", "volume")
"""Kinds of resources that a launch creates."""
_LAUNCHED_FROM: Final = (
    *("capacity-reservation", "launch-template", "security-group", "spot-instances-request"),
    "subnet",
)
"""Kinds of resources that a launch uses."""
_QUEUE: Final = ("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage")
_NODE_POOL_TAG: Final = "karpenter.sh/nodepool"
_NODE_CLASS_TAG: Final = "karpenter.k8s.aws/ec2nodeclass"


@dataclass(frozen=True, kw_only=True)
class _Cluster:
    """A cluster, with the beginnings of its resources' ARNs and the tags of its resources."""

    name: str
    region: catalog.AwsRegion

    @property
    def arn(self) -> str:
        return f"arn:{self.region.partition}"

    @property
    def ec2(self) -> str:
        return f"{self.arn}:ec2:{self.region.name}"

    @property
    def instance_profiles(self) -> str:
        return f"{self.arn}:iam::*:instance-profile/*"

    @property
    def launched(self) -> list[str]:
        return [f"{self.ec2}:*:{kind}/*" for kind in _LAUNCHED]

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of everything that Karpenter creates for the cluster."""
        return {f"kubernetes.io/cluster/{self.name}": "owned"}

    @property
    def profile_tags(self) -> Mapping[str, str]:
        """The tags of Karpenter's instance profiles."""
        return {**self.tags, "topology.kubernetes.io/region": self.region.name}


def karpenter_policy(fleet: EksFleetPlan, *, node_role_arn: str) -> JsonObject:
    """Lets Karpenter launch and end instances that it tags for this cluster, with the nodes' role,
    and create instance profiles for that role.
    """
    region = catalog.aws_region(fleet.cluster.region)
    cluster = _Cluster(name=fleet.cluster.name, region=region)
    templates = [
        pool.settings.template
        for pool in fleet.karpenter_pools
        if pool.settings.template is not None
    ]
    keys = {template.kms_key for template in templates if template.kms_key is not None}
    queue = karpenter_plan(fleet).interruption_queue
    return {
        "Version": "2012-10-17",
        "Statement": [
            *_read_statements(cluster),
            *_launch_statements(cluster),
            *_tag_statements(cluster),
            _end_statement(cluster),
            _allow(
                ["iam:PassRole"],
                [node_role_arn],
                StringEquals={"iam:PassedToService": f"ec2.{region.suffix}"},
            ),
            *_instance_profile_statements(cluster),
            *(_key_statements(sorted(keys)) if keys else ()),
            *([_allow(_QUEUE, [f"{cluster.arn}:sqs:{region.name}:*:{queue}"])] if queue else ()),
        ],
    }


def _allow(
    actions: Sequence[str], resources: Sequence[str], **condition: Mapping[str, Any]
) -> JsonObject:
    return {
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": list(resources),
        **({"Condition": condition} if condition else {}),
    }


def _read_statements(cluster: _Cluster) -> list[JsonObject]:
    arn, region = cluster.arn, cluster.region.name
    return [
        _allow(_READS, ["*"], StringEquals={"aws:RequestedRegion": region}),
        _allow(["pricing:GetProducts", "iam:ListInstanceProfiles"], ["*"]),
        _allow(["ssm:GetParameter"], [f"{arn}:ssm:{region}::parameter/aws/service/*"]),
        _allow(["eks:DescribeCluster"], [f"{arn}:eks:{region}:*:cluster/{cluster.name}"]),
    ]


def _launch_statements(cluster: _Cluster) -> list[JsonObject]:
    used = [f"{cluster.ec2}:*:{kind}/*" for kind in _LAUNCHED_FROM]
    return [
        _allow(
            ["ec2:RunInstances", "ec2:CreateFleet"],
            [f"{cluster.ec2}::image/*", f"{cluster.ec2}::snapshot/*", *used],
        ),
        _allow(
            ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
            cluster.launched,
            StringEquals=_tags("aws:RequestTag", cluster.tags),
            StringLike=_any_value("aws:RequestTag", _NODE_POOL_TAG),
        ),
    ]


def _tag_statements(cluster: _Cluster) -> list[JsonObject]:
    """Tags at the launch, and a few more of a running instance."""
    return [
        _allow(
            ["ec2:CreateTags"],
            cluster.launched,
            StringEquals={
                **_tags("aws:RequestTag", cluster.tags),
                "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
            },
            StringLike=_any_value("aws:RequestTag", _NODE_POOL_TAG),
        ),
        _allow(
            ["ec2:CreateTags"],
            [f"{cluster.ec2}:*:instance/*"],
            **{
                "StringEquals": _tags("aws:ResourceTag", cluster.tags),
                "StringLike": _any_value("aws:ResourceTag", _NODE_POOL_TAG),
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            },
        ),
    ]


def _end_statement(cluster: _Cluster) -> JsonObject:
    return _allow(
        ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
        [f"{cluster.ec2}:*:instance/*", f"{cluster.ec2}:*:launch-template/*"],
        StringEquals=_tags("aws:ResourceTag", cluster.tags),
        StringLike=_any_value("aws:ResourceTag", _NODE_POOL_TAG),
    )


def _instance_profile_statements(cluster: _Cluster) -> list[JsonObject]:
    profiles, tags = [cluster.instance_profiles], cluster.profile_tags
    return [
        _allow(
            ["iam:CreateInstanceProfile"],
            profiles,
            StringEquals=_tags("aws:RequestTag", tags),
            StringLike=_any_value("aws:RequestTag", _NODE_CLASS_TAG),
        ),
        _allow(
            ["iam:TagInstanceProfile"],
            profiles,
            StringEquals={**_tags("aws:ResourceTag", tags), **_tags("aws:RequestTag", tags)},
            StringLike={
                **_any_value("aws:ResourceTag", _NODE_CLASS_TAG),
                **_any_value("aws:RequestTag", _NODE_CLASS_TAG),
            },
        ),
        _allow(
            [
                *("iam:AddRoleToInstanceProfile", "iam:DeleteInstanceProfile"),
                "iam:RemoveRoleFromInstanceProfile",
            ],
            profiles,
            StringEquals=_tags("aws:ResourceTag", tags),
            StringLike=_any_value("aws:ResourceTag", _NODE_CLASS_TAG),
        ),
        _allow(["iam:GetInstanceProfile"], profiles),
    ]


def _key_statements(keys: Sequence[str]) -> list[JsonObject]:
    """The rights that EBS needs on a key, exercised in the name of the principal that launches.

    Source: EBS user guide, permissions for EBS encryption.
    """
    uses = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
    return [
        _allow([*uses, "kms:ReEncrypt*"], keys),
        _allow(["kms:CreateGrant"], keys, Bool={"kms:GrantIsForAWSResource": "true"}),
    ]


def _tags(key: str, tags: Mapping[str, str]) -> JsonObject:
    return {f"{key}/{name}": value for name, value in tags.items()}


def _any_value(key: str, tag: str) -> JsonObject:
    return {f"{key}/{tag}": "*"}

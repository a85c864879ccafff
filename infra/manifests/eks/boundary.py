"""A permissions boundary for the roles of an EKS stack: the union of their rights.

A policy that somebody adds to one of the roles later cannot exceed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra import catalog
from slicewright.infra.manifests.eks.autoscaler import autoscaler_policy
from slicewright.infra.manifests.eks.karpenter_rights import karpenter_policy
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import EksFleetPlan, KarpenterPlan

_AWS_POLICY_ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    # AmazonEKSClusterPolicy, v8. Its iam:CreateServiceLinkedRole is a statement of its own.
    "control-plane": (
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:UpdateAutoScalingGroup",
        "ec2:AttachVolume",
        "ec2:AuthorizeSecurityGroupIngress",
        "ec2:CreateRoute",
        "ec2:CreateSecurityGroup",
        "ec2:CreateTags",
        "ec2:CreateVolume",
        "ec2:DeleteRoute",
        "ec2:DeleteSecurityGroup",
        "ec2:DeleteVolume",
        "ec2:Describe*",
        "ec2:DetachVolume",
        "ec2:ModifyInstanceAttribute",
        "ec2:ModifyVolume",
        "ec2:RevokeSecurityGroupIngress",
        "elasticloadbalancing:*",
        "kms:DescribeKey",
    ),
    # AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly, AmazonEKS_CNI_Policy.
    "nodes": (
        "ec2:AssignPrivateIpAddresses",
        "ec2:AttachNetworkInterface",
        "ec2:CreateNetworkInterface",
        "ec2:CreateTags",
        "ec2:DeleteNetworkInterface",
        "ec2:Describe*",
        "ec2:DetachNetworkInterface",
        "ec2:ModifyNetworkInterfaceAttribute",
        "ec2:UnassignPrivateIpAddresses",
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:BatchImportUpstreamImage",
        "ecr:GetAuthorizationToken",
        "ecr:GetDownloadUrlForLayer",
        "eks-auth:AssumeRoleForPodIdentity",
        "eks:DescribeCluster",
    ),
    # AmazonEBSCSIDriverPolicyV2.
    "ebs-csi": (
        "ec2:AttachVolume",
        "ec2:CopyVolumes",
        "ec2:CreateSnapshot",
        "ec2:CreateTags",
        "ec2:CreateVolume",
        "ec2:DeleteSnapshot",
        "ec2:DeleteTags",
        "ec2:DeleteVolume",
        "ec2:Describe*",
        "ec2:DetachVolume",
        "ec2:EnableFastSnapshotRestores",
        "ec2:LockSnapshot",
        "ec2:ModifyVolume",
    ),
}
"""Part of a stack -> the actions of AWS's policies for its role, read 2026-11-28. ec2:Describe*
covers future actions too, as AWS adds some. Source: AWS managed policy reference.
"""
_LOAD_BALANCING: Final = "elasticloadbalancing.amazonaws.com"


def boundary_policy(fleet: EksFleetPlan, role_names: Mapping[str, str] | None = None) -> JsonObject:
    """role_names: as for `aws_policy`."""
    names = {**fleet.cluster.role_names, **(role_names or {})}
    region = catalog.aws_region(fleet.cluster.region)
    actions = {action for part in names for action in _AWS_POLICY_ACTIONS.get(part, ())}
    allowed: list[JsonObject] = [
        {"Effect": "Allow", "Action": sorted(actions), "Resource": "*"},
    ]
    if "control-plane" in names:
        allowed.append(
            {
                "Effect": "Allow",
                "Action": "iam:CreateServiceLinkedRole",
                "Resource": "*",
                "Condition": {"StringEquals": {"iam:AWSServiceName": _LOAD_BALANCING}},
            }
        )
    node_role = f"arn:{region.partition}:iam::*:role/{names['nodes']}"
    allowed += _autoscaler_statements(fleet, node_role)
    return {"Version": "2012-10-17", "Statement": allowed}


def _autoscaler_statements(fleet: EksFleetPlan, node_role: str) -> list[JsonObject]:
    """The statements of the autoscaler's own policy."""
    cluster = fleet.cluster
    match cluster.autoscaler:
        case None:
            return []
        case KarpenterPlan():
            policy = karpenter_policy(fleet, node_role_arn=node_role)
        case _:
            policy = autoscaler_policy(cluster=cluster.name, region=cluster.region)
    return list(policy["Statement"])

"""The rights that the sweep of `slicewright destroy` needs, besides those of `pulumi destroy`.

In AWS they are limited to resources with the cluster's tags, so that they cannot delete anything of
others. Google's roles have no such limit for most of these kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from slicewright.infra.manifests import JsonObject, Need
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan
from slicewright.teardown.sweep.leftovers import karpenter_profiles, marks

_TYPE: Final = "slicewright destroy"
_SOURCE: Final = "docs/how-to/tear-down.md"
_AWS_READ: Final = (
    "ec2:DescribeAddresses",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSnapshots",
    "ec2:DescribeVolumes",
    "eks:DescribeCluster",
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeTags",
    "elasticloadbalancing:DescribeTargetGroups",
    "iam:ListInstanceProfiles",
    "logs:DescribeLogGroups",
)
_AWS_DELETE_BY_TAG: Final = (
    "ec2:DeleteLaunchTemplate",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteSecurityGroup",
    "ec2:DeleteSnapshot",
    "ec2:DeleteVolume",
    "ec2:ReleaseAddress",
    "ec2:TerminateInstances",
    "elasticloadbalancing:DeleteLoadBalancer",
    "elasticloadbalancing:DeleteTargetGroup",
)
"""These actions take the condition aws:ResourceTag. Source: Service Authorization Reference, Amazon
EC2, Elastic Load Balancing, Elastic Load Balancing V2.
"""
_PROFILES: Final[Mapping[str, Literal["read", "delete"]]] = {
    "iam:DeleteInstanceProfile": "delete",
    "iam:GetInstanceProfile": "read",
    "iam:RemoveRoleFromInstanceProfile": "delete",
}
"""These rights are limited to the path of the profiles that Karpenter creates for the cluster."""
_GOOGLE: Final[Mapping[str, Literal["read", "delete"]]] = {
    "compute.addresses.delete": "delete",
    "compute.addresses.list": "read",
    "compute.backendServices.delete": "delete",
    "compute.backendServices.list": "read",
    "compute.disks.delete": "delete",
    "compute.disks.list": "read",
    "compute.firewalls.delete": "delete",
    "compute.firewalls.list": "read",
    "compute.forwardingRules.delete": "delete",
    "compute.forwardingRules.list": "read",
    "compute.globalAddresses.delete": "delete",
    "compute.globalAddresses.list": "read",
    "compute.globalForwardingRules.delete": "delete",
    "compute.globalForwardingRules.list": "read",
    "compute.healthChecks.delete": "delete",
    "compute.healthChecks.list": "read",
    "compute.networkEndpointGroups.delete": "delete",
    "compute.networkEndpointGroups.list": "read",
    "compute.networks.updatePolicy": "delete",
    "compute.regionBackendServices.delete": "delete",
    "compute.regionHealthChecks.delete": "delete",
    "compute.regionSslCertificates.delete": "delete",
    "compute.regionTargetHttpProxies.delete": "delete",
    "compute.regionTargetHttpsProxies.delete": "delete",
    "compute.regionUrlMaps.delete": "delete",
    "compute.snapshots.delete": "delete",
    "compute.snapshots.list": "read",
    "compute.sslCertificates.delete": "delete",
    "compute.sslCertificates.list": "read",
    "compute.targetHttpProxies.delete": "delete",
    "compute.targetHttpProxies.list": "read",
    "compute.targetHttpsProxies.delete": "delete",
    "compute.targetHttpsProxies.list": "read",
    "compute.targetPools.delete": "delete",
    "compute.targetPools.list": "read",
    "compute.urlMaps.delete": "delete",
    "compute.urlMaps.list": "read",
    "container.clusters.get": "read",
    "container.clusters.list": "read",
}
_WHY: Final = {
    "compute.networks.updatePolicy": "deleting a firewall rule changes its network",
    **dict.fromkeys(
        ("compute.globalAddresses.list", "compute.globalForwardingRules.list"),
        "lists of all places have global ones, too",
    ),
    **dict.fromkeys(
        (
            "compute.regionHealthChecks.delete",
            "compute.regionSslCertificates.delete",
            "compute.regionTargetHttpProxies.delete",
            "compute.regionTargetHttpsProxies.delete",
            "compute.regionUrlMaps.delete",
        ),
        "an internal Ingress has a load balancer of its region",
    ),
}
"""Reasons for rights that no call reveals: for a firewall rule (source: Cloud NGFW, "Use VPC
firewall rules"), and for leftovers that the rehearsed GKE does not have.
"""
_ROLE_TITLE_MAX: Final = 100
"""The limit in characters. Source: IAM REST reference, Role."""


def needs(fleet: EksFleetPlan | GkeFleetPlan) -> tuple[Need, ...]:
    if isinstance(fleet, GkeFleetPlan):
        rights = _GOOGLE
    else:
        deletes = (*_AWS_DELETE_BY_TAG, "logs:DeleteLogGroup")
        rights = {
            **dict.fromkeys(_AWS_READ, "read"),
            **dict.fromkeys(deletes, "delete"),
            **_PROFILES,
        }
    return tuple(
        Need(right=right, type=_TYPE, operation=operation, why=_WHY.get(right), source=_SOURCE)
        for right, operation in sorted(rights.items())
    )


def document(fleet: EksFleetPlan | GkeFleetPlan) -> JsonObject:
    """Returns an AWS policy or a Google custom role, in the format of `slicewright rights`."""
    name = fleet.cluster.name
    if isinstance(fleet, GkeFleetPlan):
        return {
            "title": f"slicewright destroy {name}"[:_ROLE_TITLE_MAX],
            "description": f"Rights of slicewright destroy for leftovers of GKE cluster {name}",
            "stage": "GA",
            "includedPermissions": sorted(_GOOGLE),
        }
    profiles = karpenter_profiles(name, fleet.cluster.region)
    group = f"arn:*:logs:{fleet.cluster.region}:*:log-group:/aws/eks/{name}/cluster:*"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(_AWS_READ), "Resource": "*"},
            *(
                {
                    "Effect": "Allow",
                    "Action": list(_AWS_DELETE_BY_TAG),
                    "Resource": "*",
                    "Condition": {"StringEquals": {f"aws:ResourceTag/{key}": value}},
                }
                for key, value in marks(name).items()
            ),
            {"Effect": "Allow", "Action": "logs:DeleteLogGroup", "Resource": group},
            {
                "Effect": "Allow",
                "Action": sorted(_PROFILES),
                "Resource": f"arn:*:iam::*:instance-profile{profiles}*",
            },
        ],
    }

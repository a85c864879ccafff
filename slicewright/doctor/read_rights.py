"""The rights that `slicewright doctor` itself needs for a plan. All of them only read."""

from __future__ import annotations

from typing import Final

from slicewright.doctor.checks.eks.capacity import keys_needed as eks_keys_needed
from slicewright.doctor.checks.eks.capacity import reservations_needed as eks_reservations_needed
from slicewright.doctor.checks.eks.karpenter import queue_needed
from slicewright.doctor.checks.eks.versions import images_needed
from slicewright.doctor.checks.gke.capacity import keys_needed as gke_keys_needed
from slicewright.doctor.checks.gke.capacity import reservations_needed as gke_reservations_needed
from slicewright.doctor.checks.gke.network import gpu_subnets_needed
from slicewright.infra.manifests import JsonObject, Need
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan
from slicewright.infra.stack_file import ExistingNetwork

_SOURCE: Final = "docs/how-to/ask-the-account.md"
_ROLE_TITLE_MAX: Final = 100
"""The limit in characters. Source: IAM REST reference, Role."""


def needs(fleet: EksFleetPlan | GkeFleetPlan) -> tuple[Need, ...]:
    rights = _eks_rights(fleet) if isinstance(fleet, EksFleetPlan) else _gke_rights(fleet)
    return tuple(
        Need(right=right, type="slicewright doctor", operation="read", why=None, source=_SOURCE)
        for right in sorted(rights)
    )


def document(fleet: EksFleetPlan | GkeFleetPlan) -> JsonObject:
    """Returns an AWS policy or a Google custom role, in the format of `slicewright rights`.

    The AWS policy has no limits on resources: few of these actions take any, and none changes one.
    """
    rights = [need.right for need in needs(fleet)]
    if isinstance(fleet, EksFleetPlan):
        allowed = {"Effect": "Allow", "Action": rights, "Resource": "*"}
        return {"Version": "2012-10-17", "Statement": [allowed]}
    return {
        "title": f"slicewright doctor {fleet.cluster.name}"[:_ROLE_TITLE_MAX],
        "description": f"Rights of slicewright doctor to check GKE cluster {fleet.cluster.name}",
        "stage": "GA",
        "includedPermissions": rights,
    }


_EKS_ALWAYS: Final = frozenset(
    {
        "ec2:DescribeAvailabilityZones",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeInstances",
        "ec2:DescribeVpcs",
        "eks:DescribeCluster",
        "eks:DescribeClusterVersions",
        "iam:GetRole",
        "iam:SimulatePrincipalPolicy",
        "servicequotas:GetAWSDefaultServiceQuota",
        "servicequotas:GetServiceQuota",
    }
)


def _eks_rights(fleet: EksFleetPlan) -> set[str]:
    rights = _EKS_ALWAYS | _cluster_rights(fleet)
    if images_needed(fleet):
        rights |= {"ssm:GetParameter"}
    reservations = eks_reservations_needed(fleet)
    if reservations:
        rights |= {"ec2:DescribeCapacityReservations"}
    if any(name.startswith("arn:") for name in reservations):
        rights |= {"resource-groups:ListGroupResources"}
    if eks_keys_needed(fleet):
        rights |= {"kms:DescribeKey"}
    if fleet.cluster.permissions_boundary is not None:
        rights |= {"iam:GetPolicy"}
    if queue_needed(fleet) is not None:
        rights |= {"sqs:GetQueueUrl"}
    return {*rights}


def _cluster_rights(fleet: EksFleetPlan) -> set[str]:
    """The rights for questions about the cluster itself and its network."""
    cluster = fleet.cluster
    if cluster.existing:
        rights = {"eks:DescribeAddon", "eks:ListNodegroups"}
    else:
        rights = {"eks:DescribeAddonVersions"}
    if cluster.existing and cluster.access:
        rights |= {"eks:ListAccessEntries"}
    if cluster.existing and cluster.pod_identities:
        rights |= {"eks:ListPodIdentityAssociations"}
    if cluster.existing or isinstance(cluster.network, ExistingNetwork):
        rights |= {"ec2:DescribeSubnets", "ec2:DescribeVpcAttribute"}
    if cluster.nat_zones:
        rights |= {"ec2:DescribeAddresses", "ec2:DescribeNatGateways", "ec2:DescribeSubnets"}
    return rights


def _gke_rights(fleet: GkeFleetPlan) -> set[str]:
    """Each right is needed in the project that has the resource: networks, reservations and keys
    may belong to another project.
    """
    rights = {
        "compute.machineTypes.get",
        "compute.projects.get",
        "compute.regions.get",
        "container.clusters.get",
        "container.clusters.list",
        "iam.serviceAccounts.get",
        "orgpolicy.policy.get",
        "serviceusage.services.get",
    }
    network = fleet.cluster.network
    if network is not None or gpu_subnets_needed(fleet):
        rights |= {"compute.subnetworks.get"}
    if gke_reservations_needed(fleet, ""):
        rights |= {"compute.reservations.get"}
    if gke_keys_needed(fleet):
        rights |= {"cloudkms.cryptoKeys.get"}
    return rights

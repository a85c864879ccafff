"""The rights that `slicewright doctor` itself needs for a plan. All of them only read."""

from __future__ import annotations

from typing import Final

from infra.plan import EksFleetPlan, GkeFleetPlan
from infra.spec import ExistingNetwork
from infra.values import JsonObject, Need
from slicewright.doctor.eks_capacity_checks import keys_needed as eks_keys_needed
from slicewright.doctor.eks_capacity_checks import reservations_needed as eks_reservations_needed
from slicewright.doctor.eks_karpenter_checks import queue_needed
from slicewright.doctor.eks_version_checks import images_needed
from slicewright.doctor.gke_capacity_checks import keys_needed as gke_keys_needed
from slicewright.doctor.gke_capacity_checks import reservations_needed as gke_reservations_needed
from slicewright.doctor.gke_network_checks import gpu_subnets_needed

_SOURCE: Final = "docs/how-to/ask-the-account.md"
_ROLE_TITLE_MAX: Final = 100
"""The limit in characters. Source: IAM REST reference, Role."""


def needs(fleet: EksFleetPlan | GkeFleetPlan) -> tuple[Need, ...]:
    found = _of_eks(fleet) if isinstance(fleet, EksFleetPlan) else _of_gke(fleet)
    return tuple(
        Need(right=right, type="slicewright doctor", operation="read", why=None, source=_SOURCE)
        for right in sorted(found)
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
        "description": f"What slicewright doctor asks for GKE cluster {fleet.cluster.name}",
        "stage": "GA",
        "includedPermissions": rights,
    }


def _of_eks(fleet: EksFleetPlan) -> set[str]:
    found = {
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
    cluster = fleet.cluster
    found |= (
        {"eks:DescribeAddon", "eks:ListNodegroups"}
        if cluster.existing
        else {"eks:DescribeAddonVersions"}
    )
    if cluster.existing and cluster.access:
        found |= {"eks:ListAccessEntries"}
    if cluster.existing and cluster.pod_identities:
        found |= {"eks:ListPodIdentityAssociations"}
    if cluster.existing or isinstance(cluster.network, ExistingNetwork):
        found |= {"ec2:DescribeSubnets", "ec2:DescribeVpcAttribute"}
    if cluster.nat_zones:
        found |= {"ec2:DescribeAddresses", "ec2:DescribeNatGateways", "ec2:DescribeSubnets"}
    if images_needed(fleet):
        found |= {"ssm:GetParameter"}
    reservations = eks_reservations_needed(fleet)
    if reservations:
        found |= {"ec2:DescribeCapacityReservations"}
    if any(name.startswith("arn:") for name in reservations):
        found |= {"resource-groups:ListGroupResources"}
    if eks_keys_needed(fleet):
        found |= {"kms:DescribeKey"}
    if cluster.permissions_boundary is not None:
        found |= {"iam:GetPolicy"}
    if queue_needed(fleet) is not None:
        found |= {"sqs:GetQueueUrl"}
    return found


def _of_gke(fleet: GkeFleetPlan) -> set[str]:
    """Each right is needed in the project that has the resource: networks, reservations and keys
    may belong to another project.
    """
    found = {
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
        found |= {"compute.subnetworks.get"}
    if gke_reservations_needed(fleet, ""):
        found |= {"compute.reservations.get"}
    if gke_keys_needed(fleet):
        found |= {"cloudkms.cryptoKeys.get"}
    return found

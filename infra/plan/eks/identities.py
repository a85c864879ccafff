"""The IAM roles of pods in an EKS cluster, by EKS Pod Identity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.clusters import AddonIdentity

_AT = ("cluster", "pod_identities")
_MOST = 5000
_GUIDE = "EKS user guide, EKS Pod Identity"

AGENT: Final = "eks-pod-identity-agent"
"""The add-on without which no pod gets the credentials of its role."""


OF_ADDONS: Final[Mapping[str, AddonIdentity]] = {
    # EKS user guide, use Kubernetes volume storage with Amazon EBS; the policy:
    # kubernetes-sigs/aws-ebs-csi-driver #2918. It covers volumes that the driver made.
    "aws-ebs-csi-driver": AddonIdentity(
        role="ebs-csi",
        service_account="ebs-csi-controller-sa",
        policy="AmazonEBSCSIDriverPolicyV2",
    ),
}


@rule("pod-identity")
def identities_of(
    cluster: stack_file.EksCluster, region: AwsRegion | None
) -> Checked[tuple[stack_file.PodIdentity, ...]]:
    """Sorted by namespace and service account. region: None if it is not in the catalog."""
    identities = cluster.pod_identities
    if len(identities) > _MOST:
        yield refuse(
            _AT,
            f"{len(identities)} pod identities are too many: EKS allows {_MOST} associations",
            "let several workloads share a service account",
            _GUIDE,
        )
    of_addons = {
        ("kube-system", OF_ADDONS[name].service_account): name
        for name in cluster.addons
        if name in OF_ADDONS
    }
    if cluster.autoscaler is not None:
        of_addons["kube-system", cluster.autoscaler.mode] = cluster.autoscaler.mode
    first: dict[tuple[str, str], int] = {}
    for i, identity in enumerate(identities):
        account = (identity.namespace, identity.service_account)
        first_index = first.setdefault(account, i)
        addon = of_addons.get(account)
        if first_index != i or addon is not None:
            by = f"pod_identities[{first_index}]" if addon is None else addon
            yield refuse(
                (*_AT, i, "service_account"),
                f"{'/'.join(account)} has a role already, by {by}, and EKS allows one",
                "leave one of them out",
                _GUIDE,
            )
        yield from _check_role(identity.role, identities[0].role, (*_AT, i, "role"), region)
    return tuple(
        sorted(identities, key=lambda identity: (identity.namespace, identity.service_account))
    )


@rule("pod-identity-role")
def _check_role(
    arn: str, first: str, path: stack_file.Path, region: AwsRegion | None
) -> Checked[None]:
    """first: the first role of the file."""
    _, partition, _, _, account, *_ = arn.split(":")
    if region is not None and partition != region.partition:
        yield refuse(
            path,
            f"is of partition {partition}, and {region.name} is in {region.partition}",
            f"write an ARN that starts with arn:{region.partition}:iam:",
            "IAM user guide, IAM ARNs",
        )
    elif account != first.split(":")[4]:
        yield refuse(
            path,
            f"is of account {account}, and the first role of {first.split(':')[4]}: roles of pods "
            "are of the cluster's account",
            "write a role of that account, which may assume the other",
            _GUIDE,
        )

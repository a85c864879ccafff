"""The access entries of an EKS cluster, by the rules of the EKS API."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.access import CLUSTER_ADMIN, AccessEntryPlan, AccessPolicyPlan

_AT = ("cluster", "access", "entries")
_MOST = 3000
_GUIDE = "EKS user guide, create access entries"
_POLICIES = "EKS user guide, associate access policies with access entries"


@rule("eks-access")
def access_of(
    cluster: stack_file.EksCluster, region: AwsRegion | None
) -> Checked[tuple[AccessEntryPlan, ...]]:
    """Sorted by principal. region: None if it is not in the catalog."""
    access = cluster.access
    if cluster.existing and "creator_admin" in access.model_fields_set:
        yield refuse(
            ("cluster", "access", "creator_admin"),
            "the cluster exists already, and slicewright does not change it",
            "leave it out",
            in_key=True,
        )
    if len(access.entries) > _MOST:
        yield refuse(
            _AT,
            f"{len(access.entries)} access entries are too many: EKS allows {_MOST}",
            "grant access to roles that several people assume",
            "EKS service quotas, access entries per cluster",
        )
    first: dict[str, int] = {}
    for i, entry in enumerate(access.entries):
        first_index = first.setdefault(entry.principal, i)
        if first_index != i:
            yield refuse(
                (*_AT, i, "principal"),
                f"{entry.principal} already has an entry, entries[{first_index}]: EKS allows one "
                "per principal",
                "merge the two",
                _GUIDE,
            )
        yield from _check_principal(entry.principal, (*_AT, i, "principal"), region)
        yield from _check_rights(entry, (*_AT, i))
    partition = region.partition if region is not None else "aws"
    entries = tuple(
        _planned(entry, partition) for entry in sorted(access.entries, key=lambda e: e.principal)
    )
    if not access.creator_admin and not cluster.existing:
        yield from _check_somebody_administers(entries)
    return entries


@rule("eks-access-principal")
def _check_principal(arn: str, path: stack_file.Path, region: AwsRegion | None) -> Checked[None]:
    if ":role/aws-service-role/" in arn:
        yield refuse(
            path,
            "is a service-linked role, for which EKS has no access entries",
            "name another role",
            _GUIDE,
        )
    partition = arn.split(":")[1]
    if region is not None and partition != region.partition:
        yield refuse(
            path,
            f"is of partition {partition}, and {region.name} is in {region.partition}",
            f"write an ARN that starts with arn:{region.partition}:iam:",
            "IAM user guide, IAM ARNs",
        )


@rule("eks-access-rights")
def _check_rights(entry: stack_file.AccessEntry, path: stack_file.Path) -> Checked[None]:
    if not entry.policies and not entry.groups:
        yield refuse(
            path,
            "has neither policies nor groups: its principal would have no rights",
            "write policies: [{name: AmazonEKSViewPolicy}], or groups of role bindings",
            _GUIDE,
        )
    named = [policy.name for policy in entry.policies]
    for i, name in enumerate(named):
        if name in named[:i]:
            yield refuse(
                (*path, "policies", i, "name"),
                f"{name} is listed twice: EKS associates a policy with an entry once",
                "join their namespaces",
                _POLICIES,
            )


@rule("eks-access-administrator")
def _check_somebody_administers(entries: Iterable[AccessEntryPlan]) -> Checked[None]:
    if not any(entry.administers for entry in entries):
        yield refuse(
            ("cluster", "access", "creator_admin"),
            "the cluster would have no administrator, not even `pulumi up`, which needs one",
            f"give whoever runs it an entry with {CLUSTER_ADMIN} and without namespaces, or leave "
            "creator_admin out",
            "EKS API, CreateAccessConfigRequest.bootstrapClusterCreatorAdminPermissions",
        )


def _planned(entry: stack_file.AccessEntry, partition: str) -> AccessEntryPlan:
    called = re.sub(r"[^A-Za-z0-9]+", "-", entry.principal.rpartition("/")[2]).strip("-")
    digest = hashlib.sha256(entry.principal.encode()).hexdigest()[:8]
    return AccessEntryPlan(
        name=f"access-{called}-{digest}" if called else f"access-{digest}",
        principal=entry.principal,
        groups=tuple(sorted(set(entry.groups))),
        policies=tuple(
            AccessPolicyPlan(
                name=policy.name,
                arn=f"arn:{partition}:eks::aws:cluster-access-policy/{policy.name}",
                namespaces=tuple(sorted(set(policy.namespaces))),
            )
            for policy in sorted(entry.policies, key=lambda p: p.name)
        ),
    )

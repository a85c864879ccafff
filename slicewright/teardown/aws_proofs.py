"""The marks and proofs that resources of an AWS account belong to this life of a cluster.

Pure. Tags are marks: everybody with the right to tag can set them, and an earlier cluster of that
name, or a self-managed one (kOps, Cluster API), has the same tags. A proof is the VPC that the
stack created, a security group of the cluster, or a name that the cluster's own objects have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from slicewright.teardown.leftovers import Leftover, Resource, made_by_karpenter, marked_by
from slicewright.teardown.life import Life, in_iso, network_proof

Tags = Sequence[Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Balancer:
    leftover: Leftover
    groups: frozenset[str]
    """IDs of its security groups."""


def of_balancer(one: Resource, tags: Tags, cluster: str, life: Life) -> Balancer:
    """one: a load balancer of either generation of Elastic Load Balancing."""
    name = str(one["LoadBalancerName"])
    proof = network_proof(one.get("VpcId") or one.get("VPCId"), life)
    host = str(one.get("DNSName") or "").lower()
    if not proof and not life.balancers.isdisjoint({name, host}):
        proof = f"a Service, Ingress or Gateway of the cluster has the load balancer {name}"
    mark = marked_by(tags, cluster)
    leftover = Leftover(
        kind="load balancer",
        id=str(one.get("LoadBalancerArn") or name),
        mark=mark,
        proof=proof if mark else "",
        created=in_iso(one.get("CreatedTime")),
    )
    return Balancer(leftover=leftover, groups=frozenset(one.get("SecurityGroups") or ()))


def of_target_group(
    one: Resource, tags: Tags, cluster: str, life: Life, balancers: frozenset[str]
) -> Leftover:
    """balancers: ARNs of the proven load balancers.

    Elastic Load Balancing does not tell the creation time of a target group.
    """
    mark = marked_by(tags, cluster)
    users = one.get("LoadBalancerArns") or []
    proof = network_proof(one.get("VpcId"), life)
    if not proof and (used := balancers.intersection(users)):
        proof = f"used by {min(used)}, which is the cluster's"
    return Leftover(
        kind="target group",
        id=one["TargetGroupArn"],
        mark=mark,
        proof=proof if mark else "",
        held=f"used by {users[0]}" if users else "",
    )


def of_group(one: Resource, cluster: str, life: Life, balancers: Iterable[Balancer]) -> Leftover:
    """balancers: the cluster's remaining load balancers.

    EC2 does not tell the creation time of a group.
    """
    mark = marked_by(one.get("Tags") or (), cluster)
    identity, name = one["GroupId"], str(one["GroupName"])
    users = [b.leftover.id for b in balancers if b.leftover.proof and identity in b.groups]
    proof = network_proof(one.get("VpcId"), life)
    if not proof and identity in life.groups:
        proof = f"{identity} was made with this cluster"
    if not proof and users:
        proof = f"of load balancer {users[0]}, which is the cluster's"
    # Source: kubernetes/cloud-provider-aws, pkg/providers/v1/aws.go, EnsureLoadBalancer.
    if not proof and name.removeprefix("k8s-elb-") in life.balancers:
        proof = f"named {name}, for a load balancer of the cluster"
    return Leftover(kind="security group", id=identity, mark=mark, proof=proof if mark else "")


def of_interfaces(
    found: Iterable[Resource], cluster: str, life: Life, groups: frozenset[str]
) -> list[Leftover]:
    """Returns the cluster's network interfaces in EC2. groups: the proven security groups.

    Older releases of the CNI do not tag their interfaces, so the group is the proof. Interfaces of
    load balancers are deleted with them.
    """
    left = []
    for one in found:
        mark = marked_by(one.get("TagSet") or (), cluster)
        inside = sorted({g["GroupId"] for g in one.get("Groups") or ()} & groups)
        proof = network_proof(one.get("VpcId"), life) if mark else ""
        if not proof and inside:
            proof = f"in security group {inside[0]} of the cluster"
        status = one["Status"]
        left.append(
            Leftover(
                kind="network interface",
                id=one["NetworkInterfaceId"],
                mark=mark,
                proof=proof,
                held="" if status == "available" else f"{status}: {one.get('Description', '')}",
            )
        )
    return left


def of_instance(one: Resource, cluster: str, life: Life) -> Leftover:
    """A machine that Karpenter left running when Karpenter ended first."""
    mark = made_by_karpenter(one.get("Tags") or (), cluster)
    inside = sorted({g["GroupId"] for g in one.get("SecurityGroups") or ()} & life.groups)
    proof = network_proof(one.get("VpcId"), life)
    if not proof and inside:
        proof = f"in security group {inside[0]}, made with this cluster"
    return Leftover(
        kind="instance",
        id=one["InstanceId"],
        mark=mark,
        proof=proof if mark else "",
        created=in_iso(one.get("LaunchTime")),
    )


def of_template(
    one: Resource, data: Mapping[str, Any], cluster: str, groups: frozenset[str]
) -> Leftover:
    """data: the data of its newest version. groups: IDs of the security groups of the cluster."""
    mark = made_by_karpenter(one.get("Tags") or (), cluster)
    named = set(data.get("SecurityGroupIds") or ())
    for interface in data.get("NetworkInterfaces") or ():
        named |= set(interface.get("Groups") or ())
    inside = sorted(named & groups)
    proof = f"for machines in security group {inside[0]} of the cluster" if inside else ""
    return Leftover(
        kind="launch template",
        id=one["LaunchTemplateId"],
        mark=mark,
        proof=proof if mark else "",
        created=in_iso(one.get("CreateTime")),
    )


def of_profile(one: Resource, path: str, life: Life) -> Leftover:
    """path: Karpenter's path. The profile of a Karpenter that runs elsewhere contains a role."""
    created = in_iso(one.get("CreateDate"))
    proof = ""
    if life.precedes(created) and not one.get("Roles"):
        proof = "made after the cluster, and without a role since its stack's are deleted"
    return Leftover(
        kind="instance profile",
        id=one["InstanceProfileName"],
        mark=f"Karpenter's path for this cluster, {path}",
        proof=proof,
        created=created,
    )


def of_volume(one: Resource, cluster: str) -> Leftover:
    state = str(one["State"])
    return Leftover(
        kind="disk",
        id=one["VolumeId"],
        mark=marked_by(one.get("Tags") or (), cluster),
        proof="",
        created=in_iso(one.get("CreateTime")),
        held="" if state == "available" else f"{state}: {one['Attachments'][:1]}",
    )


def of_snapshot(one: Resource, cluster: str) -> Leftover:
    """Backups may have the tags of their volume, too, if the backup tool copies tags."""
    return Leftover(
        kind="snapshot",
        id=one["SnapshotId"],
        mark=marked_by(one.get("Tags") or (), cluster),
        proof="",
        created=in_iso(one.get("StartTime")),
    )


def of_address(one: Resource, cluster: str) -> Leftover:
    """EC2 tells neither the creation time nor the VPC of an unused address."""
    return Leftover(
        kind="address",
        id=one["AllocationId"],
        mark=marked_by(one.get("Tags") or (), cluster),
        proof="",
        held=f"in use by {one['AssociationId']}" if one.get("AssociationId") else "",
    )


def of_log_group(one: Resource, life: Life) -> Leftover:
    """EKS reuses the log group of an earlier cluster of that name, so the group can be older."""
    made_ms = one.get("creationTime")
    created = (
        datetime.fromtimestamp(made_ms / 1000, UTC).isoformat() if isinstance(made_ms, int) else ""
    )
    younger = life.precedes(created)
    return Leftover(
        kind="log group",
        id=one["logGroupName"],
        mark="EKS's name for this cluster's log group",
        proof="EKS's name for this cluster's log group, made after the cluster" if younger else "",
        retained=life.audited,
        created=created,
    )

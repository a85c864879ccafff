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

from slicewright.teardown.sweep.leftovers import Leftover, Resource, made_by_karpenter, marked_by
from slicewright.teardown.sweep.life import Life, in_iso, network_proof

Tags = Sequence[Mapping[str, str]]


@dataclass(frozen=True, kw_only=True)
class Balancer:
    leftover: Leftover
    groups: frozenset[str]
    """IDs of its security groups."""


def balancer_leftover(balancer: Resource, tags: Tags, cluster: str, life: Life) -> Balancer:
    """balancer: a load balancer of either generation of Elastic Load Balancing."""
    name = str(balancer["LoadBalancerName"])
    proof = network_proof(balancer.get("VpcId") or balancer.get("VPCId"), life)
    host = str(balancer.get("DNSName") or "").lower()
    if not proof and not life.balancers.isdisjoint({name, host}):
        proof = f"a Service, Ingress or Gateway of the cluster has the load balancer {name}"
    mark = marked_by(tags, cluster)
    leftover = Leftover(
        kind="load balancer",
        id=str(balancer.get("LoadBalancerArn") or name),
        mark=mark,
        proof=proof if mark else "",
        created=in_iso(balancer.get("CreatedTime")),
    )
    return Balancer(leftover=leftover, groups=frozenset(balancer.get("SecurityGroups") or ()))


def target_group_leftover(
    group: Resource, tags: Tags, cluster: str, life: Life, balancers: frozenset[str]
) -> Leftover:
    """balancers: ARNs of the proven load balancers.

    Elastic Load Balancing does not tell the creation time of a target group.
    """
    mark = marked_by(tags, cluster)
    users = group.get("LoadBalancerArns") or []
    proof = network_proof(group.get("VpcId"), life)
    if not proof and (used := balancers.intersection(users)):
        proof = f"used by {min(used)}, which belongs to the cluster"
    return Leftover(
        kind="target group",
        id=group["TargetGroupArn"],
        mark=mark,
        proof=proof if mark else "",
        held=f"used by {users[0]}" if users else "",
    )


def security_group_leftover(
    group: Resource, cluster: str, life: Life, balancers: Iterable[Balancer]
) -> Leftover:
    """balancers: the cluster's remaining load balancers.

    EC2 does not tell the creation time of a group.
    """
    mark = marked_by(group.get("Tags") or (), cluster)
    identity, name = group["GroupId"], str(group["GroupName"])
    users = [b.leftover.id for b in balancers if b.leftover.proof and identity in b.groups]
    proof = network_proof(group.get("VpcId"), life)
    if not proof and identity in life.groups:
        proof = f"{identity} was created with this cluster"
    if not proof and users:
        proof = f"of load balancer {users[0]}, which belongs to the cluster"
    # Source: kubernetes/cloud-provider-aws, pkg/providers/v1/aws.go, EnsureLoadBalancer.
    if not proof and name.removeprefix("k8s-elb-") in life.balancers:
        proof = f"named {name}, for a load balancer of the cluster"
    return Leftover(kind="security group", id=identity, mark=mark, proof=proof if mark else "")


def interface_leftovers(
    interfaces: Iterable[Resource], cluster: str, life: Life, groups: frozenset[str]
) -> list[Leftover]:
    """Returns the cluster's network interfaces in EC2. groups: the proven security groups.

    Older releases of the CNI do not tag their interfaces, so the group is the proof. Interfaces of
    load balancers are deleted with them.
    """
    leftovers = []
    for interface in interfaces:
        mark = marked_by(interface.get("TagSet") or (), cluster)
        inside = sorted({g["GroupId"] for g in interface.get("Groups") or ()} & groups)
        proof = network_proof(interface.get("VpcId"), life) if mark else ""
        if not proof and inside:
            proof = f"in security group {inside[0]} of the cluster"
        status = interface["Status"]
        leftovers.append(
            Leftover(
                kind="network interface",
                id=interface["NetworkInterfaceId"],
                mark=mark,
                proof=proof,
                held=""
                if status == "available"
                else f"{status}: {interface.get('Description', '')}",
            )
        )
    return leftovers


def instance_leftover(instance: Resource, cluster: str, life: Life) -> Leftover:
    """A machine that Karpenter left running when Karpenter ended first."""
    mark = made_by_karpenter(instance.get("Tags") or (), cluster)
    inside = sorted({g["GroupId"] for g in instance.get("SecurityGroups") or ()} & life.groups)
    proof = network_proof(instance.get("VpcId"), life)
    if not proof and inside:
        proof = f"in security group {inside[0]}, created with this cluster"
    return Leftover(
        kind="instance",
        id=instance["InstanceId"],
        mark=mark,
        proof=proof if mark else "",
        created=in_iso(instance.get("LaunchTime")),
    )


def template_leftover(
    template: Resource, data: Mapping[str, Any], cluster: str, groups: frozenset[str]
) -> Leftover:
    """data: the data of its newest version. groups: IDs of the security groups of the cluster."""
    mark = made_by_karpenter(template.get("Tags") or (), cluster)
    named = set(data.get("SecurityGroupIds") or ())
    for interface in data.get("NetworkInterfaces") or ():
        named |= set(interface.get("Groups") or ())
    inside = sorted(named & groups)
    proof = f"for machines in security group {inside[0]} of the cluster" if inside else ""
    return Leftover(
        kind="launch template",
        id=template["LaunchTemplateId"],
        mark=mark,
        proof=proof if mark else "",
        created=in_iso(template.get("CreateTime")),
    )


def profile_leftover(profile: Resource, path: str, life: Life) -> Leftover:
    """path: Karpenter's path. The profile of a Karpenter that runs elsewhere contains a role."""
    created = in_iso(profile.get("CreateDate"))
    proof = ""
    if life.precedes(created) and not profile.get("Roles"):
        proof = "created after the cluster, and without a role, since the stack's roles are deleted"
    return Leftover(
        kind="instance profile",
        id=profile["InstanceProfileName"],
        mark=f"Karpenter's path for this cluster, {path}",
        proof=proof,
        created=created,
    )


def volume_leftover(volume: Resource, cluster: str) -> Leftover:
    state = str(volume["State"])
    return Leftover(
        kind="disk",
        id=volume["VolumeId"],
        mark=marked_by(volume.get("Tags") or (), cluster),
        proof="",
        created=in_iso(volume.get("CreateTime")),
        held="" if state == "available" else f"{state}: {volume['Attachments'][:1]}",
    )


def snapshot_leftover(snapshot: Resource, cluster: str) -> Leftover:
    """Backups may have the tags of their volume, too, if the backup tool copies tags."""
    return Leftover(
        kind="snapshot",
        id=snapshot["SnapshotId"],
        mark=marked_by(snapshot.get("Tags") or (), cluster),
        proof="",
        created=in_iso(snapshot.get("StartTime")),
    )


def address_leftover(address: Resource, cluster: str) -> Leftover:
    """EC2 tells neither the creation time nor the VPC of an unused address."""
    return Leftover(
        kind="address",
        id=address["AllocationId"],
        mark=marked_by(address.get("Tags") or (), cluster),
        proof="",
        held=f"in use by {address['AssociationId']}" if address.get("AssociationId") else "",
    )


def log_group_leftover(group: Resource, life: Life) -> Leftover:
    """EKS reuses the log group of an earlier cluster of that name, so the group can be older."""
    made_ms = group.get("creationTime")
    created = (
        datetime.fromtimestamp(made_ms / 1000, UTC).isoformat() if isinstance(made_ms, int) else ""
    )
    younger = life.precedes(created)
    return Leftover(
        kind="log group",
        id=group["logGroupName"],
        mark="EKS's name for this cluster's log group",
        proof="EKS's name for this cluster's log group, created after the cluster"
        if younger
        else "",
        retained=life.audited,
        created=created,
    )

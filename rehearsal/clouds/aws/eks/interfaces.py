"""Network interfaces that a node group's launch template names: what EC2 refuses of them, and what
keeps nodes with them from joining.

Sources: EC2 user guide, Elastic Fabric Adapter, EFA on instances with multiple network cards, and
assign a public IPv4 address at launch; EKS user guide, using custom security groups. The message
about device indices: eksctl-io/eksctl #7520; how EKS words the others is not known.
"""

from __future__ import annotations

from collections import Counter

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import security_groups
from slicewright.rehearsal.clouds.aws.ec2.route_tables import way_out
from slicewright.rehearsal.clouds.aws.eks.checks import HealthIssue, invalid, refused
from slicewright.rehearsal.clouds.aws.eks.template_data import data_of, types_of
from slicewright.rehearsal.clouds.aws.machines import machines
from slicewright.rehearsal.clouds.aws.state import CLUSTERS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context


def check_interfaces(
    context: Context, region: str, group: JsonObject, template: JsonObject
) -> None:
    """template: the data of the group's launch template. Raises CloudError."""
    interfaces = template.get("NetworkInterfaces") or []
    if not interfaces:
        return
    if template.get("SecurityGroupIds"):
        raise invalid(
            "Network interfaces and an instance-level security groups may not be specified on the "
            "same request"
        )
    group_ids = {g["GroupId"] for g in security_groups(context, region)}
    for identity in (i for interface in interfaces for i in interface.get("Groups") or []):
        if identity not in group_ids:
            raise invalid(f"The security group '{identity}' does not exist")
    for card, device in (places := [_place(interface) for interface in interfaces]):
        if card and device > 1:
            raise refused(
                f"The specified number '{device}' for the device index exceeds the maximum number "
                f"of network interfaces supported by the network card at network card index {card}."
                " The maximum devices for this network card is 2. Specify a number from 0 to 1, "
                "and try again."
            )
    duplicate = next((place for place, times in Counter(places).items() if times > 1), None)
    if duplicate is not None:
        raise invalid(
            "Each network interface requires a unique device index; network card "
            f"{duplicate[0]} has two at {duplicate[1]}"
        )
    primary = [i for i in interfaces if _place(i) == (0, 0)]
    if not primary:
        raise invalid("The associated network interface for device index 0 must be specified")
    if primary[0].get("InterfaceType") == "efa-only":
        raise invalid(
            "You can't use an EFA-only network interface as the primary network interface"
        )
    cards = [_place(i)[0] for i in interfaces if i.get("InterfaceType") in ("efa", "efa-only")]
    for instance_type in types_of(group, template):
        _check_cards(instance_type, cards)


def _check_cards(instance_type: str, cards: list[int]) -> None:
    """cards: those with an EFA."""
    machine = machines()[instance_type]
    if not cards:
        return
    if not machine.efa:
        raise invalid(f"EFA interfaces are not supported on {instance_type}")
    possible = range(machine.efa_first_card, machine.efa_first_card + machine.efa)
    for card, times in Counter(cards).items():
        if card not in possible or times > 1:
            raise invalid(
                f"EFA interface count {times} on network card {card} exceeds the limit for "
                f"{instance_type}"
            )


def why_unreachable(context: Context, item: NodeGroupRecord) -> HealthIssue | None:
    """What EKS reports of nodes that their interfaces keep from joining; None = nothing does."""
    interfaces = data_of(context, item).get("NetworkInterfaces") or []
    cluster = context.store.get(CLUSTERS, f"{item['region']}/{item['cluster']}")
    if not interfaces or cluster is None:
        return None
    cluster_group = cluster["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    (primary,) = (i for i in interfaces if _place(i) == (0, 0))
    groups = primary.get("Groups")
    if groups and cluster_group not in groups:
        return _not_joined(f"the nodes are not in the cluster's security group {cluster_group}")
    for identity in item["nodegroup"]["subnets"]:
        if len(interfaces) > 1 and way_out(context, item["region"], identity) == "internet-gateway":
            return _not_joined(
                f"instances with {len(interfaces)} network interfaces get no public address in "
                f"subnet {identity}"
            )
    return None


def _not_joined(why: str) -> HealthIssue:
    return HealthIssue(
        "NodeCreationFailure", f"Instances failed to join the kubernetes cluster: {why}"
    )


def _place(interface: JsonObject) -> tuple[int, int]:
    """Network card and device index."""
    return interface.get("NetworkCardIndex") or 0, interface.get("DeviceIndex") or 0

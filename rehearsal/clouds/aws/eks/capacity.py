"""How many instances of a node group EC2 launches: quota, and what a zone has in stock."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.fleets import OfGroups
from slicewright.rehearsal.clouds.aws.ec2.instances import vcpus_of_instances
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.eks import reserved_capacity
from slicewright.rehearsal.clouds.aws.eks.checks import HealthIssue
from slicewright.rehearsal.clouds.aws.eks.group_instances import first_type, instances_of_groups
from slicewright.rehearsal.clouds.aws.machines import machines, vcpu_quota
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS, NodeGroupRecord
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.node_group import NoCapacity


def launchable(
    context: Context, item: NodeGroupRecord, types: Sequence[str], requested: Mapping[str, int]
) -> tuple[Mapping[str, int], HealthIssue | None]:
    """As much of `requested` (subnet -> instances) as EC2 gives, and why not all of it.

    Nodes that exist are kept. Where a zone has no more of a type, the group's other types and
    subnets are tried, as an Auto Scaling group does. Messages: klothoplatform/klotho #311 (quota),
    aws/containers-roadmap #2204 (stock), mludvig/aws-ethereum-miner #23 (spot).
    """
    launched: dict[str, int] = dict.fromkeys(requested, 0)
    for node in item["nodes"]:
        if node["location"] in launched:
            launched[node["location"]] += 1
    counts = {subnet: min(launched[subnet], requested[subnet]) for subnet in requested}
    used = {node["index"] for node in item["nodes"]}
    free = (i for i in itertools.count() if i not in used)
    issue: HealthIssue | None = None
    index = next(free)
    planned: list[_Launch] = []
    missing = {subnet: requested[subnet] - counts[subnet] for subnet in sorted(requested)}
    for subnet, number in missing.items():
        order = [subnet, *(s for s in sorted(requested) if s != subnet)]
        for _ in range(number):
            refusals = []
            for launch in (_Launch(s, kind) for s in order for kind in types):
                refusal = _refusal(context, item, launch, index, planned)
                if refusal is None:
                    counts[launch.subnet] += 1
                    planned.append(launch)
                    index = next(free)
                    break
                refusals.append(refusal)
            else:
                issue = refusals[0]
    return counts, issue


class _Launch(NamedTuple):
    """An instance that may be launched: where, and of which type."""

    subnet: str
    kind: str


def _refusal(
    context: Context, item: NodeGroupRecord, launch: _Launch, index: int, planned: Sequence[_Launch]
) -> HealthIssue | None:
    """Why EC2 has not one more instance there, beside those that are planned."""
    new = planned.count(launch)
    free_of_quota = reserved_capacity.targets(
        context, item
    ) or reserved_capacity.fits_open_reservation(context, item, launch.kind, launch.subnet, new)
    limit = None if free_of_quota else _limit(context, item, launch.kind)
    vcpus = sum(machines()[kind].vcpu for _, kind in (*planned, launch))
    if limit is not None and _vcpus_in_use(context, item, launch.kind) + vcpus > limit:
        return _launch_failure(
            item,
            "VcpuLimitExceeded - You have requested more vCPU capacity than your current "
            f"vCPU limit of {limit} allows for the instance bucket that the specified "
            "instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this "
            "limit.",
        )
    if not _has_stock(context, item, launch.kind, launch.subnet, index, new):
        return _no_room(context, item, launch.kind, launch.subnet, new)
    return None


class Chooser:
    """Which of a group's types each new node gets, as far as there is stock."""

    def __init__(self, context: Context, item: NodeGroupRecord, types: Sequence[str]) -> None:
        self._context = context
        self._item = item
        self._types = types
        self._chosen: dict[int, _Launch] = {}

    def machine_of(self, index: int, subnet: str) -> str | None:
        """None in a group of one type. Raises NoCapacity, for the surge of an update too."""
        current = self._context.store.get(NODE_GROUPS, self._item["key"]) or self._item
        recorded = {node["index"] for node in current["nodes"]}
        # Chosen in the same batch, and not on record before all of it is.
        unseen = [launch for i, launch in self._chosen.items() if i not in recorded]
        for kind in self._types:
            launch = _Launch(subnet, kind)
            new = unseen.count(launch) if len(self._types) > 1 else 0
            if _has_stock(self._context, self._item, kind, subnet, index, new):
                self._chosen[index] = launch
                return kind if len(self._types) > 1 else None
        raise NoCapacity(*_no_room(self._context, self._item, self._types[0], subnet, 0))


def _no_room(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str, new: int
) -> HealthIssue:
    """Why there is no instance beside the `new` ones."""
    if reserved_capacity.targets(context, item):
        why = reserved_capacity.missing_capacity(context, item, instance_type, subnet, new)
        if why is not None:
            return _launch_failure(item, why)
    return _out_of_stock(context, item, instance_type, subnet)


def _out_of_stock(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str
) -> HealthIssue:
    if item["nodegroup"]["capacityType"] == "SPOT":
        return _launch_failure(
            item,
            "UnfulfillableCapacity - Unable to fulfill capacity due to your request "
            "configuration. Please adjust your request and try again.",
        )
    zone = (find_subnet(context, item["region"], subnet) or {})["AvailabilityZone"]
    return _launch_failure(
        item,
        f"InsufficientInstanceCapacity - We currently do not have sufficient {instance_type} "
        f"capacity in the Availability Zone you requested ({zone}). Our system will be working on "
        "provisioning additional capacity.",
    )


def _launch_failure(item: NodeGroupRecord, reason: str) -> HealthIssue:
    kind = "Spot" if item["nodegroup"]["capacityType"] == "SPOT" else "On-Demand"
    return HealthIssue(
        "AsgInstanceLaunchFailures",
        f"Could not launch {kind} Instances. {reason} Launching EC2 instance failed.",
    )


def _quota(item: NodeGroupRecord, instance_type: str) -> str | None:
    return vcpu_quota(instance_type, spot=item["nodegroup"]["capacityType"] == "SPOT")


def _limit(context: Context, item: NodeGroupRecord, instance_type: str) -> int | None:
    """vCPU; None: of a family whose quota does not matter here."""
    code = _quota(item, instance_type)
    if code is None:
        return None
    injected = context.faults.quota(code)
    return int(injected) if injected is not None else account_of(context).vcpus.get(code)


def _vcpus_in_use(context: Context, item: NodeGroupRecord, instance_type: str) -> int:
    """By the region's instances of the type's quota."""
    code, region = _quota(item, instance_type), item["region"]
    if code is None:
        return 0
    return _vcpus(context, region, code) + vcpus_of_instances(context, region, code)


def _vcpus(context: Context, region: str, code: str) -> int:
    """Of the node groups' nodes that count against the quota."""
    return sum(
        machines()[kind].vcpu
        for group in context.store.values(NODE_GROUPS, prefix=f"{region}/")
        for kind in _kinds(group)
        if _quota(group, kind) == code
    )


def _kinds(group: NodeGroupRecord) -> list[str]:
    """The type of each of its nodes; none of a group whose launch template has the type."""
    return [
        kind
        for node in group["nodes"]
        for kind in ([node["machine"]] if "machine" in node else first_type(group))
    ]


def _has_stock(
    context: Context,
    item: NodeGroupRecord,
    instance_type: str,
    subnet: str,
    index: int,
    new: int,
) -> bool:
    """Whether the subnet's zone has one more instance beside the `new` ones."""
    subnet_record = find_subnet(context, item["region"], subnet)
    if subnet_record is None:
        return True
    group = item["nodegroup"]
    if not context.faults.has_stock(
        pool=group["nodegroupName"],
        labels=group.get("labels", {}),
        index=index,
        zone=subnet_record["AvailabilityZone"],
    ):
        return False
    if reserved_capacity.targets(context, item):
        return reserved_capacity.missing_capacity(context, item, instance_type, subnet, new) is None
    if reserved_capacity.fits_open_reservation(context, item, instance_type, subnet, new):
        return True
    stock = (
        account_of(context).stock.get(instance_type, {}).get(subnet_record["AvailabilityZoneId"])
    )
    if stock is None:
        return True
    running = _nodes_in_zone(
        context, item["region"], instance_type, subnet_record["AvailabilityZoneId"]
    )
    return running + new < stock


def _nodes_in_zone(context: Context, region: str, instance_type: str, zone: str) -> int:
    """Nodes of node groups of this type. zone: its id."""
    running = 0
    for other in context.store.values(NODE_GROUPS, prefix=f"{region}/"):
        subnets = (
            find_subnet(context, region, node["location"])
            for node in other["nodes"]
            if ([node["machine"]] if "machine" in node else first_type(other)) == [instance_type]
        )
        running += sum(s is not None and s["AvailabilityZoneId"] == zone for s in subnets)
    return running


OF_GROUPS = OfGroups(vcpus=_vcpus, in_zone=_nodes_in_zone, instances=instances_of_groups)

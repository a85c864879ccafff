"""How many instances of a node group EC2 launches: quota, and what a zone has in stock."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from rehearsal.clouds.aws.account import account_of
from rehearsal.clouds.aws.ec2.subnets import find_subnet
from rehearsal.clouds.aws.eks import reserved
from rehearsal.clouds.aws.eks.checks import HealthIssue
from rehearsal.clouds.aws.machines import machines, vcpu_quota
from rehearsal.clouds.aws.state import NODE_GROUPS, NodeGroupRecord
from rehearsal.clouds.core.context import Context
from rehearsal.clouds.core.node_group import NoCapacity


def launchable(
    context: Context, item: NodeGroupRecord, instance_type: str, wanted: Mapping[str, int]
) -> tuple[Mapping[str, int], HealthIssue | None]:
    """As much of `wanted` (subnet -> instances) as EC2 gives, and why not all of it.

    Nodes that exist are kept. Where a zone has no more, the group's other subnets are tried, as an
    Auto Scaling group does. Messages: klothoplatform/klotho #311 (quota), aws/containers-roadmap
    #2204 (stock).
    """
    found: dict[str, int] = dict.fromkeys(wanted, 0)
    for node in item["nodes"]:
        if node["location"] in found:
            found[node["location"]] += 1
    counts = {subnet: min(found[subnet], wanted[subnet]) for subnet in wanted}
    used = {node["index"] for node in item["nodes"]}
    free = (i for i in itertools.count() if i not in used)
    issue: HealthIssue | None = None
    targeted = reserved.targets(context, item)
    index = next(free)
    missing = {subnet: wanted[subnet] - counts[subnet] for subnet in sorted(wanted)}
    for subnet, number in missing.items():
        for _ in range(number):
            new = sum(counts.values()) - sum(min(found[s], wanted[s]) for s in wanted)
            free_of_quota = targeted or reserved.in_open_one(
                context, item, instance_type, subnet, counts[subnet] - found[subnet]
            )
            limit = None if free_of_quota else _limit(context, item, instance_type)
            if limit is not None and _vcpus_in_use(context, item, instance_type, new) > limit:
                issue = _launch_failure(
                    "VcpuLimitExceeded - You have requested more vCPU capacity than your current "
                    f"vCPU limit of {limit} allows for the instance bucket that the specified "
                    "instance type belongs to. Please visit "
                    "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this "
                    "limit."
                )
                continue
            order = [subnet, *(s for s in sorted(wanted) if s != subnet)]
            place = next(
                (
                    s
                    for s in order
                    if _has_stock(context, item, instance_type, s, index, counts[s] - found[s])
                ),
                None,
            )
            if place is None:
                issue = _no_room(context, item, instance_type, subnet, new)
                continue
            counts[place] += 1
            index = next(free)
    return counts, issue


def check_stock(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str, index: int
) -> None:
    """Of one more instance, such as the surge of an update. Raises NoCapacity."""
    if not _has_stock(context, item, instance_type, subnet, index, 0):
        raise NoCapacity(*_no_room(context, item, instance_type, subnet, 0))


def _no_room(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str, new: int
) -> HealthIssue:
    """Why there is no instance beside the `new` ones."""
    if reserved.targets(context, item):
        why = reserved.why_not_there(context, item, instance_type, subnet, new)
        if why is not None:
            return _launch_failure(why)
    return _out_of_stock(context, item, instance_type, subnet)


def _out_of_stock(
    context: Context, item: NodeGroupRecord, instance_type: str, subnet: str
) -> HealthIssue:
    zone = (find_subnet(context, item["region"], subnet) or {})["AvailabilityZone"]
    return _launch_failure(
        f"InsufficientInstanceCapacity - We currently do not have sufficient {instance_type} "
        f"capacity in the Availability Zone you requested ({zone}). Our system will be working on "
        "provisioning additional capacity."
    )


def _launch_failure(reason: str) -> HealthIssue:
    return HealthIssue(
        "AsgInstanceLaunchFailures",
        f"Could not launch On-Demand Instances. {reason} Launching EC2 instance failed.",
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


def _vcpus_in_use(context: Context, item: NodeGroupRecord, instance_type: str, new: int) -> int:
    """By the region's instances of the quota, with `new` + 1 more of this type."""
    code = _quota(item, instance_type)
    total = (new + 1) * machines()[instance_type].vcpu
    for group in context.store.values(NODE_GROUPS, prefix=f"{item['region']}/"):
        for kind in group["nodegroup"]["instanceTypes"][:1]:
            if _quota(group, kind) == code:
                total += len(group["nodes"]) * machines()[kind].vcpu
    return total


def _has_stock(
    context: Context,
    item: NodeGroupRecord,
    instance_type: str,
    subnet: str,
    index: int,
    new: int,
) -> bool:
    """Whether the subnet's zone has one more instance beside the `new` ones."""
    found = find_subnet(context, item["region"], subnet)
    if found is None:
        return True
    group = item["nodegroup"]
    if not context.faults.has_stock(
        pool=group["nodegroupName"],
        labels=group.get("labels", {}),
        index=index,
        zone=found["AvailabilityZone"],
    ):
        return False
    if reserved.targets(context, item):
        return reserved.why_not_there(context, item, instance_type, subnet, new) is None
    if reserved.in_open_one(context, item, instance_type, subnet, new):
        return True
    stock = account_of(context).stock.get(instance_type, {}).get(found["AvailabilityZoneId"])
    if stock is None:
        return True
    running = 0
    for other in context.store.values(NODE_GROUPS, prefix=f"{item['region']}/"):
        if other["nodegroup"]["instanceTypes"][:1] == [instance_type]:
            places = (find_subnet(context, item["region"], n["location"]) for n in other["nodes"])
            running += sum(
                p is not None and p["AvailabilityZoneId"] == found["AvailabilityZoneId"]
                for p in places
            )
    return running + new < stock

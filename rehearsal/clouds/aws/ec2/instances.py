"""EC2 instances that were started by themselves, with their volume and network interface.

The machines of EKS's node groups are simulated as nodes only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from kubeapi import JsonObject
from rehearsal.clouds.aws.ec2.network_interfaces import add_interface, remove_interface, tag_list
from rehearsal.clouds.aws.ec2.resources import filtered, key_of, new_id, shown
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.aws.machines import machines, vcpu_quota
from rehearsal.clouds.aws.state import INSTANCES, VOLUMES
from rehearsal.clouds.core.context import Context, Methods, now

_RUNNING = {"Code": 16, "Name": "running"}
_TERMINATED = {"Code": 48, "Name": "terminated"}
_FILTERS = {
    "instance-state-name": lambda i: [i["State"]["Name"]],
    "vpc-id": lambda i: [i["VpcId"]],
    "subnet-id": lambda i: [i["SubnetId"]],
    "instance-id": lambda i: [i["InstanceId"]],
}


class Instances:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def methods(self) -> Methods:
        return {"DescribeInstances": self._describe, "TerminateInstances": self._terminate}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Each in a reservation of its own."""
        ids = body.get("InstanceIds")
        listed = self._store.values(INSTANCES, prefix=f"{params['region']}/")
        found = [self._found(params, i) for i in ids] if ids else listed
        return {
            "Reservations": [
                {
                    "ReservationId": f"r-{one['InstanceId'].removeprefix('i-')}",
                    "OwnerId": ACCOUNT,
                    "Instances": [shown(one)],
                }
                for one in filtered(found, body.get("Filters", ()), _FILTERS)
            ]
        }

    def _terminate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        changes = []
        with self._store.lock:
            for one in [self._found(params, i) for i in body["InstanceIds"]]:
                changes.append(
                    {
                        "InstanceId": one["InstanceId"],
                        "PreviousState": one["State"],
                        "CurrentState": _TERMINATED,
                    }
                )
                _end(self._context, params, one)
        return {"TerminatingInstances": changes}

    def _found(self, params: JsonObject, identity: str) -> JsonObject:
        found = self._store.get(INSTANCES, key_of(params, identity))
        if found is None:
            raise aws_error(
                "InvalidInstanceID.NotFound", f"The instance ID '{identity}' does not exist"
            )
        return found


def is_running(instance: JsonObject) -> bool:
    return bool(instance["State"]["Name"] == "running")


def running(context: Context, region: str) -> list[JsonObject]:
    listed = context.store.values(INSTANCES, prefix=f"{region}/")
    return [one for one in listed if is_running(one)]


def vcpus_of_instances(context: Context, region: str, code: str) -> int:
    """Of those that count against a quota."""
    return sum(
        machines()[one["InstanceType"]].vcpu
        for one in running(context, region)
        if vcpu_quota(one["InstanceType"], spot=one.get("InstanceLifecycle") == "spot") == code
    )


def start(
    context: Context,
    region: str,
    *,
    instance_type: str,
    subnet: JsonObject,
    data: Mapping[str, Any],
    spot: bool,
    tags: Mapping[str, Mapping[str, str]],
) -> JsonObject:
    """data: of a launch template. tags: by kind of what is made: instance, volume and
    network-interface.
    """
    params, identity = {"region": region}, new_id("i")
    address = _free_address(context, region, subnet)
    groups = [g for i in data.get("NetworkInterfaces", ()) for g in i.get("Groups", ())]
    groups = groups or list(data.get("SecurityGroupIds", ()))
    interface = add_interface(
        context,
        region,
        subnet["SubnetId"],
        group=groups[0] if groups else None,
        description="",
        status="in-use",
        lasts_s=None,
        tags=tags.get("network-interface"),
    )
    volumes = [
        _volume(context, params, subnet, mapping, identity, tags.get("volume", {}))
        for mapping in data.get("BlockDeviceMappings", ())
    ]
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    profile = data.get("IamInstanceProfile", {}).get("Name")
    instance: JsonObject = {
        "InstanceId": identity,
        "ImageId": data.get("ImageId", "ami-0"),
        "InstanceType": instance_type,
        "State": _RUNNING,
        "LaunchTime": now(),
        "Placement": {"AvailabilityZone": subnet["AvailabilityZone"]},
        "PrivateIpAddress": address,
        "PrivateDnsName": f"ip-{address.replace('.', '-')}.{domain}",
        "SubnetId": subnet["SubnetId"],
        "VpcId": subnet["VpcId"],
        "SecurityGroups": [{"GroupId": group} for group in groups],
        "Tags": tag_list(tags.get("instance", {})),
        "_interface": interface,
        "_volumes": volumes,
        **({"InstanceLifecycle": "spot"} if spot else {}),
    }
    if profile:
        arn = f"arn:aws:iam::{ACCOUNT}:instance-profile/{profile}"
        instance["IamInstanceProfile"] = {"Arn": arn}
    return context.store.put(INSTANCES, key_of(params, identity), instance)


def _free_address(context: Context, region: str, subnet: JsonObject) -> str:
    """From the end of the block: nodes of node groups have theirs from its beginning."""
    taken = {one["PrivateIpAddress"] for one in running(context, region)}
    block = ipaddress.IPv4Network(subnet["CidrBlock"])
    for offset in range(block.num_addresses - 2, 9, -1):
        if (address := str(block[offset])) not in taken:
            return address
    raise aws_error(
        "InsufficientFreeAddressesInSubnet",
        f"There are not enough free addresses in subnet '{subnet['SubnetId']}'.",
    )


def _volume(
    context: Context,
    params: JsonObject,
    subnet: JsonObject,
    mapping: Mapping[str, Any],
    instance: str,
    tags: Mapping[str, str],
) -> str:
    identity = new_id("vol")
    ebs = mapping["Ebs"]
    attachment = {
        "InstanceId": instance,
        "VolumeId": identity,
        "Device": mapping["DeviceName"],
        "State": "attached",
        "DeleteOnTermination": ebs.get("DeleteOnTermination", True),
    }
    volume = {
        "VolumeId": identity,
        "State": "in-use",
        "Attachments": [attachment],
        "AvailabilityZone": subnet["AvailabilityZone"],
        "Size": ebs.get("VolumeSize", 20),
        "VolumeType": ebs.get("VolumeType", "gp3"),
        "Encrypted": ebs.get("Encrypted", False),
        "CreateTime": now(),
        "Tags": tag_list(tags),
    }
    context.store.put(VOLUMES, key_of(params, identity), volume)
    return identity


def _end(context: Context, params: JsonObject, instance: JsonObject) -> None:
    """EC2 shows it for an hour yet."""
    if not is_running(instance):
        return
    remove_interface(context, params["region"], instance["_interface"])
    for identity in instance["_volumes"]:
        volume = context.store.get(VOLUMES, key_of(params, identity))
        if volume is None:
            continue
        if volume["Attachments"][0]["DeleteOnTermination"]:
            context.store.delete(VOLUMES, key_of(params, identity))
        else:
            free = {"State": "available", "Attachments": []}
            context.store.put(VOLUMES, key_of(params, identity), volume | free)
    key = key_of(params, instance["InstanceId"])
    context.store.put(INSTANCES, key, instance | {"State": _TERMINATED})

"""EC2 instances: those that were started by themselves, with their volume and network interface,
and as far as they are described those of EKS's node groups and of others in the account.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import (
    add_interface,
    remove_interface,
    tag_list,
)
from slicewright.rehearsal.clouds.aws.ec2.resources import filtered, key_of, new_id, public_fields
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.machines import machines, vcpu_quota
from slicewright.rehearsal.clouds.aws.state import INSTANCES, VOLUMES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now

RUNNING = {"Code": 16, "Name": "running"}
_TERMINATED = {"Code": 48, "Name": "terminated"}
_FILTERS = {
    "instance-state-name": lambda i: [i["State"]["Name"]],
    "vpc-id": lambda i: [i["VpcId"]],
    "subnet-id": lambda i: [i["SubnetId"]],
    "instance-id": lambda i: [i["InstanceId"]],
}


OfGroups = Callable[[Context, str], list[JsonObject]]
"""The instances of node groups in a region, which EKS's part knows."""


class Instances:
    def __init__(self, context: Context, of_groups: OfGroups) -> None:
        self._context = context
        self._store = context.store
        self._of_groups = of_groups

    def methods(self) -> Methods:
        return {"DescribeInstances": self._describe, "TerminateInstances": self._terminate}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Each in a reservation of its own."""
        ids, region = body.get("InstanceIds"), params["region"]
        listed = [
            *self._store.values(INSTANCES, prefix=f"{region}/"),
            *self._of_groups(self._context, region),
            *_other_instances(self._context, region),
        ]
        chosen = [self._find(params, i) for i in ids] if ids else listed
        return {
            "Reservations": [
                {
                    "ReservationId": f"r-{instance['InstanceId'].removeprefix('i-')}",
                    "OwnerId": ACCOUNT,
                    "Instances": [public_fields(instance)],
                }
                for instance in filtered(chosen, body.get("Filters", ()), _FILTERS)
            ]
        }

    def _terminate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        changes = []
        with self._store.lock:
            for instance in [self._find(params, i) for i in body["InstanceIds"]]:
                changes.append(
                    {
                        "InstanceId": instance["InstanceId"],
                        "PreviousState": instance["State"],
                        "CurrentState": _TERMINATED,
                    }
                )
                _end(self._context, params, instance)
        return {"TerminatingInstances": changes}

    def _find(self, params: JsonObject, identity: str) -> JsonObject:
        instance = self._store.get(INSTANCES, key_of(params, identity))
        if instance is None:
            raise aws_error(
                "InvalidInstanceID.NotFound", f"The instance ID '{identity}' does not exist"
            )
        return instance


def is_running(instance: JsonObject) -> bool:
    return bool(instance["State"]["Name"] == "running")


def running(context: Context, region: str) -> list[JsonObject]:
    listed = context.store.values(INSTANCES, prefix=f"{region}/")
    return [instance for instance in listed if is_running(instance)]


def vcpus_of_instances(context: Context, region: str, code: str) -> int:
    """Of those that count against a quota, without node groups'."""
    return sum(
        machines()[instance["InstanceType"]].vcpu
        for instance in (*running(context, region), *_other_instances(context, region))
        if vcpu_quota(instance["InstanceType"], spot=instance.get("InstanceLifecycle") == "spot")
        == code
    )


def cpu_options(kind: str) -> JsonObject:
    """Of an instance type; vCPU are cores times threads."""
    machine = machines()[kind]
    threads = 2 if machine.architecture == "amd64" and machine.vcpu % 2 == 0 else 1
    return {"CoreCount": machine.vcpu // threads, "ThreadsPerCore": threads}


def _other_instances(context: Context, region: str) -> list[JsonObject]:
    """Those that run in the account for somebody else, by the account file."""
    return [
        {
            "InstanceId": f"i-0{hashlib.sha256(f'{region}/{kind}/{n}'.encode()).hexdigest()[:16]}",
            "InstanceType": kind,
            "CpuOptions": cpu_options(kind),
            "State": RUNNING,
            "LaunchTime": now(),
            "Placement": {"AvailabilityZone": f"{region}a"},
            "SubnetId": "",
            "VpcId": "",
            "Tags": [],
        }
        for kind, count in account_of(context).running.items()
        for n in range(count)
    ]


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
        "CpuOptions": cpu_options(instance_type),
        "State": RUNNING,
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
    used_addresses = {instance["PrivateIpAddress"] for instance in running(context, region)}
    block = ipaddress.IPv4Network(subnet["CidrBlock"])
    for offset in range(block.num_addresses - 2, 9, -1):
        if (address := str(block[offset])) not in used_addresses:
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

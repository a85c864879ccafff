"""Deletes a cluster's leftovers in an AWS account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.doctor.ask.aws.session import AwsSession
from slicewright.teardown.sweep.leftovers import Leftover

_CALLS: Final[Mapping[str, tuple[str, str, str]]] = {
    "launch template": ("ec2", "delete_launch_template", "LaunchTemplateId"),
    "target group": ("elbv2", "delete_target_group", "TargetGroupArn"),
    "network interface": ("ec2", "delete_network_interface", "NetworkInterfaceId"),
    "security group": ("ec2", "delete_security_group", "GroupId"),
    "disk": ("ec2", "delete_volume", "VolumeId"),
    "snapshot": ("ec2", "delete_snapshot", "SnapshotId"),
    "address": ("ec2", "release_address", "AllocationId"),
    "log group": ("logs", "delete_log_group", "logGroupName"),
}
"""Kind of leftover -> service, method of botocore's client, and the parameter that takes the ID."""


def delete(session: AwsSession, leftover: Leftover) -> None:
    """Raises botocore's errors, and ValueError for a kind that AWS does not have."""
    match leftover.kind:
        case "instance":
            session.client("ec2").terminate_instances(InstanceIds=[leftover.id])
        case "instance profile":
            _delete_profile(session, leftover.id)
        case "load balancer" if leftover.id.startswith("arn:"):
            session.client("elbv2").delete_load_balancer(LoadBalancerArn=leftover.id)
        case "load balancer":
            session.client("elb").delete_load_balancer(LoadBalancerName=leftover.id)
        case kind if kind in _CALLS:
            service, method, parameter = _CALLS[kind]
            getattr(session.client(service), method)(**{parameter: leftover.id})
        case kind:
            raise ValueError(f"AWS has no {kind}")


def _delete_profile(session: AwsSession, name: str) -> None:
    """Deletes the profile after its roles: IAM refuses to delete a profile with roles."""
    iam = session.client("iam", session.home)
    profile = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
    for role in profile["Roles"]:
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role["RoleName"])
    iam.delete_instance_profile(InstanceProfileName=name)

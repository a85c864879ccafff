"""An AWS account: everything that EKS, Kubernetes and its drivers left there of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from slicewright.doctor.aws_session import LOGIN, AwsSession, code_of, is_refusal, said
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered
from slicewright.teardown.account import Found, Held, Outcome, Refused
from slicewright.teardown.aws_proofs import (
    Balancer,
    of_address,
    of_balancer,
    of_group,
    of_instance,
    of_interfaces,
    of_log_group,
    of_profile,
    of_snapshot,
    of_target_group,
    of_template,
    of_volume,
)
from slicewright.teardown.leftovers import (
    KARPENTER_POOL,
    Leftover,
    karpenter_profiles,
    made_by_karpenter,
    marks,
)
from slicewright.teardown.life import Life, in_iso

_T = TypeVar("_T")
_TAGS_OF: Final = 20
"""The limit of load balancers or target groups in one DescribeTags. Source: Elastic Load
Balancing's API references.
"""
_EXPIRED: Final = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "UnrecognizedClientException",
    }
)
_ALIVE: Final = ("pending", "running", "stopping", "stopped")
"""States of instances that have not ended and are not about to."""
_GONE: Final = frozenset(
    {
        "InvalidAllocationID.NotFound",
        "InvalidGroup.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidNetworkInterfaceID.NotFound",
        "InvalidSnapshot.NotFound",
        "InvalidVolume.NotFound",
        "LoadBalancerNotFound",
        "NoSuchEntity",
        "ResourceNotFoundException",
        "TargetGroupNotFound",
    }
)


class AwsAccount:
    """One region of the account, asked about one cluster. Raises CannotAsk."""

    def __init__(self, cluster: str, region: str, profile: str | None) -> None:
        self._cluster = cluster
        self._region = region
        self._session = AwsSession(region, profile)

    def cluster_is_there(self) -> Answer[bool]:
        def read() -> bool:
            try:
                self._session.client("eks").describe_cluster(name=self._cluster)
            except self._session.errors.ClientError as e:
                if code_of(e) == "ResourceNotFoundException":
                    return False
                raise
            return True

        return self._ask("eks:DescribeCluster", read)

    def life(self) -> Answer[Life]:
        """Returns an empty life if there is no such cluster."""

        def read() -> Life:
            try:
                cluster = self._session.client("eks").describe_cluster(name=self._cluster)
            except self._session.errors.ClientError as e:
                if code_of(e) == "ResourceNotFoundException":
                    return Life()
                raise
            return _life_of(cluster["cluster"])

        return self._ask("eks:DescribeCluster", read)

    def look(self, life: Life) -> Found:
        balancers = [
            self._ask("elasticloadbalancing:DescribeLoadBalancers", lambda: self._classic(life)),
            self._ask("elasticloadbalancing:DescribeLoadBalancers", lambda: self._balancers(life)),
        ]
        there = [b for a in balancers if not isinstance(a, NotAnswered) for b in a]
        proven = frozenset(b.leftover.id for b in there if b.leftover.proof)
        groups = self._ask("ec2:DescribeSecurityGroups", lambda: self._groups(life, there))
        own = life.groups | frozenset(
            g.id for g in ([] if isinstance(groups, NotAnswered) else groups) if g.proof
        )
        answers: list[Answer[list[Leftover]]] = [
            self._ask("ec2:DescribeInstances", lambda: self._instances(life)),
            self._ask("ec2:DescribeLaunchTemplates", lambda: self._templates(own)),
            self._ask("iam:ListInstanceProfiles", lambda: self._profiles(life)),
            groups,
            self._ask("ec2:DescribeNetworkInterfaces", lambda: self._interfaces(life, own)),
            self._ask("ec2:DescribeVolumes", self._volumes),
            self._ask("ec2:DescribeSnapshots", self._snapshots),
            self._ask("ec2:DescribeAddresses", self._addresses),
            self._ask(
                "elasticloadbalancing:DescribeTargetGroups",
                lambda: self._target_groups(life, proven),
            ),
            self._ask("logs:DescribeLogGroups", lambda: self._log_groups(life)),
        ]
        left = [b.leftover for b in there if b.leftover.mark]
        left += [one for a in answers if not isinstance(a, NotAnswered) for one in a]
        return Found(
            left=[life.judged(one) for one in left],
            not_asked=[a for a in (*balancers, *answers) if isinstance(a, NotAnswered)],
        )

    def delete(self, leftover: Leftover) -> Outcome:
        ec2 = self._session.client("ec2")
        match leftover.kind:
            case "instance":
                return self._try(lambda: ec2.terminate_instances(InstanceIds=[leftover.id]))
            case "launch template":
                return self._try(lambda: ec2.delete_launch_template(LaunchTemplateId=leftover.id))
            case "instance profile":
                return self._try(lambda: self._delete_profile(leftover.id))
            case "load balancer" if leftover.id.startswith("arn:"):
                balancers = self._session.client("elbv2")
                return self._try(
                    lambda: balancers.delete_load_balancer(LoadBalancerArn=leftover.id)
                )
            case "load balancer":
                classic = self._session.client("elb")
                return self._try(lambda: classic.delete_load_balancer(LoadBalancerName=leftover.id))
            case "target group":
                balancers = self._session.client("elbv2")
                return self._try(lambda: balancers.delete_target_group(TargetGroupArn=leftover.id))
            case "network interface":
                return self._try(
                    lambda: ec2.delete_network_interface(NetworkInterfaceId=leftover.id)
                )
            case "security group":
                return self._try(lambda: ec2.delete_security_group(GroupId=leftover.id))
            case "disk":
                return self._try(lambda: ec2.delete_volume(VolumeId=leftover.id))
            case "snapshot":
                return self._try(lambda: ec2.delete_snapshot(SnapshotId=leftover.id))
            case "address":
                return self._try(lambda: ec2.release_address(AllocationId=leftover.id))
            case "log group":
                logs = self._session.client("logs")
                return self._try(lambda: logs.delete_log_group(logGroupName=leftover.id))
            case kind:
                raise ValueError(f"AWS has no {kind}")

    def _instances(self, life: Life) -> list[Leftover]:
        filters = [
            {"Name": "tag-key", "Values": [KARPENTER_POOL]},
            {"Name": "instance-state-name", "Values": list(_ALIVE)},
        ]
        return _marked(
            of_instance(one, self._cluster, life)
            for page in self._pages("ec2", "describe_instances", Filters=filters)
            for reservation in page["Reservations"]
            for one in reservation["Instances"]
        )

    def _templates(self, groups: frozenset[str]) -> list[Leftover]:
        ec2 = self._session.client("ec2")
        filters = [{"Name": "tag-key", "Values": [KARPENTER_POOL]}]
        left = []
        for page in self._pages("ec2", "describe_launch_templates", Filters=filters):
            for one in page["LaunchTemplates"]:
                if not made_by_karpenter(one.get("Tags") or (), self._cluster):
                    continue
                shown = ec2.describe_launch_template_versions(
                    LaunchTemplateId=one["LaunchTemplateId"], Versions=["$Latest"]
                )["LaunchTemplateVersions"]
                data = shown[0]["LaunchTemplateData"] if shown else {}
                left.append(of_template(one, data, self._cluster, groups))
        return left

    def _profiles(self, life: Life) -> list[Leftover]:
        path = karpenter_profiles(self._cluster, self._region)
        iam = self._session.client("iam", self._session.home)
        return [
            of_profile(one, path, life)
            for page in iam.get_paginator("list_instance_profiles").paginate(PathPrefix=path)
            for one in page["InstanceProfiles"]
        ]

    def _delete_profile(self, name: str) -> None:
        """Deletes the profile after its roles: IAM refuses to delete a profile with roles."""
        iam = self._session.client("iam", self._session.home)
        found = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
        for role in found["Roles"]:
            iam.remove_role_from_instance_profile(
                InstanceProfileName=name, RoleName=role["RoleName"]
            )
        iam.delete_instance_profile(InstanceProfileName=name)

    def _groups(self, life: Life, balancers: Sequence[Balancer]) -> list[Leftover]:
        listed = self._of("describe_security_groups", "SecurityGroups", "GroupId", life.networks)
        return [
            of_group(one, self._cluster, life, balancers)
            for one in listed
            # A VPC's default group is deleted with the VPC and cannot be deleted before.
            if one["GroupName"] != "default"
        ]

    def _interfaces(self, life: Life, groups: frozenset[str]) -> list[Leftover]:
        found = {
            one["NetworkInterfaceId"]: one
            for one in self._of(
                "describe_network_interfaces",
                "NetworkInterfaces",
                "NetworkInterfaceId",
                life.networks,
            )
        }
        if groups:
            by_group = [{"Name": "group-id", "Values": sorted(groups)}]
            pages = self._pages("ec2", "describe_network_interfaces", Filters=by_group)
            for page in pages:
                found |= {one["NetworkInterfaceId"]: one for one in page["NetworkInterfaces"]}
        return of_interfaces(found.values(), self._cluster, life, groups)

    def _of(
        self, operation: str, listed: str, identity: str, networks: frozenset[str]
    ) -> list[dict[str, Any]]:
        """The resources that have one of the cluster's tags, or are in the stack's networks."""
        filters = [
            {"Name": f"tag:{key}", "Values": [value]} for key, value in marks(self._cluster).items()
        ]
        if networks:
            filters.append({"Name": "vpc-id", "Values": sorted(networks)})
        found = {
            one[identity]: one
            for by in filters
            for page in self._pages("ec2", operation, Filters=[by])
            for one in page[listed]
        }
        return list(found.values())

    def _volumes(self) -> list[Leftover]:
        return _marked(
            of_volume(one, self._cluster)
            for one in self._of("describe_volumes", "Volumes", "VolumeId", frozenset())
            if not _goes_with_its_instance(one)
        )

    def _snapshots(self) -> list[Leftover]:
        found = {
            one["SnapshotId"]: one
            for key, value in marks(self._cluster).items()
            for page in self._pages(
                "ec2",
                "describe_snapshots",
                OwnerIds=["self"],
                Filters=[{"Name": f"tag:{key}", "Values": [value]}],
            )
            for one in page["Snapshots"]
        }
        return _marked(of_snapshot(one, self._cluster) for one in found.values())

    def _addresses(self) -> list[Leftover]:
        """Elastic IP addresses that people created for the cluster's load balancers, for
        example.
        """
        listed = self._session.client("ec2").describe_addresses()["Addresses"]
        return _marked(of_address(one, self._cluster) for one in listed if "AllocationId" in one)

    def _classic(self, life: Life) -> list[Balancer]:
        elb = self._session.client("elb")
        pages = self._pages("elb", "describe_load_balancers")
        known = {b["LoadBalancerName"]: b for p in pages for b in p["LoadBalancerDescriptions"]}
        tags = _in_parts(
            [*known],
            lambda some: [
                (d["LoadBalancerName"], d["Tags"])
                for d in elb.describe_tags(LoadBalancerNames=some)["TagDescriptions"]
            ],
        )
        return [of_balancer(known[name], tags[name], self._cluster, life) for name in tags]

    def _balancers(self, life: Life) -> list[Balancer]:
        pages = self._pages("elbv2", "describe_load_balancers")
        known = {b["LoadBalancerArn"]: b for page in pages for b in page["LoadBalancers"]}
        tags = _in_parts([*known], self._tags)
        return [of_balancer(known[arn], tags[arn], self._cluster, life) for arn in tags]

    def _target_groups(self, life: Life, balancers: frozenset[str]) -> list[Leftover]:
        """Target groups outlive their load balancer and hold no data. An account may have 3000 of
        them.

        Source: Elastic Load Balancing, "Quotas for your Network Load Balancers".
        """
        pages = self._pages("elbv2", "describe_target_groups")
        known = {g["TargetGroupArn"]: g for page in pages for g in page["TargetGroups"]}
        tags = _in_parts([*known], self._tags)
        return _marked(
            of_target_group(known[arn], tags[arn], self._cluster, life, balancers) for arn in tags
        )

    def _tags(self, arns: list[str]) -> list[tuple[str, list[dict[str, str]]]]:
        elbv2 = self._session.client("elbv2")
        return [
            (d["ResourceArn"], d["Tags"])
            for d in elbv2.describe_tags(ResourceArns=arns)["TagDescriptions"]
        ]

    def _log_groups(self, life: Life) -> list[Leftover]:
        """The group's name is the cluster's alone. Source: EKS user guide, "Send control plane
        logs".
        """
        name = f"/aws/eks/{self._cluster}/cluster"
        pages = self._pages("logs", "describe_log_groups", logGroupNamePrefix=name)
        return [
            of_log_group(one, life)
            for page in pages
            for one in page["logGroups"]
            if one["logGroupName"] == name
        ]

    def _pages(self, service: str, operation: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        pages: Iterator[dict[str, Any]] = iter(
            self._session.client(service).get_paginator(operation).paginate(**parameters)
        )
        return pages

    def _ask(self, right: str, read: Callable[[], _T]) -> Answer[_T]:
        def guarded() -> _T:
            try:
                return read()
            except self._session.errors.ClientError as e:
                self._raise_if_expired(e)
                raise

        return self._session.answer(right, guarded)

    def _try(self, delete: Callable[[], Any]) -> Outcome:
        try:
            delete()
        except self._session.errors.ClientError as e:
            self._raise_if_expired(e)
            if code_of(e) in _GONE:
                return None
            return Refused(why=said(e)) if is_refusal(e) else Held(why=said(e))
        except self._session.errors.BotoCoreError as e:
            return Held(why=str(e))
        return None

    def _raise_if_expired(self, error: Any) -> None:
        if code_of(error) in _EXPIRED:
            raise CannotAsk(f"AWS refuses the credentials ({said(error)}); {LOGIN}")


def _life_of(cluster: Mapping[str, Any]) -> Life:
    """cluster: EKS's description."""
    logging = (cluster.get("logging") or {}).get("clusterLogging") or ()
    group = (cluster.get("resourcesVpcConfig") or {}).get("clusterSecurityGroupId")
    return Life(
        begun=in_iso(cluster.get("createdAt")),
        groups=frozenset([group] if group else []),
        audited=any("audit" in (o.get("types") or ()) for o in logging if o.get("enabled")),
    )


def _marked(found: Iterable[Leftover]) -> list[Leftover]:
    return [one for one in found if one.mark]


def _in_parts(
    found: Sequence[str],
    tags: Callable[[list[str]], list[tuple[str, list[dict[str, str]]]]],
) -> dict[str, list[dict[str, str]]]:
    """Returns the tags of each, asked for in batches as large as the API allows."""
    return {
        identity: tagged
        for at in range(0, len(found), _TAGS_OF)
        for identity, tagged in tags(list(found[at : at + _TAGS_OF]))
    }


def _goes_with_its_instance(volume: Mapping[str, Any]) -> bool:
    attached = volume.get("Attachments") or ()
    return bool(attached) and all(one.get("DeleteOnTermination") for one in attached)

"""An AWS account: everything that EKS, Kubernetes and its drivers left there of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from slicewright.doctor.ask.aws.session import LOGIN, AwsSession, code_of, error_text, is_refusal
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered
from slicewright.teardown.sweep.account import DeletionPostponed, DeletionRefused, Listing, Outcome
from slicewright.teardown.sweep.aws_balancers import balancers, classic_balancers, target_groups
from slicewright.teardown.sweep.aws_deletion import delete
from slicewright.teardown.sweep.aws_proofs import (
    Balancer,
    address_leftover,
    instance_leftover,
    interface_leftovers,
    log_group_leftover,
    profile_leftover,
    security_group_leftover,
    snapshot_leftover,
    template_leftover,
    volume_leftover,
)
from slicewright.teardown.sweep.leftovers import (
    KARPENTER_POOL,
    Leftover,
    karpenter_profiles,
    made_by_karpenter,
    marks,
)
from slicewright.teardown.sweep.life import Life, in_iso

_T = TypeVar("_T")
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

    def cluster_exists(self) -> Answer[bool]:
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

    def look(self, life: Life) -> Listing:
        balancer_answers = [
            self._ask(
                "elasticloadbalancing:DescribeLoadBalancers",
                partial(list_balancers, self._session, self._cluster, life),
            )
            for list_balancers in (classic_balancers, balancers)
        ]
        listed_balancers = [
            b for a in balancer_answers if not isinstance(a, NotAnswered) for b in a
        ]
        proven = frozenset(b.leftover.id for b in listed_balancers if b.leftover.proof)
        groups = self._ask(
            "ec2:DescribeSecurityGroups", lambda: self._groups(life, listed_balancers)
        )
        cluster_groups = life.groups | frozenset(
            g.id for g in ([] if isinstance(groups, NotAnswered) else groups) if g.proof
        )
        answers: list[Answer[list[Leftover]]] = [
            *self._karpenter_leftovers(life, cluster_groups),
            groups,
            self._ask(
                "ec2:DescribeNetworkInterfaces", lambda: self._interfaces(life, cluster_groups)
            ),
            self._ask("ec2:DescribeVolumes", self._volumes),
            self._ask("ec2:DescribeSnapshots", self._snapshots),
            self._ask("ec2:DescribeAddresses", self._addresses),
            self._ask(
                "elasticloadbalancing:DescribeTargetGroups",
                lambda: target_groups(self._session, self._cluster, life, proven),
            ),
            self._ask("logs:DescribeLogGroups", lambda: self._log_groups(life)),
        ]
        leftovers = [b.leftover for b in listed_balancers if b.leftover.mark]
        leftovers += [leftover for a in answers if not isinstance(a, NotAnswered) for leftover in a]
        return Listing(
            leftovers=[life.judged(leftover) for leftover in leftovers],
            not_asked=[a for a in (*balancer_answers, *answers) if isinstance(a, NotAnswered)],
        )

    def delete(self, leftover: Leftover) -> Outcome:
        try:
            delete(self._session, leftover)
        except self._session.errors.ClientError as e:
            self._raise_if_expired(e)
            if code_of(e) in _GONE:
                return None
            reason = error_text(e)
            return DeletionRefused(why=reason) if is_refusal(e) else DeletionPostponed(why=reason)
        except self._session.errors.BotoCoreError as e:
            return DeletionPostponed(why=str(e))
        return None

    def _karpenter_leftovers(
        self, life: Life, cluster_groups: frozenset[str]
    ) -> list[Answer[list[Leftover]]]:
        return [
            self._ask("ec2:DescribeInstances", lambda: self._instances(life)),
            self._ask("ec2:DescribeLaunchTemplates", lambda: self._templates(cluster_groups)),
            self._ask("iam:ListInstanceProfiles", lambda: self._profiles(life)),
        ]

    def _instances(self, life: Life) -> list[Leftover]:
        filters = [
            {"Name": "tag-key", "Values": [KARPENTER_POOL]},
            {"Name": "instance-state-name", "Values": list(_ALIVE)},
        ]
        return _marked(
            instance_leftover(instance, self._cluster, life)
            for page in self._pages("ec2", "describe_instances", Filters=filters)
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        )

    def _templates(self, groups: frozenset[str]) -> list[Leftover]:
        ec2 = self._session.client("ec2")
        filters = [{"Name": "tag-key", "Values": [KARPENTER_POOL]}]
        leftovers = []
        for page in self._pages("ec2", "describe_launch_templates", Filters=filters):
            for template in page["LaunchTemplates"]:
                if not made_by_karpenter(template.get("Tags") or (), self._cluster):
                    continue
                versions = ec2.describe_launch_template_versions(
                    LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
                )["LaunchTemplateVersions"]
                data = versions[0]["LaunchTemplateData"] if versions else {}
                leftovers.append(template_leftover(template, data, self._cluster, groups))
        return leftovers

    def _profiles(self, life: Life) -> list[Leftover]:
        path = karpenter_profiles(self._cluster, self._region)
        iam = self._session.client("iam", self._session.home)
        return [
            profile_leftover(profile, path, life)
            for page in iam.get_paginator("list_instance_profiles").paginate(PathPrefix=path)
            for profile in page["InstanceProfiles"]
        ]

    def _groups(self, life: Life, balancers: Sequence[Balancer]) -> list[Leftover]:
        listed = self._list_described(
            "describe_security_groups", "SecurityGroups", "GroupId", life.networks
        )
        return [
            security_group_leftover(group, self._cluster, life, balancers)
            for group in listed
            # A VPC's default group is deleted with the VPC and cannot be deleted before.
            if group["GroupName"] != "default"
        ]

    def _interfaces(self, life: Life, groups: frozenset[str]) -> list[Leftover]:
        interfaces = {
            interface["NetworkInterfaceId"]: interface
            for interface in self._list_described(
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
                interfaces |= {
                    interface["NetworkInterfaceId"]: interface
                    for interface in page["NetworkInterfaces"]
                }
        return interface_leftovers(interfaces.values(), self._cluster, life, groups)

    def _list_described(
        self, operation: str, listed: str, identity: str, networks: frozenset[str]
    ) -> list[dict[str, Any]]:
        """The resources that have one of the cluster's tags, or are in the stack's networks."""
        filters = [
            {"Name": f"tag:{key}", "Values": [value]} for key, value in marks(self._cluster).items()
        ]
        if networks:
            filters.append({"Name": "vpc-id", "Values": sorted(networks)})
        resources = {
            resource[identity]: resource
            for by in filters
            for page in self._pages("ec2", operation, Filters=[by])
            for resource in page[listed]
        }
        return list(resources.values())

    def _volumes(self) -> list[Leftover]:
        return _marked(
            volume_leftover(volume, self._cluster)
            for volume in self._list_described(
                "describe_volumes", "Volumes", "VolumeId", frozenset()
            )
            if not _goes_with_its_instance(volume)
        )

    def _snapshots(self) -> list[Leftover]:
        snapshots = {
            snapshot["SnapshotId"]: snapshot
            for key, value in marks(self._cluster).items()
            for page in self._pages(
                "ec2",
                "describe_snapshots",
                OwnerIds=["self"],
                Filters=[{"Name": f"tag:{key}", "Values": [value]}],
            )
            for snapshot in page["Snapshots"]
        }
        return _marked(
            snapshot_leftover(snapshot, self._cluster) for snapshot in snapshots.values()
        )

    def _addresses(self) -> list[Leftover]:
        """Elastic IP addresses that people created for the cluster's load balancers, for
        example.
        """
        listed = self._session.client("ec2").describe_addresses()["Addresses"]
        return _marked(
            address_leftover(address, self._cluster)
            for address in listed
            if "AllocationId" in address
        )

    def _log_groups(self, life: Life) -> list[Leftover]:
        """The group's name is the cluster's alone. Source: EKS user guide, "Send control plane
        logs".
        """
        name = f"/aws/eks/{self._cluster}/cluster"
        pages = self._pages("logs", "describe_log_groups", logGroupNamePrefix=name)
        return [
            log_group_leftover(group, life)
            for page in pages
            for group in page["logGroups"]
            if group["logGroupName"] == name
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

    def _raise_if_expired(self, error: Any) -> None:
        if code_of(error) in _EXPIRED:
            raise CannotAsk(f"AWS refuses the credentials ({error_text(error)}); {LOGIN}")


def _life_of(cluster: Mapping[str, Any]) -> Life:
    """cluster: EKS's description."""
    logging = (cluster.get("logging") or {}).get("clusterLogging") or ()
    group = (cluster.get("resourcesVpcConfig") or {}).get("clusterSecurityGroupId")
    return Life(
        begun=in_iso(cluster.get("createdAt")),
        groups=frozenset([group] if group else []),
        audited=any("audit" in (o.get("types") or ()) for o in logging if o.get("enabled")),
    )


def _marked(leftovers: Iterable[Leftover]) -> list[Leftover]:
    return [leftover for leftover in leftovers if leftover.mark]


def _goes_with_its_instance(volume: Mapping[str, Any]) -> bool:
    attached = volume.get("Attachments") or ()
    return bool(attached) and all(attachment.get("DeleteOnTermination") for attachment in attached)

"""Asks an AWS account, through botocore. Every call only reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from slicewright.doctor.ask.aws.boundary import ask_boundary
from slicewright.doctor.ask.aws.capacity import ask_keys, ask_reservations
from slicewright.doctor.ask.aws.existing import ask_existing, described
from slicewright.doctor.ask.aws.karpenter import ask_karpenter
from slicewright.doctor.ask.aws.quotas import ask_quotas
from slicewright.doctor.ask.aws.rights import ask_rights
from slicewright.doctor.ask.aws.session import LOGIN, AwsSession, code_of, error_text
from slicewright.doctor.ask.aws.versions import ask_addons, ask_images, ask_versions
from slicewright.doctor.checks.eks.cluster import (
    AwsAnswers,
    Identity,
    Zone,
    machine_types,
    not_enabled,
)
from slicewright.doctor.checks.eks.network import ExistingNetworkAnswers, Vpc
from slicewright.doctor.checks.eks.versions import images_needed, version_of
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered
from slicewright.infra.plan import EksClusterPlan, EksFleetPlan, ExistingSubnet
from slicewright.infra.stack_file import ExistingNetwork

_T = TypeVar("_T")
_NO_SUCH_REGION = frozenset(
    {
        "AuthFailure",
        "InvalidClientTokenId",
        "OptInRequired",
        "UnrecognizedClientException",
    }
)
"""Error codes of regional endpoints for keys that are valid elsewhere: the region is not enabled.

Source: AWS Account Management reference guide, "Enable or disable AWS Regions".
"""


def ask(fleet: EksFleetPlan, profile: str | None, role_names: Mapping[str, str]) -> AwsAnswers:
    """Asks the account everything that the checks of the plan need.

    profile: the profile of the AWS configuration. None: AWS's default choice. role_names: the
    stack's existing roles. Raises CannotAsk.
    """
    account = _Account(fleet.cluster.region, profile)
    identity = account.identity()
    try:
        zones = account.zones()
    except _NotEnabled as e:
        return not_enabled(identity, str(e))
    versions = ask_versions(account)
    cluster = described(account, fleet.cluster.name)
    return AwsAnswers(
        identity=identity,
        zones=zones,
        offered=account.offered(machine_types(fleet)),
        quotas=ask_quotas(account, fleet),
        versions=versions,
        addons=ask_addons(
            account,
            [addon.name for addon in fleet.cluster.addons],
            version_of(fleet, versions),
        ),
        images=ask_images(account, images_needed(fleet).values()),
        cluster=cluster if isinstance(cluster, NotAnswered) else cluster is not None,
        existing=ask_existing(account, fleet.cluster, cluster),
        network=account.network_of(fleet.cluster, cluster),
        reservations=ask_reservations(account, fleet),
        keys=ask_keys(account, fleet),
        karpenter=ask_karpenter(account, fleet),
        rights=ask_rights(account, fleet, identity, role_names),
        boundary=ask_boundary(account, fleet.cluster.permissions_boundary),
    )


class _NotEnabled(Exception):
    """The region is not enabled in this account. The message is AWS's."""


class _Account(AwsSession):
    def identity(self) -> Identity:
        """Asks the home region, which is always enabled: a disabled region is another finding."""
        try:
            caller = self.client("sts", self.home).get_caller_identity()
        except self.errors.ClientError as e:
            raise CannotAsk(f"AWS refuses the credentials: {error_text(e)}; {LOGIN}") from None
        except self.errors.BotoCoreError as e:
            raise CannotAsk(f"cannot look up the caller's identity in AWS: {e}; {LOGIN}") from None
        return Identity(account=caller["Account"], arn=caller["Arn"])

    def zones(self) -> Answer[tuple[Zone, ...]]:
        """Asks the region for its zones, as the first question to it. Raises _NotEnabled."""

        def read() -> tuple[Zone, ...]:
            response = self.client("ec2").describe_availability_zones()
            return tuple(
                Zone(
                    name=zone["ZoneName"],
                    zone_id=zone["ZoneId"],
                    available=zone["State"] == "available",
                    local=zone.get("ZoneType", "availability-zone") != "availability-zone",
                )
                for zone in response["AvailabilityZones"]
            )

        return self.answer("ec2:DescribeAvailabilityZones", self._in_region(read))

    def offered(self, machines: tuple[str, ...]) -> Answer[Mapping[str, frozenset[str]]]:
        def read() -> Mapping[str, frozenset[str]]:
            pages = self.client("ec2").get_paginator("describe_instance_type_offerings")
            zones_by_type: dict[str, set[str]] = {}
            for page in pages.paginate(
                LocationType="availability-zone-id",
                Filters=[{"Name": "instance-type", "Values": list(machines)}],
            ):
                for offer in page["InstanceTypeOfferings"]:
                    zones_by_type.setdefault(offer["InstanceType"], set()).add(offer["Location"])
            return {machine: frozenset(zones) for machine, zones in zones_by_type.items()}

        return self.answer("ec2:DescribeInstanceTypeOfferings", read)

    def network_of(
        self, cluster: EksClusterPlan, description: Answer[Mapping[str, Any] | None]
    ) -> ExistingNetworkAnswers | None:
        """Returns None if the stack creates the network, or if there is no such cluster.

        description: the existing cluster.
        """
        if isinstance(cluster.network, ExistingNetwork):
            return self.network(cluster.network.subnets)
        if not cluster.existing:
            return None
        if isinstance(description, NotAnswered):
            return ExistingNetworkAnswers(subnets=description, vpcs=description)
        return (
            None
            if description is None
            else self.network(description["resourcesVpcConfig"]["subnetIds"])
        )

    def network(self, subnets: Sequence[str]) -> ExistingNetworkAnswers:
        existing = self.answer("ec2:DescribeSubnets", lambda: self._subnets(subnets))
        if isinstance(existing, NotAnswered):
            return ExistingNetworkAnswers(subnets=existing, vpcs=existing)
        vpcs = sorted({subnet.vpc for subnet in existing})
        return ExistingNetworkAnswers(
            subnets=existing,
            vpcs=self.answer("ec2:DescribeVpcAttribute", lambda: tuple(map(self._dns_of, vpcs))),
        )

    def _subnets(self, identities: Sequence[str]) -> tuple[ExistingSubnet, ...]:
        return tuple(subnet for i in identities if (subnet := self._subnet(i)) is not None)

    def _subnet(self, identity: str) -> ExistingSubnet | None:
        """Returns None if no subnet has this ID.

        Each ID is a separate question: EC2 returns nothing at all if one of several is missing.
        """
        try:
            response = self.client("ec2").describe_subnets(SubnetIds=[identity])
        except self.errors.ClientError as e:
            if code_of(e) != "InvalidSubnetID.NotFound":
                raise
            return None
        (subnet,) = response["Subnets"]
        return ExistingSubnet(
            id=subnet["SubnetId"],
            vpc=subnet["VpcId"],
            zone=subnet["AvailabilityZone"],
            zone_id=subnet["AvailabilityZoneId"],
            gives_public_addresses=subnet["MapPublicIpOnLaunch"],
            free_addresses=subnet["AvailableIpAddressCount"],
        )

    def _dns_of(self, vpc: str) -> Vpc:
        def is_on(attribute: str) -> bool:
            response = self.client("ec2").describe_vpc_attribute(VpcId=vpc, Attribute=attribute)
            return bool(response[attribute[:1].upper() + attribute[1:]]["Value"])

        return Vpc(
            id=vpc,
            dns_support=is_on("enableDnsSupport"),
            dns_hostnames=is_on("enableDnsHostnames"),
        )

    def _in_region(self, read: Callable[[], _T]) -> Callable[[], _T]:
        """Guards the first question only: once that is answered, the region is enabled."""

        def guarded() -> _T:
            try:
                return read()
            except self.errors.ClientError as e:
                if code_of(e) in _NO_SUCH_REGION:
                    raise _NotEnabled(error_text(e)) from None
                raise

        return guarded

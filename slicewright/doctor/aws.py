"""Asks an AWS account, through botocore. Every call reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from infra import catalog
from infra.plan import EksClusterPlan, EksFleetPlan, ExistingSubnet
from infra.spec import ExistingNetwork
from slicewright.doctor.eks_checks import (
    VPC_QUOTA,
    AwsAnswers,
    Identity,
    Zone,
    machine_types,
    not_enabled,
    vcpus_needed,
)
from slicewright.doctor.eks_network_checks import (
    ADDRESS_QUOTA,
    AddressAnswers,
    ExistingNetworkAnswers,
    Vpc,
)
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered

_T = TypeVar("_T")
_HOME: Final[Mapping[str, str]] = {
    "aws": "us-east-1",
    "aws-us-gov": "us-gov-west-1",
    "aws-cn": "cn-north-1",
}
"""Partition -> a region that every account of it has."""
_LOGIN = "run `aws sso login`, or `aws configure` (`aws sts get-caller-identity` shows who you are)"
_NO_SUCH_REGION = frozenset(
    {
        "AuthFailure",
        "InvalidClientTokenId",
        "OptInRequired",
        "UnrecognizedClientException",
    }
)
"""What regional endpoints answer to keys that are valid elsewhere: the region is not enabled.

Source: AWS Account Management reference guide, "Enable or disable AWS Regions".
"""
_REFUSED = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedException"}
)


def ask(fleet: EksFleetPlan, profile: str | None) -> AwsAnswers:
    """profile: of the AWS configuration; None: as every AWS client chooses. Raises CannotAsk."""
    account = _Account(fleet.cluster.region, profile)
    identity = account.identity()
    try:
        zones = account.zones()
    except _NotEnabled as e:
        return not_enabled(identity, str(e))
    return AwsAnswers(
        identity=identity,
        zones=zones,
        offered=account.offered(machine_types(fleet)),
        quotas={
            **{code: account.quota("ec2", code) for code in vcpus_needed(fleet)},
            VPC_QUOTA: account.quota("vpc", VPC_QUOTA),
        },
        vpcs=account.vpcs(),
        versions=account.versions(),
        cluster=account.has_cluster(fleet.cluster.name),
        network=account.network_of(fleet.cluster),
        addresses=AddressAnswers(
            limit=account.quota("ec2", ADDRESS_QUOTA), taken=account.addresses()
        )
        if fleet.cluster.nat_zones
        else None,
    )


class _NotEnabled(Exception):
    """The region is not enabled in this account; the message is AWS's."""


class _Account:
    def __init__(self, region: str, profile: str | None) -> None:
        try:
            from botocore import exceptions
            from botocore.config import Config
            from botocore.session import Session
        except ImportError:
            raise CannotAsk(
                "questions to AWS need botocore; install it beside slicewright: "
                "pip install botocore"
            ) from None
        self._errors = exceptions
        self._region = region
        # A question that is not answered at once is asked again by the person who asked.
        self._config = Config(
            connect_timeout=10, read_timeout=30, retries={"mode": "standard", "max_attempts": 3}
        )
        self._clients: dict[tuple[str, str], Any] = {}
        try:
            self._session = Session(profile=profile)
            credentials = self._session.get_credentials()
        except exceptions.BotoCoreError as e:
            raise CannotAsk(f"AWS credentials cannot be used: {e}; {_LOGIN}") from None
        if credentials is None:
            raise CannotAsk(f"no AWS credentials were found; {_LOGIN}")

    def identity(self) -> Identity:
        """Asked where every account may: a region that is not enabled is a finding of its own."""
        known = catalog.aws().regions.get(self._region)
        home = _HOME[known.partition if known else "aws"]
        try:
            found = self._client("sts", home).get_caller_identity()
        except self._errors.ClientError as e:
            raise CannotAsk(f"AWS refuses the credentials: {_said(e)}; {_LOGIN}") from None
        except self._errors.BotoCoreError as e:
            raise CannotAsk(f"AWS cannot be asked who you are: {e}; {_LOGIN}") from None
        return Identity(account=found["Account"], arn=found["Arn"])

    def zones(self) -> Answer[tuple[Zone, ...]]:
        """The first question to the region itself. Raises _NotEnabled."""

        def read() -> tuple[Zone, ...]:
            found = self._client("ec2").describe_availability_zones()
            return tuple(
                Zone(
                    name=zone["ZoneName"],
                    zone_id=zone["ZoneId"],
                    available=zone["State"] == "available",
                    local=zone.get("ZoneType", "availability-zone") != "availability-zone",
                )
                for zone in found["AvailabilityZones"]
            )

        return self._answer("ec2:DescribeAvailabilityZones", self._in_region(read))

    def offered(self, machines: tuple[str, ...]) -> Answer[Mapping[str, frozenset[str]]]:
        def read() -> Mapping[str, frozenset[str]]:
            pages = self._client("ec2").get_paginator("describe_instance_type_offerings")
            found: dict[str, set[str]] = {}
            for page in pages.paginate(
                LocationType="availability-zone-id",
                Filters=[{"Name": "instance-type", "Values": list(machines)}],
            ):
                for offer in page["InstanceTypeOfferings"]:
                    found.setdefault(offer["InstanceType"], set()).add(offer["Location"])
            return {machine: frozenset(zones) for machine, zones in found.items()}

        return self._answer("ec2:DescribeInstanceTypeOfferings", read)

    def quota(self, service: str, code: str) -> Answer[float]:
        """The value that applies; AWS's default where the account has none of its own."""
        quotas = self._client("service-quotas")

        def read() -> float:
            asked = {"ServiceCode": service, "QuotaCode": code}
            try:
                return float(quotas.get_service_quota(**asked)["Quota"]["Value"])
            except self._errors.ClientError as e:
                if e.response["Error"]["Code"] != "NoSuchResourceException":
                    raise
            return float(quotas.get_aws_default_service_quota(**asked)["Quota"]["Value"])

        return self._answer("servicequotas:GetServiceQuota", read)

    def vpcs(self) -> Answer[int]:
        def read() -> int:
            pages = self._client("ec2").get_paginator("describe_vpcs").paginate()
            return sum(len(page["Vpcs"]) for page in pages)

        return self._answer("ec2:DescribeVpcs", read)

    def network_of(self, cluster: EksClusterPlan) -> ExistingNetworkAnswers | None:
        """None: the stack makes it, or there is no such cluster."""
        if isinstance(cluster.network, ExistingNetwork):
            return self.network(cluster.network.subnets)
        if not cluster.existing:
            return None
        found = self._answer("eks:DescribeCluster", lambda: self._cluster(cluster.name))
        if isinstance(found, NotAnswered):
            return ExistingNetworkAnswers(subnets=found, vpcs=found)
        return None if found is None else self.network(found["resourcesVpcConfig"]["subnetIds"])

    def network(self, subnets: Sequence[str]) -> ExistingNetworkAnswers:
        found = self._answer("ec2:DescribeSubnets", lambda: self._subnets(subnets))
        if isinstance(found, NotAnswered):
            return ExistingNetworkAnswers(subnets=found, vpcs=found)
        vpcs = sorted({subnet.vpc for subnet in found})
        return ExistingNetworkAnswers(
            subnets=found,
            vpcs=self._answer("ec2:DescribeVpcAttribute", lambda: tuple(map(self._dns_of, vpcs))),
        )

    def _subnets(self, identities: Sequence[str]) -> tuple[ExistingSubnet, ...]:
        return tuple(found for i in identities if (found := self._subnet(i)) is not None)

    def _subnet(self, identity: str) -> ExistingSubnet | None:
        """None: there is none of this id. One by one: EC2 answers nothing where one is missing."""
        try:
            found = self._client("ec2").describe_subnets(SubnetIds=[identity])
        except self._errors.ClientError as e:
            if e.response["Error"]["Code"] != "InvalidSubnetID.NotFound":
                raise
            return None
        (subnet,) = found["Subnets"]
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
            found = self._client("ec2").describe_vpc_attribute(VpcId=vpc, Attribute=attribute)
            return bool(found[attribute[:1].upper() + attribute[1:]]["Value"])

        return Vpc(
            id=vpc,
            dns_support=is_on("enableDnsSupport"),
            dns_hostnames=is_on("enableDnsHostnames"),
        )

    def addresses(self) -> Answer[int]:
        return self._answer(
            "ec2:DescribeAddresses",
            lambda: len(self._client("ec2").describe_addresses()["Addresses"]),
        )

    def versions(self) -> Answer[frozenset[str]]:
        def read() -> frozenset[str]:
            pages = self._client("eks").get_paginator("describe_cluster_versions").paginate()
            return frozenset(v["clusterVersion"] for page in pages for v in page["clusterVersions"])

        return self._answer("eks:DescribeClusterVersions", read)

    def has_cluster(self, name: str) -> Answer[bool]:
        return self._answer("eks:DescribeCluster", lambda: self._cluster(name) is not None)

    def _cluster(self, name: str) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._client("eks").describe_cluster(name=name)["cluster"]
        except self._errors.ClientError as e:
            if e.response["Error"]["Code"] != "ResourceNotFoundException":
                raise
            return None
        return found

    def _in_region(self, read: Callable[[], _T]) -> Callable[[], _T]:
        """Of the first question only: where it was answered, the region is enabled."""

        def guarded() -> _T:
            try:
                return read()
            except self._errors.ClientError as e:
                if e.response["Error"]["Code"] in _NO_SUCH_REGION:
                    raise _NotEnabled(_said(e)) from None
                raise

        return guarded

    def _client(self, service: str, region: str | None = None) -> Any:
        key = (service, region or self._region)
        if key not in self._clients:
            self._clients[key] = self._session.create_client(
                service, region_name=key[1], config=self._config
            )
        return self._clients[key]

    def _answer(self, right: str, read: Callable[[], _T]) -> Answer[_T]:
        """right: the IAM action that the question needs."""
        try:
            return read()
        except self._errors.ClientError as e:
            code = e.response["Error"]["Code"]
            if code in _REFUSED:
                return NotAnswered(
                    why=f"the right {right} is missing ({_said(e)})",
                    remedy=f"let an administrator allow {right} to this identity",
                )
            return NotAnswered(why=_said(e))
        except self._errors.BotoCoreError as e:
            return NotAnswered(why=str(e))


def _said(error: Any) -> str:
    found = error.response["Error"]
    return f"{found['Code']}: {found.get('Message', '')}".rstrip(": ")

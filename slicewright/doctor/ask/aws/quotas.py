"""Asks AWS for an account's quotas in a region, and for their usage. Every call only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.checks.eks.quotas import (
    ADDRESS_QUOTA,
    NAT_QUOTA,
    AddressAnswers,
    NatAnswers,
    QuotaAnswers,
    Running,
    codes_needed,
    quota_of,
)
from slicewright.doctor.findings import Answer
from slicewright.infra.plan import EksFleetPlan

_ALIVE: Final = ("pending", "running")
"""States of instances that count against a quota. Source: EC2 user guide, "Amazon EC2 instance type
quotas".
"""
_GATEWAYS_ALIVE: Final = ("pending", "available", "deleting")


def ask_quotas(session: AwsSession, fleet: EksFleetPlan) -> QuotaAnswers:
    with_nat = bool(fleet.cluster.nat_zones)
    return QuotaAnswers(
        limits={
            code: _limit(session, service, code) for code, service in codes_needed(fleet).items()
        },
        running=session.answer(
            "ec2:DescribeInstances", lambda: _running(session, fleet.cluster.name)
        ),
        vpcs=session.answer("ec2:DescribeVpcs", lambda: _vpcs(session)),
        addresses=AddressAnswers(
            limit=_limit(session, "ec2", ADDRESS_QUOTA),
            usage=session.answer(
                "ec2:DescribeAddresses",
                lambda: len(session.client("ec2").describe_addresses()["Addresses"]),
            ),
        )
        if with_nat
        else None,
        gateways=NatAnswers(
            limit=_limit(session, "vpc", NAT_QUOTA),
            usage=session.answer("ec2:DescribeNatGateways", lambda: _gateways(session)),
        )
        if with_nat
        else None,
    )


def _limit(session: AwsSession, service: str, code: str) -> Answer[float]:
    """Returns the account's value of the quota, or AWS's default if the account has none."""
    quotas = session.client("service-quotas")

    def read() -> float:
        quota = {"ServiceCode": service, "QuotaCode": code}
        try:
            return float(quotas.get_service_quota(**quota)["Quota"]["Value"])
        except session.errors.ClientError as e:
            if code_of(e) != "NoSuchResourceException":
                raise
        return float(quotas.get_aws_default_service_quota(**quota)["Quota"]["Value"])

    return session.answer("servicequotas:GetServiceQuota", read)


def _running(session: AwsSession, cluster: str) -> Running:
    filters = [{"Name": "instance-state-name", "Values": list(_ALIVE)}]
    pages = session.client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
    vcpus: Counter[str] = Counter()
    of_cluster: Counter[str] = Counter()
    for page in pages:
        for instance in (
            i for reservation in page["Reservations"] for i in reservation["Instances"]
        ):
            lifecycle = instance.get("InstanceLifecycle")
            code = quota_of(instance["InstanceType"], spot=lifecycle == "spot")
            if code is None or lifecycle == "capacity-block":
                continue
            number = instance["CpuOptions"]["CoreCount"] * instance["CpuOptions"]["ThreadsPerCore"]
            vcpus[code] += number
            if _is_of(instance, cluster):
                of_cluster[code] += number
    return Running(vcpus=vcpus, of_cluster=of_cluster)


def _is_of(instance: Mapping[str, Any], cluster: str) -> bool:
    """Looks for the tag that instances of node groups and of Karpenter carry."""
    return any(
        tag["Key"] == f"kubernetes.io/cluster/{cluster}" and tag["Value"] == "owned"
        for tag in instance.get("Tags", ())
    )


def _vpcs(session: AwsSession) -> int:
    pages = session.client("ec2").get_paginator("describe_vpcs").paginate()
    return sum(len(page["Vpcs"]) for page in pages)


def _gateways(session: AwsSession) -> Mapping[str, int]:
    """Zone -> NAT gateways in its subnets, under both the zone's name and its ID."""
    ec2 = session.client("ec2")
    places: Counter[str] = Counter()
    for page in ec2.get_paginator("describe_nat_gateways").paginate():
        places.update(
            gateway["SubnetId"]
            for gateway in page["NatGateways"]
            if gateway["State"] in _GATEWAYS_ALIVE
        )
    counts: Counter[str] = Counter()
    for page in ec2.get_paginator("describe_subnets").paginate():
        for subnet in page["Subnets"]:
            for zone in (subnet["AvailabilityZone"], subnet["AvailabilityZoneId"]):
                counts[zone] += places[subnet["SubnetId"]]
    return counts

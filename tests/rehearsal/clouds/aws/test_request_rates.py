"""EC2's published request rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.aws.account import write_account
from slicewright.rehearsal.clouds.aws.ec2.request_rates import (
    CHANGE,
    READ,
    READ_ALL,
    RequestRates,
    bucket_of,
)
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.service import Cloud

HERE = {"region": "eu-west-1"}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def refusal(rates: RequestRates, operation: str, region: str) -> tuple[int, str] | None:
    try:
        rates.take(region, operation, {"VpcIds": ["vpc-0"]})
    except CloudError as e:
        return e.code, e.reason
    return None


def served(rates: RequestRates, operation: str, *, region: str = "eu-west-1") -> int:
    """How many requests until the first refusal."""
    said = iter(lambda: refusal(rates, operation, region), (503, "RequestLimitExceeded"))
    return len(list(said))


@pytest.mark.parametrize(
    ("operation", "body", "bucket"),
    [
        ("DescribeVpcs", {}, READ_ALL),
        ("DescribeVpcs", {"VpcIds": ["vpc-0"]}, READ),
        ("DescribeSubnets", {"Filters": [{"Name": "vpc-id", "Values": ["vpc-0"]}]}, READ),
        ("DescribeVolumes", {"MaxResults": 5}, READ),
        ("CreateVpc", {"CidrBlock": "10.0.0.0/16"}, CHANGE),
        ("DeleteVpc", {"VpcId": "vpc-0"}, CHANGE),
    ],
)
def test_each_operation_has_the_bucket_of_its_kind(operation, body, bucket) -> None:
    assert bucket_of(operation, body) is bucket


def test_a_bucket_is_emptied_and_fills_again() -> None:
    clock = Clock()
    rates = RequestRates(clock)
    assert served(rates, "DescribeVpcs") == 100
    clock.now_s += 1
    assert served(rates, "DescribeVpcs") == 20
    clock.now_s += 3600
    assert served(rates, "DescribeVpcs") == 100


def test_operations_and_regions_have_buckets_of_their_own() -> None:
    rates = RequestRates(Clock())
    assert served(rates, "DescribeVpcs") == 100
    assert served(rates, "DescribeSubnets") == 100
    assert served(rates, "DescribeVpcs", region="us-east-1") == 100
    assert served(rates, "DeleteSubnet") == 50


@pytest.mark.parametrize("limited", [True, False])
def test_ec2_throttles_unless_the_account_says_otherwise(tmp_path: Path, limited: bool) -> None:
    write_account(tmp_path, request_rates=limited)
    cloud = Cloud(tmp_path, FakeControlPlanes(tmp_path), clock=Clock())
    for _ in range(50):
        cloud.call("ec2", "DescribeVpcs", dict(HERE), {})
    if limited:
        with pytest.raises(CloudError) as caught:
            cloud.call("ec2", "DescribeVpcs", dict(HERE), {})
        assert caught.value.reason == "RequestLimitExceeded"
    cloud.call("ec2", "DescribeSubnets", dict(HERE), {})
    for _ in range(60):
        cloud.call("sts", "GetCallerIdentity", dict(HERE), {})

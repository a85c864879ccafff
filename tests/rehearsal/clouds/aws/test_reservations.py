"""Capacity reservations and capacity blocks: what a node group gets of them, and why not more."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core.errors import CloudError

P4D = {"instanceTypes": ["p4d.24xlarge"], "amiType": "AL2023_x86_64_NVIDIA"}
ONE = "cr-0123456789abcdef0"
TWO = "cr-0123456789abcdef1"
GROUP = "arn:aws:resource-groups:eu-west-1:123456789012:group/gpus"
ODCR = {"instance_type": "p4d.24xlarge", "zone": "euw1-az2", "count": 2}
EXCEEDED = "ReservationCapacityExceeded - The requested reservation does not have sufficient"


def reserve(aws, *, more: dict[str, Any] | None = None, **reservations: dict[str, Any]) -> None:
    """one, two: the reservations; more: other settings of the account."""
    ids = {"one": ONE, "two": TWO}
    known = {ids[name]: found for name, found in reservations.items()}
    write_account(aws.environment, **PROMPT, **(more or {}), reservations=known)


def template(aws, data: dict[str, Any], name: str = "gpus") -> dict[str, str]:
    made = aws.call("ec2", "CreateLaunchTemplate", LaunchTemplateName=name, LaunchTemplateData=data)
    return {"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}


def of(target: str) -> dict[str, Any]:
    field = "CapacityReservationResourceGroupArn" if ":" in target else "CapacityReservationId"
    return {"CapacityReservationSpecification": {"CapacityReservationTarget": {field: target}}}


def block(target: str) -> dict[str, Any]:
    return {
        **of(target),
        "InstanceMarketOptions": {"MarketType": "capacity-block"},
        "InstanceType": "p4d.24xlarge",
    }


def scaled(count: int) -> dict[str, int]:
    return {"minSize": 0, "desiredSize": count, "maxSize": 9}


def test_a_reservation_gives_what_it_has_whatever_quota_and_stock_are(aws) -> None:
    none = {"vcpus": {"L-417A185B": 0}, "stock": {"p4d.24xlarge": {"euw1-az2": 0}}}
    aws.make_cluster()
    reserve(aws, one=ODCR, more=none)
    group = aws.make_group(**P4D, launchTemplate=template(aws, of(ONE)), scalingConfig=scaled(2))
    assert (group["status"], len(aws.nodes())) == ("ACTIVE", 2)
    assert aws.nodes()[0]["metadata"]["labels"]["eks.amazonaws.com/capacityType"] == "ON_DEMAND"


def test_two_groups_share_a_reservation_and_what_is_beyond_it_is_named(aws) -> None:
    aws.make_cluster()
    reserve(aws, one=ODCR)
    using = template(aws, of(ONE))
    aws.make_group(**P4D, launchTemplate=using)
    other = aws.make_group(
        **P4D, launchTemplate=using, nodegroupName="other", scalingConfig=scaled(2)
    )
    (issue,) = other["health"]["issues"]
    assert (other["status"], issue["code"]) == ("CREATE_FAILED", "AsgInstanceLaunchFailures")
    assert issue["message"].startswith(f"Could not launch On-Demand Instances. {EXCEEDED}")
    assert len(aws.nodes()) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"instance_type": "p4de.24xlarge"}, EXCEEDED),
        ({"zone": "euw1-az1"}, EXCEEDED),
        ({"state": "expired"}, EXCEEDED),
        ({"kind": "capacity-block"}, EXCEEDED),
    ],
)
def test_a_reservation_of_something_else_gives_nothing(aws, changed, said) -> None:
    aws.make_cluster()
    reserve(aws, one=ODCR | changed)
    group = aws.make_group(**P4D, launchTemplate=template(aws, of(ONE)))
    assert group["status"] == "CREATE_FAILED"
    assert said in group["health"]["issues"][0]["message"]


def test_a_reservation_that_is_not_there_is_named(aws) -> None:
    aws.make_cluster()
    reserve(aws, one=ODCR)
    group = aws.make_group(**P4D, launchTemplate=template(aws, of(TWO)))
    assert (
        f"InvalidCapacityReservationId.NotFound - The capacity reservation ID '{TWO}' does not"
        in group["health"]["issues"][0]["message"]
    )
    with pytest.raises(CloudError) as caught:
        aws.call("ec2", "DescribeCapacityReservations", CapacityReservationIds=[TWO])
    assert caught.value.reason == "InvalidCapacityReservationId.NotFound"


def test_a_resource_group_is_all_of_its_reservations(aws) -> None:
    aws.make_cluster()
    own = ODCR | {"groups": [GROUP]}
    reserve(aws, one=own | {"count": 1}, two=own)
    using = template(aws, of(GROUP))
    assert (
        aws.make_group(**P4D, launchTemplate=using, scalingConfig=scaled(3))["status"] == "ACTIVE"
    )
    other = aws.make_group(**P4D, launchTemplate=using, nodegroupName="other")
    assert EXCEEDED in other["health"]["issues"][0]["message"]


def test_an_open_reservation_is_used_before_quota_and_stock(aws) -> None:
    aws.make_cluster()
    reserve(aws, one=ODCR | {"open": True}, more={"vcpus": {"L-417A185B": 0}})
    group = aws.make_group(**P4D, scalingConfig=scaled(3))
    assert "VcpuLimitExceeded" in group["health"]["issues"][0]["message"]
    assert len(aws.nodes()) == 2


def test_a_capacity_block_gives_its_machines_once_it_has_started(aws) -> None:
    aws.make_cluster()
    bought = ODCR | {"kind": "capacity-block", "state": "scheduled"}
    reserve(aws, one=bought)
    asked = {
        "amiType": "AL2023_x86_64_NVIDIA",
        "capacityType": "CAPACITY_BLOCK",
        "launchTemplate": template(aws, block(ONE)),
    }
    early = aws.make_group(**asked)
    assert EXCEEDED in early["health"]["issues"][0]["message"]
    empty = aws.make_group(**asked, nodegroupName="empty", scalingConfig=scaled(0))
    assert empty["status"] == "ACTIVE"
    reserve(aws, one=bought | {"state": "active"})
    aws.call(
        "eks",
        "UpdateNodegroupConfig",
        clusterName="p4d",
        nodegroupName="empty",
        scalingConfig=scaled(2),
    )
    assert aws.cloud.tasks.wait(30)
    labels = [n["metadata"]["labels"] for n in aws.nodes()]
    assert [(la["eks.amazonaws.com/capacityType"], la["node.kubernetes.io/instance-type"])
            for la in labels] == [("CAPACITY_BLOCK", "p4d.24xlarge")] * 2  # fmt: skip


@pytest.mark.parametrize("data", [None, of(ONE)])
def test_a_capacity_block_needs_a_launch_template_that_says_so(aws, data) -> None:
    aws.make_cluster()
    reserve(aws, one=ODCR | {"kind": "capacity-block"})
    more = {} if data is None else {"launchTemplate": template(aws, data)}
    with pytest.raises(CloudError) as caught:
        aws.make_group(**P4D, capacityType="CAPACITY_BLOCK", **more)
    assert caught.value.reason == "InvalidParameterException"


def test_a_template_of_a_capacity_block_can_get_a_new_version(aws) -> None:
    aws.make_cluster()
    reserve(aws, one=ODCR | {"kind": "capacity-block"})
    using = template(aws, block(ONE))
    aws.make_group(
        amiType="AL2023_x86_64_NVIDIA", capacityType="CAPACITY_BLOCK", launchTemplate=using
    )
    aws.call(
        "ec2",
        "CreateLaunchTemplateVersion",
        LaunchTemplateId=using["id"],
        LaunchTemplateData=block(ONE) | {"EbsOptimized": True},
    )
    started = aws.call(
        "eks",
        "UpdateNodegroupVersion",
        clusterName="p4d",
        nodegroupName="workers",
        launchTemplate={"id": using["id"], "version": "2"},
    )
    assert started["update"]["status"] == "InProgress"
    assert aws.cloud.tasks.wait(30)


def test_the_account_lists_its_reservations(aws) -> None:
    reserve(aws, one=ODCR, two=ODCR | {"kind": "capacity-block", "zone": "use1-az1"})
    (found,) = aws.call("ec2", "DescribeCapacityReservations")["CapacityReservations"]
    assert (found["CapacityReservationId"], found["AvailabilityZone"]) == (ONE, "eu-west-1a")
    assert (found["State"], found["TotalInstanceCount"]) == ("active", 2)

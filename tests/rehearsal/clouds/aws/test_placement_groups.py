"""Placement groups of the simulated EC2, and node groups in them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError


def template(aws, group: str, **data: Any) -> dict[str, str]:
    made = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName="placed",
        LaunchTemplateData={"Placement": {"GroupName": group}, **data},
    )
    return {"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}


def make(aws, name: str = "near") -> dict[str, Any]:
    made = aws.call("ec2", "CreatePlacementGroup", GroupName=name, Strategy="cluster")
    return dict(made["PlacementGroup"])


def test_a_group_is_there_by_name_and_id_until_it_is_deleted(aws) -> None:
    made = make(aws)
    for asked in ({"GroupNames": ["near"]}, {"GroupIds": [made["GroupId"]]}, {}):
        assert aws.call("ec2", "DescribePlacementGroups", **asked)["PlacementGroups"] == [made]
    with pytest.raises(CloudError, match="exists"):
        make(aws)
    aws.call("ec2", "CreateTags", Resources=[made["GroupId"]], Tags=[{"Key": "a", "Value": "b"}])
    assert aws.cloud.inventory() == {"ec2.placementGroup": [f"eu-west-1/{made['GroupId']}"]}
    aws.call("ec2", "DeletePlacementGroup", GroupName="near")
    with pytest.raises(CloudError, match="The Placement Group 'near' is unknown"):
        aws.call("ec2", "DescribePlacementGroups", GroupNames=["near"])
    assert aws.cloud.inventory() == {}


def test_a_group_with_instances_is_not_deleted(aws) -> None:
    aws.make_cluster()
    make(aws)
    aws.make_group(
        instanceTypes=["m6i.large"],
        amiType="AL2023_x86_64_STANDARD",
        subnets=aws.subnets[:1],
        launchTemplate=template(aws, "near"),
    )
    with pytest.raises(CloudError, match="is in use and may not be deleted"):
        aws.call("ec2", "DeletePlacementGroup", GroupName="near")


@pytest.mark.parametrize(
    ("named", "group", "said"),
    [
        ("far", {}, "The Placement Group 'far' is unknown"),
        ("near", {"both": True}, "cannot span the Availability Zones eu-west-1a, eu-west-1b"),
        (
            "near",
            {"instanceTypes": ["t3.medium"]},
            "Cluster placement groups are not supported by the 't3.medium' instance type",
        ),
    ],
)
def test_ec2_refuses_invalid_placement_groups(
    aws, named: str, group: dict[str, Any], said: str
) -> None:
    aws.make_cluster()
    make(aws)
    subnets = aws.subnets if group.pop("both", False) else aws.subnets[:1]
    asked = {"instanceTypes": ["m6i.large"], "amiType": "AL2023_x86_64_STANDARD", **group}
    with pytest.raises(CloudError, match=said):
        aws.make_group(**asked, subnets=subnets, launchTemplate=template(aws, named))

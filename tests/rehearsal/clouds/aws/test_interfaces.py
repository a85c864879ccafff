"""Network interfaces of a node group's launch template: what is refused, and who cannot join."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError

P4D = {"instanceTypes": ["p4d.24xlarge"], "amiType": "AL2023_x86_64_NVIDIA"}


def template(aws, interfaces: list[dict[str, Any]], **data: Any) -> dict[str, str]:
    made = aws.call(
        "ec2",
        "CreateLaunchTemplate",
        LaunchTemplateName="efa",
        LaunchTemplateData={"NetworkInterfaces": interfaces, **data},
    )
    return {"id": made["LaunchTemplate"]["LaunchTemplateId"], "version": "1"}


def at(card: int, device: int, kind: str = "efa-only", **more: Any) -> dict[str, Any]:
    place = {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": kind}
    return {**place, "DeleteOnTermination": True, **more}


OWN = at(0, 0, "interface")


@pytest.mark.parametrize(
    ("interfaces", "said"),
    [
        ([OWN, at(1, 2)], "The specified number '2' for the device index exceeds"),
        ([OWN, at(1, 0), at(1, 0)], "network card 1 has two at 0"),
        ([at(1, 0)], "device index 0 must be specified"),
        ([at(0, 0)], "You can't use an EFA-only network interface as the primary"),
        ([OWN, at(4, 0)], "count 1 on network card 4 exceeds the limit for p4d.24xlarge"),
        ([OWN, at(1, 0), at(1, 1, "efa")], "count 2 on network card 1 exceeds the limit"),
        ([at(0, 0, "efa", Groups=["sg-0"])], "The security group 'sg-0' does not exist"),
    ],
)
def test_ec2_refuses_interfaces_that_the_machine_cannot_have(
    aws, interfaces: list[dict[str, Any]], said: str
) -> None:
    aws.make_cluster()
    with pytest.raises(CloudError, match=said):
        aws.make_group(**P4D, launchTemplate=template(aws, interfaces))


def test_ec2_refuses_an_efa_on_a_type_without_and_groups_in_two_places(aws) -> None:
    aws.make_cluster()
    one = template(aws, [at(0, 0, "efa")])
    with pytest.raises(CloudError, match=r"EFA interfaces are not supported on g4dn.xlarge"):
        aws.make_group(**(P4D | {"instanceTypes": ["g4dn.xlarge"]}), launchTemplate=one)
    aws.call("ec2", "DeleteLaunchTemplate", LaunchTemplateId=one["id"])
    both = template(aws, [at(0, 0, "efa")], SecurityGroupIds=["sg-0"])
    with pytest.raises(CloudError, match="instance-level security groups"):
        aws.make_group(**P4D, launchTemplate=both)


def test_with_several_interfaces_nodes_of_a_public_subnet_do_not_join(aws) -> None:
    """With one they do: the subnet gives it a public address."""
    aws.make_cluster()
    group = aws.make_group(
        **P4D, launchTemplate=template(aws, [OWN, *(at(c, 0 if c else 1) for c in range(4))])
    )
    (issue,) = group["health"]["issues"]
    assert (group["status"], issue["code"]) == ("CREATE_FAILED", "NodeCreationFailure")
    assert "instances with 5 network interfaces get no public address" in issue["message"]


def test_one_interface_gets_a_public_address_and_its_node_joins(aws) -> None:
    aws.make_cluster()
    group = aws.make_group(**P4D, launchTemplate=template(aws, [at(0, 0, "efa")]))
    assert group["status"] == "ACTIVE"

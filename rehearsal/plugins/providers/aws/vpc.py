"""aws:ec2 Vpc and Subnet.

Source of force_new: hashicorp/terraform-provider-aws, internal/service/ec2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.plugins.bridge.resources import (
    CreateResult,
    Session,
    State,
    not_simulated,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure, ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    region_of,
    tag_specifications,
)
from slicewright.rehearsal.plugins.providers.aws.ec2_resource import Ec2Resource
from slicewright.rehearsal.plugins.providers.aws.retries import once_free

_DNS = {"enableDnsSupport": "EnableDnsSupport", "enableDnsHostnames": "EnableDnsHostnames"}


class Vpc(Ec2Resource):
    kind = "aws:ec2/vpc:Vpc"
    force_new = ("cidrBlock", "region", "ipv4IpamPoolId")
    keeps = ("region", "enableDnsHostnames")

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"enableDnsSupport": True, "instanceTenancy": "default"}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        if "cidrBlock" not in inputs:
            return [
                CheckFailure(
                    "cidrBlock",
                    "must be set: the rehearsal does not simulate IPAM pools",
                )
            ]
        return not_simulated(
            inputs,
            (
                "cidrBlock",
                "enableDnsSupport",
                "enableDnsHostnames",
                "instanceTenancy",
                "tags",
                "region",
            ),
        )

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "CreateVpc",
            CidrBlock=inputs["cidrBlock"],
            InstanceTenancy=inputs.get("instanceTenancy"),
            TagSpecifications=tag_specifications("vpc", inputs),
        )
        resource_id = created["Vpc"]["VpcId"]
        self._set_dns(session, resource_id, {}, inputs)
        return CreateResult(resource_id)

    def _set_dns(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> None:
        for name, attribute in _DNS.items():
            if name in new and old.get(name) != new[name]:
                call(
                    session,
                    new,
                    "ec2",
                    "ModifyVpcAttribute",
                    VpcId=resource_id,
                    **{attribute: {"Value": bool(new[name])}},
                )

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        listed = or_none(session, inputs, "ec2", "DescribeVpcs", VpcIds=[resource_id])
        if listed is None:
            return None
        vpc = listed["Vpcs"][0]
        dns = {}
        for name, attribute in _DNS.items():
            answer = call(
                session, inputs, "ec2", "DescribeVpcAttribute", VpcId=resource_id, Attribute=name
            )
            dns[name] = answer[attribute]["Value"]
        read_inputs = {
            "cidrBlock": vpc["CidrBlock"],
            "instanceTenancy": vpc["InstanceTenancy"],
            **dns,
        }
        region = region_of(session, inputs)
        outputs = {
            **read_inputs,
            "arn": f"arn:aws:ec2:{region}:{ACCOUNT}:vpc/{resource_id}",
            "ownerId": ACCOUNT,
            "dhcpOptionsId": vpc["DhcpOptionsId"],
        }
        if inputs and "enableDnsHostnames" not in inputs and not read_inputs["enableDnsHostnames"]:
            del read_inputs["enableDnsHostnames"]
        return self.state(
            session, inputs, tags=vpc["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def change(self, session: Session, resource_id: str, old: Properties, new: Properties) -> None:
        if old.get("instanceTenancy") != new.get("instanceTenancy"):
            raise ProviderError("instanceTenancy: the rehearsal does not simulate changing it")
        self._set_dns(session, resource_id, old, new)

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        once_free(session, lambda: or_none(session, inputs, "ec2", "DeleteVpc", VpcId=resource_id))


class Subnet(Ec2Resource):
    kind = "aws:ec2/subnet:Subnet"
    force_new = ("vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "region")
    keeps = ("availabilityZone", "availabilityZoneId", "region")

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"mapPublicIpOnLaunch": False}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(
            inputs,
            (
                "vpcId",
                "cidrBlock",
                "availabilityZone",
                "availabilityZoneId",
                "mapPublicIpOnLaunch",
                "tags",
                "region",
            ),
        )

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "CreateSubnet",
            VpcId=inputs["vpcId"],
            CidrBlock=inputs.get("cidrBlock"),
            AvailabilityZone=inputs.get("availabilityZone"),
            AvailabilityZoneId=inputs.get("availabilityZoneId"),
            TagSpecifications=tag_specifications("subnet", inputs),
        )
        resource_id = created["Subnet"]["SubnetId"]
        self._set_public(session, resource_id, {}, inputs)
        return CreateResult(resource_id)

    def _set_public(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> None:
        is_public = bool(new.get("mapPublicIpOnLaunch"))
        if bool(old.get("mapPublicIpOnLaunch")) != is_public:
            call(
                session,
                new,
                "ec2",
                "ModifySubnetAttribute",
                SubnetId=resource_id,
                MapPublicIpOnLaunch={"Value": is_public},
            )

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        answer = or_none(session, inputs, "ec2", "DescribeSubnets", SubnetIds=[resource_id])
        if answer is None:
            return None
        subnet = answer["Subnets"][0]
        read_inputs = {
            "vpcId": subnet["VpcId"],
            "cidrBlock": subnet["CidrBlock"],
            "availabilityZone": subnet["AvailabilityZone"],
            "availabilityZoneId": subnet["AvailabilityZoneId"],
            "mapPublicIpOnLaunch": subnet["MapPublicIpOnLaunch"],
        }
        outputs = {
            **read_inputs,
            "arn": subnet["SubnetArn"],
            "ownerId": ACCOUNT,
        }
        # EC2 tells both; a program asks for one.
        for name in ("availabilityZone", "availabilityZoneId"):
            if name not in (inputs or {"availabilityZone": None}):
                del read_inputs[name]
        return self.state(
            session, inputs, tags=subnet["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def change(self, session: Session, resource_id: str, old: Properties, new: Properties) -> None:
        self._set_public(session, resource_id, old, new)

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        once_free(
            session, lambda: or_none(session, inputs, "ec2", "DeleteSubnet", SubnetId=resource_id)
        )

"""aws:ec2 Eip and NatGateway.

Source of force_new: hashicorp/terraform-provider-aws, internal/service/ec2/ec2_eip.go,
vpc_nat_gateway.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.plugins.bridge.resources import (
    CreateResult,
    Session,
    State,
    not_simulated,
)
from slicewright.rehearsal.plugins.bridge.waiting import wait_until
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    region_of,
    tag_specifications,
)
from slicewright.rehearsal.plugins.providers.aws.ec2_resource import Ec2Resource


class Eip(Ec2Resource):
    kind = "aws:ec2/eip:Eip"
    force_new = ("domain", "region", "networkBorderGroup", "publicIpv4Pool", "address")
    keeps = ("domain", "region", "networkBorderGroup", "networkInterface", "publicIpv4Pool")

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(inputs, ("domain", "tags", "region"))

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "AllocateAddress",
            Domain=inputs.get("domain"),
            TagSpecifications=tag_specifications("elastic-ip", inputs),
        )
        return CreateResult(str(created["AllocationId"]))

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        address = _address(session, resource_id, inputs)
        if address is None:
            return None
        read_inputs = {"domain": address["Domain"]}
        region = region_of(session, inputs)
        outputs = {
            "allocationId": resource_id,
            "publicIp": address["PublicIp"],
            "publicIpv4Pool": address["PublicIpv4Pool"],
            "networkBorderGroup": address["NetworkBorderGroup"],
            "networkInterface": address.get("NetworkInterfaceId", ""),
            "associationId": address.get("AssociationId", ""),
            "arn": f"arn:aws:ec2:{region}:{ACCOUNT}:elastic-ip/{resource_id}",
        }
        return self.state(
            session, inputs, tags=address["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        or_none(session, inputs, "ec2", "ReleaseAddress", AllocationId=resource_id)


def _address(session: Session, identity: str, inputs: Properties) -> JsonObject | None:
    answer = or_none(session, inputs, "ec2", "DescribeAddresses", AllocationIds=[identity])
    return answer["Addresses"][0] if answer else None


class NatGateway(Ec2Resource):
    kind = "aws:ec2/natGateway:NatGateway"
    force_new = ("allocationId", "connectivityType", "privateIp", "subnetId", "region", "vpcId")
    keeps = ("privateIp", "region", "vpcId", "availabilityMode")

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"connectivityType": "public"}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(
            inputs, ("allocationId", "connectivityType", "subnetId", "tags", "region")
        )

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        created = call(
            session,
            inputs,
            "ec2",
            "CreateNatGateway",
            AllocationId=inputs.get("allocationId"),
            ConnectivityType=inputs.get("connectivityType"),
            SubnetId=inputs["subnetId"],
            TagSpecifications=tag_specifications("natgateway", inputs),
        )
        identity = str(created["NatGateway"]["NatGatewayId"])
        session.show_status("waiting for the NAT gateway to become available")

        def settled() -> JsonObject | None:
            gateway = _gateway(session, identity, inputs)
            return gateway if gateway and gateway["State"] != "pending" else None

        gateway = wait_until(session, f"EC2 NAT Gateway ({identity}) create", settled)
        if gateway["State"] != "available":
            return CreateResult(
                identity,
                [
                    f"waiting for EC2 NAT Gateway ({identity}) create: unexpected state "
                    f"'{gateway['State']}', wanted target 'available'. last error: "
                    f"{gateway.get('FailureCode')}: {gateway.get('FailureMessage')}"
                ],
            )
        return CreateResult(identity)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        gateway = _gateway(session, resource_id, inputs)
        if gateway is None or gateway["State"] == "deleted":
            return None
        (address,) = gateway["NatGatewayAddresses"]
        read_inputs = {
            "allocationId": address["AllocationId"],
            "connectivityType": gateway["ConnectivityType"],
            "subnetId": gateway["SubnetId"],
        }
        outputs = {
            "associationId": address.get("AssociationId", ""),
            "networkInterfaceId": address.get("NetworkInterfaceId", ""),
            "publicIp": address.get("PublicIp", ""),
            "vpcId": gateway["VpcId"],
        }
        return self.state(
            session, inputs, tags=gateway["Tags"], read_inputs=read_inputs, outputs=outputs
        )

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        or_none(session, inputs, "ec2", "DeleteNatGateway", NatGatewayId=resource_id)
        session.show_status("waiting for the NAT gateway to be deleted")

        def gone() -> bool | None:
            gateway = _gateway(session, resource_id, inputs)
            return True if gateway is None or gateway["State"] == "deleted" else None

        wait_until(session, f"EC2 NAT Gateway ({resource_id}) delete", gone)


def _gateway(session: Session, identity: str, inputs: Properties) -> JsonObject | None:
    answer = or_none(session, inputs, "ec2", "DescribeNatGateways", NatGatewayIds=[identity])
    return answer["NatGateways"][0] if answer else None

"""NAT gateways with a public address: they come and go in the background.

Source of failures and their messages: VPC user guide, "Troubleshoot NAT gateways".
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import missing, new_id, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import (
    ELASTIC_IPS,
    INTERNET_GATEWAYS,
    NAT_GATEWAYS,
    ROUTE_TABLES,
    SUBNETS,
)
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import not_simulated
from slicewright.rehearsal.clouds.core.tasks import Task

_EXISTING_STATES = ("pending", "available", "deleting")


class NatGateways(Operations):
    kind = NAT_GATEWAYS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tasks = context.tasks

    def methods(self) -> Methods:
        return {**super().methods(), "CreateNatGateway": self._create}

    def tasks(self) -> dict[str, Task]:
        return {
            "ec2.CreateNatGateway": self._finish_create,
            "ec2.DeleteNatGateway": self._finish_delete,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        if body.get("ConnectivityType", "public") != "public" or body.get("VpcId"):
            raise not_simulated("The rehearsal's cloud simulates zonal, public NAT gateways only.")
        if not body.get("AllocationId"):
            raise missing("AllocationId")
        if not body.get("SubnetId"):
            raise missing("subnetId")
        with self._store.lock:
            subnet = self._ec2.find(SUBNETS, params, body["SubnetId"])
            beside = nat_gateways(self._context, params["region"], zone=subnet["AvailabilityZone"])
            if len(beside) >= account_of(self._context).nat_gateways_per_zone:
                raise aws_error(
                    "NatGatewayLimitExceeded",
                    "Performing this operation would exceed the limit of "
                    f"{len(beside)} NAT gateways",
                )
            gateway = {
                "NatGatewayId": new_id("nat"),
                "SubnetId": subnet["SubnetId"],
                "VpcId": subnet["VpcId"],
                "State": "pending",
                "ConnectivityType": "public",
                "CreateTime": now(),
                "NatGatewayAddresses": [{"AllocationId": body["AllocationId"]}],
                "Tags": tags_of(body, "natgateway"),
                "_zone": subnet["AvailabilityZone"],
            }
            created = self._ec2.create(NAT_GATEWAYS, params, gateway)
        self._tasks.begin(
            "ec2.CreateNatGateway", region=params["region"], gateway=gateway["NatGatewayId"]
        )
        return {"NatGateway": created}

    def _finish_create(self, arguments: JsonObject) -> None:
        params = {"region": arguments["region"]}
        with self._store.lock:
            gateway = self._ec2.find(NAT_GATEWAYS, params, arguments["gateway"])
            if gateway["State"] != "pending":
                return
            failure = self._failure(params, gateway)
            if failure is None:
                gateway |= {"State": "available", **self._associated_address(params, gateway)}
            else:
                code, message = failure
                gateway |= {"State": "failed", "FailureCode": code, "FailureMessage": message}
            self._ec2.put(NAT_GATEWAYS, params, gateway)

    def _failure(self, params: JsonObject, gateway: JsonObject) -> tuple[str, str] | None:
        (allocation,) = (a["AllocationId"] for a in gateway["NatGatewayAddresses"])
        addresses = {a["AllocationId"]: a for a in self._ec2.all(ELASTIC_IPS, params)}
        if allocation not in addresses:
            return (
                "InvalidAllocationID.NotFound",
                f"Elastic IP address {allocation} could not be associated with this NAT gateway",
            )
        if addresses[allocation].get("AssociationId"):
            return (
                "Resource.AlreadyAssociated",
                f"Elastic IP address {allocation} is already associated",
            )
        attached = {
            a["VpcId"] for g in self._ec2.all(INTERNET_GATEWAYS, params) for a in g["Attachments"]
        }
        if gateway["VpcId"] not in attached:
            return (
                "Gateway.NotAttached",
                f"Network {gateway['VpcId']} has no Internet gateway attached",
            )
        return None

    def _associated_address(self, params: JsonObject, gateway: JsonObject) -> JsonObject:
        """What it has then, once its address knows of it."""
        (requested,) = gateway["NatGatewayAddresses"]
        address = self._ec2.find(ELASTIC_IPS, params, requested["AllocationId"])
        interface, association = new_id("eni"), new_id("eipassoc")
        self._ec2.put(
            ELASTIC_IPS,
            params,
            address | {"AssociationId": association, "NetworkInterfaceId": interface},
        )
        assigned = {
            **requested,
            "AssociationId": association,
            "IsPrimary": True,
            "NetworkInterfaceId": interface,
            "PublicIp": address["PublicIp"],
            "Status": "succeeded",
        }
        return {"NatGatewayAddresses": [assigned]}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            gateway = self._ec2.find(NAT_GATEWAYS, params, body["NatGatewayId"])
            if gateway["State"] in ("deleting", "deleted"):
                return {"NatGatewayId": gateway["NatGatewayId"]}
            self._ec2.put(NAT_GATEWAYS, params, gateway | {"State": "deleting"})
        self._tasks.begin(
            "ec2.DeleteNatGateway", region=params["region"], gateway=gateway["NatGatewayId"]
        )
        return {"NatGatewayId": gateway["NatGatewayId"]}

    def _finish_delete(self, arguments: JsonObject) -> None:
        """EC2 goes on showing it as deleted for about an hour; routes to it lead nowhere."""
        params = {"region": arguments["region"]}
        with self._store.lock:
            gateway = self._ec2.find(NAT_GATEWAYS, params, arguments["gateway"])
            allocations = {a["AllocationId"] for a in gateway["NatGatewayAddresses"]}
            for address in self._ec2.all(ELASTIC_IPS, params):
                if address["AllocationId"] in allocations and gateway["State"] == "deleting":
                    released_fields = ("AssociationId", "NetworkInterfaceId")
                    self._ec2.put(
                        ELASTIC_IPS,
                        params,
                        {k: v for k, v in address.items() if k not in released_fields},
                    )
            for table in self._ec2.all(ROUTE_TABLES, params):
                for route in table["Routes"]:
                    if route.get("NatGatewayId") == gateway["NatGatewayId"]:
                        route["State"] = "blackhole"
                self._ec2.put(ROUTE_TABLES, params, table)
            self._ec2.put(NAT_GATEWAYS, params, gateway | {"State": "deleted", "DeleteTime": now()})


def nat_gateways(
    context: Context,
    region: str,
    *,
    vpc: str | None = None,
    subnet: str | None = None,
    zone: str | None = None,
) -> list[JsonObject]:
    """Those that are there, in one of these if given; failed and deleted ones are none."""
    return [
        g
        for g in context.store.values(NAT_GATEWAYS, prefix=f"{region}/")
        if g["State"] in _EXISTING_STATES
        and vpc in (None, g["VpcId"])
        and subnet in (None, g["SubnetId"])
        and zone in (None, g["_zone"])
    ]

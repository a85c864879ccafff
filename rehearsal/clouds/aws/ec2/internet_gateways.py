"""Internet gateways."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.nat_gateways import nat_gateways
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import interfaces
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import dependency_violation, new_id, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import INTERNET_GATEWAYS, NODE_GROUPS, SUBNETS, VPCS
from slicewright.rehearsal.clouds.core.context import Methods


class InternetGateways(Operations):
    kind = INTERNET_GATEWAYS

    def methods(self) -> Methods:
        return {
            **super().methods(),
            "CreateInternetGateway": self._create,
            "AttachInternetGateway": self._attach,
            "DetachInternetGateway": self._detach,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        gateway = {
            "InternetGatewayId": new_id("igw"),
            "OwnerId": ACCOUNT,
            "Attachments": [],
            "Tags": tags_of(body, "internet-gateway"),
        }
        return {"InternetGateway": self._ec2.create(INTERNET_GATEWAYS, params, gateway)}

    def _attach(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._ec2.changing(INTERNET_GATEWAYS, params, body["InternetGatewayId"]) as gateway:
            self._ec2.find(VPCS, params, body["VpcId"])
            if gateway["Attachments"]:
                raise aws_error(
                    "Resource.AlreadyAssociated",
                    f"resource {gateway['InternetGatewayId']} is already attached to a network",
                )
            if self._ec2.attached_gateways(params, body["VpcId"]):
                raise aws_error(
                    "InvalidParameterValue",
                    f"Network {body['VpcId']} already has an internet gateway attached",
                )
            gateway["Attachments"] = [{"VpcId": body["VpcId"], "State": "available"}]
        return {}

    def _detach(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._ec2.changing(INTERNET_GATEWAYS, params, body["InternetGatewayId"]) as gateway:
            if not any(a["VpcId"] == body["VpcId"] for a in gateway["Attachments"]):
                raise aws_error(
                    "Gateway.NotAttached",
                    f"resource {gateway['InternetGatewayId']} is not attached to network "
                    f"{body['VpcId']}",
                )
            if self._has_addresses(params, body["VpcId"]):
                raise dependency_violation(
                    f"Network {body['VpcId']} has some mapped public address(es). "
                    "Please unmap those public address(es) before detaching the gateway."
                )
            gateway["Attachments"] = []
        return {}

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        if resource["Attachments"]:
            raise self._has_dependencies(resource)

    def _has_addresses(self, params: JsonObject, vpc: str) -> bool:
        """Public ones, of load balancers, NAT gateways and nodes."""
        inside = {
            s["SubnetId"]
            for s in self._ec2.all(SUBNETS, params)
            if s["VpcId"] == vpc and s["MapPublicIpOnLaunch"]
        }
        region = params["region"]
        balancers = interfaces(self._context, region, vpc=vpc)
        return (
            any(i["Description"].startswith("ELB ") for i in balancers)
            or bool(nat_gateways(self._context, region, vpc=vpc))
            or any(
                n["location"] in inside for g in self._store.values(NODE_GROUPS) for n in g["nodes"]
            )
        )

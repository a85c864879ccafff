"""The simulated Service Quotas: the limits of the account file, as clients ask for them."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.zones import in_known_regions
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError

_NAMES = {
    ("ec2", "L-417A185B"): "Running On-Demand P instances",
    ("ec2", "L-7212CCBC"): "All P Spot Instance Requests",
    ("ec2", "L-DB2E81BA"): "Running On-Demand G and VT instances",
    ("ec2", "L-3819A6DF"): "All G and VT Spot Instance Requests",
    ("ec2", "L-1216C47A"): "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    ("ec2", "L-0263D0A3"): "EC2-VPC Elastic IPs",
    ("vpc", "L-F678F1CE"): "VPCs per Region",
    ("vpc", "L-FE5A380F"): "NAT gateways per Availability Zone",
    ("eks", "L-6D54EA21"): "Managed node groups per cluster",
    ("eks", "L-BD136A63"): "Nodes per managed node group",
}
_NEVER_IN_THE_WAY = 10_000.0
"""Of a quota that the account file does not name and no simulated call counts against."""


class ServiceQuotas:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return in_known_regions({"GetServiceQuota": self._get}, _no_region)

    def _get(self, params: JsonObject, body: JsonObject) -> JsonObject:
        service, code = body["ServiceCode"], body["QuotaCode"]
        name = _NAMES.get((service, code))
        if name is None:
            raise aws_error(
                "NoSuchResourceException",
                f"The request failed because the specified quota {code} does not exist.",
            )
        quota = self._context.faults.quota(code)
        if quota is None:
            account = account_of(self._context)
            counted = {
                **account.vcpus,
                "L-0263D0A3": account.elastic_ips,
                "L-F678F1CE": account.vpcs,
                "L-FE5A380F": account.nat_gateways_per_zone,
                "L-6D54EA21": account.node_groups,
                "L-BD136A63": account.nodes_per_group,
            }
            quota = counted.get(code, _NEVER_IN_THE_WAY)
        region = params["region"]
        return {
            "Quota": {
                "ServiceCode": service,
                "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:{service}/{code}",
                "QuotaCode": code,
                "QuotaName": name,
                "Value": float(quota),
                "Unit": "None",
                "Adjustable": True,
                "GlobalQuota": False,
            }
        }


def _no_region(region: str) -> CloudError:
    return aws_error(
        "UnrecognizedClientException",
        f"The security token included in the request is invalid ({region} is not a region of this "
        "account)",
    )

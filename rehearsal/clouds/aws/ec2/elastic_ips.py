"""Elastic IP addresses."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.operations import Operations
from slicewright.rehearsal.clouds.aws.ec2.resources import new_id, tags_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import ELASTIC_IPS
from slicewright.rehearsal.clouds.core.context import Methods


class ElasticIps(Operations):
    kind = ELASTIC_IPS

    def methods(self) -> Methods:
        return {**super().methods(), "AllocateAddress": self._allocate}

    def _allocate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region = params["region"]
        with self._store.lock:
            used = {a["PublicIp"] for a in self._ec2.all(ELASTIC_IPS, params)}
            if len(used) >= account_of(self._context).elastic_ips:
                raise aws_error(
                    "AddressLimitExceeded", "The maximum number of addresses has been reached."
                )
            # Of TEST-NET-3 (RFC 5737): nobody's.
            free = (f"203.0.113.{n}" for n in range(1, 255))
            address = {
                "AllocationId": new_id("eipalloc"),
                "PublicIp": next(a for a in free if a not in used),
                "Domain": "vpc",
                "PublicIpv4Pool": "amazon",
                "NetworkBorderGroup": region,
                "Tags": tags_of(body, "elastic-ip"),
            }
            created = self._ec2.create(ELASTIC_IPS, params, address)
        return {k: v for k, v in created.items() if k != "Tags"}

    def _check_unused(self, params: JsonObject, resource: JsonObject) -> None:
        if resource.get("AssociationId"):
            raise aws_error("InvalidIPAddress.InUse", f"Address {resource['PublicIp']} is in use.")

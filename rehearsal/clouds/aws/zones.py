"""Regions and availability zones, and what each zone has.

A zone's name (eu-west-1a) is the account's own; its id (euw1-az2) is the same for everybody. The
regions' zones and what they offer are the product's data: there is one public record of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slicewright.infra import catalog
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import Account
from slicewright.rehearsal.clouds.core.context import Handler, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError

# Zones in which EKS has no room for control planes. Source: EKS user guide, "Amazon EKS networking
# requirements for VPC and subnets": use1-az3, usw1-az2, cac1-az3. apne1-az3 is not offered to new
# accounts at all.
_NO_CONTROL_PLANE = frozenset({"use1-az3", "usw1-az2", "cac1-az3", "apne1-az3"})


def is_region(name: str) -> bool:
    region = catalog.aws().regions.get(name)
    return region is not None and bool(region.zones)


def zone_ids(account: Account, region: str) -> Mapping[str, str]:
    """Zone name -> zone id, as this account sees them.

    The default account's letters begin at the second id, as if it had been dealt so: what is in
    "a" for one account is in "b" for another.
    """
    ids = catalog.aws().regions[region].zones if is_region(region) else ()
    dealt = [*ids[1:], *ids[:1]]
    names = {f"{region}{letter}": zone for letter, zone in zip("abcdef", dealt, strict=False)}
    return names | {k: v for k, v in account.zones.items() if k.startswith(region)}


def is_local_zone(name: str, region: str) -> bool:
    """Whether the zone is one such as us-west-2-lax-1a."""
    return name.startswith(f"{region}-")


def holds_control_planes(name: str, zone_id: str, region: str) -> bool:
    return zone_id not in _NO_CONTROL_PLANE and not is_local_zone(name, region)


def zones_with(instance_type: str, region: str) -> frozenset[str] | None:
    """The ids of the zones that have the type; None = all, because nothing is published of it."""
    offered = catalog.offerings().get(instance_type)
    return None if offered is None else frozenset(offered.get(region, ()))


def in_known_regions(methods: Methods, refusal: Callable[[str], CloudError]) -> Methods:
    """The methods, refused with `refusal(region)` in regions that the account does not have."""

    def guarded(handler: Handler) -> Handler:
        def answer(params: JsonObject, body: JsonObject) -> JsonObject:
            if not is_region(params["region"]):
                raise refusal(params["region"])
            return handler(params, body)

        return answer

    return {name: guarded(handler) for name, handler in methods.items()}

"""What EC2 tells about availability zones, and which instance types they have."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.machines import machines
from slicewright.rehearsal.clouds.aws.zones import is_local_zone, zone_ids, zones_with
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import not_simulated


class Zones:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {
            "DescribeAvailabilityZones": self._describe,
            "DescribeInstanceTypeOfferings": self._offerings,
        }

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region = params["region"]
        zones = zone_ids(account_of(self._context), region)
        names, ids = set(body.get("ZoneNames") or ()), set(body.get("ZoneIds") or ())
        unknown = sorted(names - set(zones)) + sorted(ids - set(zones.values()))
        if unknown:
            raise aws_error("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")
        return {
            "AvailabilityZones": [
                _describe_zone(name, zone_id, region)
                for name, zone_id in zones.items()
                if (not names or name in names) and (not ids or zone_id in ids)
            ]
        }

    def _offerings(self, params: JsonObject, body: JsonObject) -> JsonObject:
        kind = body.get("LocationType", "region")
        if kind == "outpost":
            raise not_simulated("The rehearsal's cloud does not simulate outposts.")
        conditions = {f["Name"]: set(f["Values"]) for f in body.get("Filters", [])}
        unknown = sorted(set(conditions) - {"location", "instance-type"})
        if unknown:
            raise aws_error("InvalidParameterValue", f"The filter '{unknown[0]}' is invalid")
        region = params["region"]
        names = zone_ids(account_of(self._context), region)
        offerings = []
        for instance_type in sorted(machines()):
            offered = zones_with(instance_type, region)
            zones = {n: z for n, z in names.items() if offered is None or z in offered}
            locations = {
                "region": [region] if zones else [],
                "availability-zone": sorted(zones),
                "availability-zone-id": sorted(zones.values()),
            }[kind]
            offerings += [
                {"InstanceType": instance_type, "LocationType": kind, "Location": location}
                for location in locations
                if location in conditions.get("location", {location})
                and instance_type in conditions.get("instance-type", {instance_type})
            ]
        return {"InstanceTypeOfferings": offerings}


def _describe_zone(name: str, zone_id: str, region: str) -> JsonObject:
    local = is_local_zone(name, region)
    return {
        "ZoneName": name,
        "ZoneId": zone_id,
        "ZoneType": "local-zone" if local else "availability-zone",
        "OptInStatus": "opted-in" if local else "opt-in-not-required",
        "RegionName": region,
        "GroupName": name[:-1] if local else region,
        "NetworkBorderGroup": name[:-1] if local else region,
        "State": "available",
        "Messages": [],
    }

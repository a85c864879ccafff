"""The API of the simulated EC2."""

from __future__ import annotations

from collections.abc import Callable

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.capacity_reservations import CapacityReservations, Running
from slicewright.rehearsal.clouds.aws.ec2.elastic_ips import ElasticIps
from slicewright.rehearsal.clouds.aws.ec2.fleets import Fleets, OfGroups
from slicewright.rehearsal.clouds.aws.ec2.instances import Instances, is_running
from slicewright.rehearsal.clouds.aws.ec2.internet_gateways import InternetGateways
from slicewright.rehearsal.clouds.aws.ec2.launch_templates import LaunchTemplates, find_template
from slicewright.rehearsal.clouds.aws.ec2.nat_gateways import NatGateways
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import NetworkInterfaces, is_gone
from slicewright.rehearsal.clouds.aws.ec2.placement_groups import PlacementGroups
from slicewright.rehearsal.clouds.aws.ec2.resources import API_NAMES, Resources, check_tags, key_of
from slicewright.rehearsal.clouds.aws.ec2.route_tables import RouteTables
from slicewright.rehearsal.clouds.aws.ec2.subnets import Subnets
from slicewright.rehearsal.clouds.aws.ec2.volumes import Volumes
from slicewright.rehearsal.clouds.aws.ec2.vpcs import Vpcs
from slicewright.rehearsal.clouds.aws.ec2.zones import Zones
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import (
    INSTANCES,
    LAUNCH_TEMPLATES,
    NAT_GATEWAYS,
    NETWORK_INTERFACES,
    SECURITY_GROUPS,
    SNAPSHOTS,
    VOLUMES,
)
from slicewright.rehearsal.clouds.aws.zones import in_known_regions
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError


class Ec2:
    def __init__(self, context: Context, running: Running, of_groups: OfGroups) -> None:
        self._store = context.store
        self._ec2 = Resources(context)
        self._parts = (
            Vpcs(context),
            InternetGateways(context),
            Subnets(context),
            RouteTables(context),
            ElasticIps(context),
            PlacementGroups(context),
            (gateways := NatGateways(context)),
            LaunchTemplates(context),
            NetworkInterfaces(context),
            Volumes(context),
            Zones(context),
            CapacityReservations(context, running),
            Instances(context, of_groups.instances),
            Fleets(context, of_groups),
        )
        context.tasks.register(gateways.tasks())

    def methods(self) -> Methods:
        handlers = {k: v for part in self._parts for k, v in part.methods().items()}
        handlers |= {"CreateTags": self._create_tags, "DeleteTags": self._delete_tags}
        return in_known_regions(handlers, _no_region)

    def inventory(self) -> list[JsonObject]:
        resources: list[JsonObject] = [
            {"kind": f"ec2.{kind.name.partition('/')[2][:-1]}", "name": key}
            for kind in (*API_NAMES, LAUNCH_TEMPLATES, VOLUMES, SNAPSHOTS)
            for key, resource in self._store.items(kind)
            # EC2 goes on showing NAT gateways that are gone.
            if kind is not NAT_GATEWAYS or resource["State"] not in ("deleted", "failed")
        ]
        resources += [
            {"kind": "ec2.instance", "name": key}
            for key, instance in self._store.items(INSTANCES)
            # EC2 goes on showing those that have ended.
            if is_running(instance)
        ]
        # A security group that its cluster keeps is not counted beside it.
        return resources + [
            {"kind": f"ec2.{kind.name.partition('/')[2][:-1]}", "name": key}
            for kind in (NETWORK_INTERFACES, SECURITY_GROUPS)
            for key, resource in self._store.items(kind)
            if not is_gone(resource) and not resource.get("_cluster")
        ]

    def _create_tags(self, params: JsonObject, body: JsonObject) -> JsonObject:
        new = {t["Key"]: t.get("Value", "") for t in body["Tags"]}
        return self._retag(params, body["Resources"], lambda old: old | new)

    def _delete_tags(self, params: JsonObject, body: JsonObject) -> JsonObject:
        gone = {t["Key"] for t in body.get("Tags", [])}
        return self._retag(
            params, body["Resources"], lambda old: {k: v for k, v in old.items() if k not in gone}
        )

    def _retag(
        self,
        params: JsonObject,
        identities: list[str],
        change: Callable[[dict[str, str]], dict[str, str]],
    ) -> JsonObject:
        kinds = {names.prefix: kind for kind, names in API_NAMES.items()} | {"lt": LAUNCH_TEMPLATES}
        with self._store.lock:
            for identity in identities:
                kind = kinds.get(identity.rpartition("-")[0])
                if kind is None:
                    raise aws_error("InvalidID", f"The ID '{identity}' is not valid")
                if kind is LAUNCH_TEMPLATES:
                    _, resource = find_template(self._store, params["region"], identity, None)
                else:
                    resource = self._ec2.find(kind, params, identity)
                tags = change({t["Key"]: t["Value"] for t in resource["Tags"]})
                check_tags(tags)
                resource["Tags"] = [{"Key": k, "Value": v} for k, v in sorted(tags.items())]
                self._store.put(kind, key_of(params, identity), resource)
        return {}


def _no_region(region: str) -> CloudError:
    """What EC2 answers in a region that is not enabled for the account."""
    return aws_error(
        "AuthFailure",
        f"AWS was not able to validate the provided access credentials ({region} is not a region "
        "of this account)",
        code=401,
    )

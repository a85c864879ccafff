"""Checks against the clouds' regions: their zones, Kubernetes versions and machine types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import AwsRegion, Machine
from slicewright.infra.plan.findings import Checked, Finding, Stated, listed, nearest, refuse, rule

_GCP_ZONES = "Compute Engine docs, regions and zones"
_AWS_ZONES = "EC2 user guide, Regions and Zones"
_NETWORK = "EKS user guide, VPC and subnet requirements"
_OFFERINGS = "EC2 DescribeInstanceTypeOfferings, recorded in getmoto/moto 5.2.5"
_REGIONS_SHOWN = 6
_REGION, _LOCATION = ("cluster", "region"), ("cluster", "location")


@rule("aws-region")
def aws_region(cluster: stack_file.EksCluster) -> Checked[AwsRegion | None]:
    """None if it is refused."""
    aws = catalog.aws()
    region = aws.regions.get(cluster.region)
    if region is None:
        yield _unknown("AWS", cluster.region, tuple(aws.regions), aws.day, _REGION, _AWS_ZONES)
    return region


def region_of_location(location: str) -> str:
    """Returns the region of a Google Cloud location: us-central1 for us-central1 and its zones."""
    return location[:-2] if location[-2] == "-" else location


@rule("gcp-region")
def gcp_region(location: str) -> Checked[str | None]:
    """The region of a location. None if it is refused."""
    gcp = catalog.gcp()
    region = region_of_location(location)
    if region not in gcp.zones:
        yield _unknown("Google Cloud", region, tuple(gcp.zones), gcp.day, _LOCATION, _GCP_ZONES)
        return None
    if location != region and location not in gcp.zones[region]:
        yield _not_a_zone(location, region, gcp.zones[region], _LOCATION, _GCP_ZONES)
        return None
    return region


def _unknown(
    cloud: str, region: str, regions: Sequence[str], day: date, path: stack_file.Path, source: str
) -> Finding:
    return refuse(
        path,
        f"{region} is not a region that {cloud} had on {day}",
        nearest(region, regions),
        source,
        dated=True,
    )


def _not_a_zone(
    zone: str, region: str, zones: Sequence[str], path: stack_file.Path, source: str
) -> Finding:
    return refuse(
        path,
        f"{zone} is not a zone of {region}",
        f"write one of {listed(zones)}",
        source,
        dated=True,
    )


@rule("gcp-zone")
def check_gcp_zones(
    zones: Sequence[str], region: str | None, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    """All zones are in the cluster's region, each listed once.

    zones: as the file states them, without defaults. region: None if it is refused.
    """
    if region is None or not stated.has(_LOCATION):
        return
    region_zones = catalog.gcp().zones[region]
    for i, zone in enumerate(zones):
        if zone in region_zones:
            continue
        if zone.startswith(f"{region}-"):
            yield _not_a_zone(zone, region, region_zones, (*path, i), _GCP_ZONES)
        else:
            letter = zone[-1] if f"{region}-{zone[-1]}" in region_zones else region_zones[0][-1]
            yield _elsewhere(zone, region, f"{region}-{letter}", (*path, i), _GCP_ZONES)
    yield from _check_once(zones, path)


@rule("aws-zone")
def check_aws_zones(
    zones: Sequence[str], region: AwsRegion | None, path: stack_file.Path, stated: Stated
) -> Checked[None]:
    """Checks zones as for Google Cloud, except that they are given by name or by id."""
    if region is None or not stated.has(_REGION):
        return
    for i, zone in enumerate(zones):
        at = (*path, i)
        if catalog.is_zone_id(zone):
            if region.zones and not _id_of(zone, region):
                yield _not_a_zone(zone, region.name, region.zones, at, _AWS_ZONES)
        elif (
            not zone.startswith(region.name)
            or zone[len(region.name) : len(region.name) + 1].isdigit()
            or zone == region.name
        ):
            yield _elsewhere(zone, region.name, f"{region.name}{zone[-1]}", at, _AWS_ZONES)
        elif len(zone) == len(region.name) + 1 and zone[-1] not in (region.letters or zone[-1]):
            names = [f"{region.name}{letter}" for letter in region.letters]
            yield _not_a_zone(zone, region.name, names, at, _AWS_ZONES)
    yield from _check_once(zones, path)


@rule("control-plane-zone")
def check_control_plane(
    zones: Sequence[str], region: AwsRegion | None, stated: Stated
) -> Checked[None]:
    """Refuses zones known not to hold a control plane: Local Zones, and other zones by id."""
    if region is None or not stated.has(_REGION):
        return
    for i, zone in enumerate(zones):
        if zone in catalog.aws().no_control_plane or _is_local(zone, region):
            kind = "a Local Zone" if _is_local(zone, region) else "a zone without room for them"
            yield refuse(
                ("cluster", "zones", i),
                f"EKS makes no control plane in {zone}, {kind}",
                f"choose two of {listed(control_plane_zones(region))}; a pool may be in {zone}",
                _NETWORK,
                dated=not _is_local(zone, region),
            )


def control_plane_zones(region: AwsRegion) -> tuple[str, ...]:
    """Ids of the zones where EKS makes control planes. Empty: unknown."""
    return tuple(zone for zone in region.zones if zone not in catalog.aws().no_control_plane)


def without_control_planes(region: AwsRegion) -> tuple[str, ...]:
    """Ids of the zones where EKS makes no control planes."""
    return tuple(sorted(zone for zone in catalog.aws().no_control_plane if _id_of(zone, region)))


@rule("zone-spelling")
def check_one_spelling(fleet: stack_file.EksFleet, region: AwsRegion | None) -> Checked[None]:
    """Zones by name or by id: only the account knows whether two of them are the same."""
    first: dict[bool, str] = {}
    for path, zone in _stated_zones(fleet):
        by_id = catalog.is_zone_id(zone)
        first.setdefault(by_id, zone)
        if len(first) == 1:
            continue
        other = first[not by_id]
        yield refuse(
            path,
            f"{zone} is a zone's {'id' if by_id else 'name'} and {other} "
            f"{'a name' if by_id else 'an id'}: which zone a name means differs from account to "
            "account, so the two may be the same",
            "write all zones of the file by id, or all by name",
            _AWS_ZONES,
        )
        return
    if fleet.cluster.zones is None and True in first and region is not None:
        able = control_plane_zones(region)
        chosen = tuple(dict.fromkeys((*(z for z in (first[True],) if z in able), *able)))[:2]
        yield refuse(
            ("cluster", "zones"),
            f"is required: {first[True]} is a zone's id, and the control plane's default zones "
            "are given by name",
            f"write [{listed(chosen)}]" if len(chosen) == 2 else "write two ids of zones",
        )


def _stated_zones(fleet: stack_file.EksFleet) -> Iterator[tuple[stack_file.Path, str]]:
    places: list[tuple[stack_file.Path, Sequence[str] | None]] = [
        (("cluster", "zones"), fleet.cluster.zones),
        (("system_pool", "zones"), fleet.system_pool.zones),
        *((("node_pools", i, "zones"), p.zones) for i, p in enumerate(fleet.node_pools)),
    ]
    for path, zones in places:
        yield from (((*path, i), zone) for i, zone in enumerate(zones or ()))


def offered_zones(machine: Machine, region: AwsRegion) -> tuple[str, ...] | None:
    """Ids of the region's zones that have the machine type. None: unknown."""
    by_region = catalog.offerings().get(machine.name)
    return by_region.get(region.name, ()) if by_region and region.zones else None


@rule("machine-type-offer")
def check_offered_there(
    machine: Machine,
    region: AwsRegion | None,
    zones: Sequence[str],
    path: stack_file.Path,
    stated: Stated,
    *,
    at: stack_file.Path | None = None,
) -> Checked[None]:
    """path: of the pool. at: the key of the machine type, if not machine_type."""
    if region is None or not stated.has(_REGION):
        return
    offering_zones = offered_zones(machine, region)
    if offering_zones is None:
        return
    if not offering_zones:
        regions = [*catalog.offerings()[machine.name]]
        more = len(regions) - _REGIONS_SHOWN
        yield refuse(
            at or (*path, "machine_type"),
            f"{machine.name} is not offered in {region.name}",
            f"regions that have it: {listed(regions[:_REGIONS_SHOWN])}"
            + (f" and {more} more" if more > 0 else ""),
            _OFFERINGS,
            dated=True,
        )
        return
    for zone in zones:
        if catalog.is_zone_id(zone) and zone in region.zones and zone not in offering_zones:
            yield refuse(
                at or (*path, "zones"),
                f"{machine.name} is not offered in {zone}",
                f"zones of {region.name} that have it: {listed(offering_zones)}",
                _OFFERINGS,
                dated=True,
            )


def _id_of(zone: str, region: AwsRegion) -> bool:
    if not region.zones:
        return False
    prefix = region.zones[0].rpartition("-az")[0]
    local = zone.startswith(f"{prefix}-") and zone.count("-") > 1
    unable = zone in catalog.aws().no_control_plane and zone.startswith(f"{prefix}-")
    return zone in region.zones or local or unable


def _is_local(zone: str, region: AwsRegion) -> bool:
    if catalog.is_zone_id(zone):
        return zone.count("-") > 1
    return zone.startswith(f"{region.name}-")


def _elsewhere(zone: str, region: str, example: str, path: stack_file.Path, source: str) -> Finding:
    return refuse(
        path,
        f"{zone} is not a zone of {region}, where the cluster is",
        f"for example {example}, or move the cluster",
        source,
    )


@rule("zone-duplicate")
def _check_once(zones: Sequence[str], path: stack_file.Path) -> Checked[None]:
    if len(set(zones)) == len(zones):
        return
    for zone, times in Counter(zones).items():
        if times > 1:
            yield refuse(
                path, f"{zone} is listed {times} times", "name each zone once", "GKE and EC2 APIs"
            )


@rule("key-region")
def check_key_region(
    arn: str, path: stack_file.Path, region: AwsRegion | None, user: str, source: str
) -> Checked[None]:
    """Refuses a KMS key of another region or partition. user: the key's user, as `the nodes are`.
    region: None if it is not in the catalog.
    """
    if region is None:
        return
    _, partition, _, of, *_ = arn.split(":")
    if (partition, of) != (region.partition, region.name):
        yield refuse(
            path,
            f"is a key of {of} in partition {partition}, and {user} in {region.name} in "
            f"partition {region.partition}",
            f"write a key of {region.name}",
            source,
        )

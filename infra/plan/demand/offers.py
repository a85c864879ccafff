"""The zones of a cluster that offer a machine type."""

from __future__ import annotations

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.machines.regions import offered_zones, region_of_location

CloudFleet = stack_file.GkeFleet | stack_file.EksFleet


def region_of(fleet: CloudFleet) -> str:
    """Returns the region of the cluster."""
    if isinstance(fleet, stack_file.EksFleet):
        return fleet.cluster.region
    return region_of_location(fleet.cluster.location)


def zones_for(fleet: CloudFleet, machine: Machine) -> tuple[str, ...] | None:
    """Returns the zones of the cluster that offer the machine type. Empty: none does. None: they
    are unknown, as those of AWS are where the stack file has names, which differ by account.
    """
    if isinstance(fleet, stack_file.EksFleet):
        return _aws_zones(fleet, machine)
    region, location = region_of(fleet), fleet.cluster.location
    zones = machine.zones if machine.zones is not None else catalog.gcp().zones.get(region)
    if zones is None:
        return None
    return tuple(zone for zone in zones if zone == location or zone.startswith(f"{location}-"))


def _aws_zones(fleet: stack_file.EksFleet, machine: Machine) -> tuple[str, ...] | None:
    zones = offered_zones(machine, catalog.aws_region(fleet.cluster.region))
    stated = fleet.cluster.zones or ()
    if not zones:
        return zones
    if not stated or not all(map(catalog.is_zone_id, stated)):
        return None
    return tuple(zone for zone in stated if zone in zones)

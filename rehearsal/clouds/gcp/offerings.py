"""What Compute Engine tells of quotas, and a zone's machine types and reservations."""

from __future__ import annotations

from slicewright.infra import catalog
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.compute_answers import API, common
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke import quotas
from slicewright.rehearsal.clouds.gcp.gke.defaults import region_of, zones_of
from slicewright.rehearsal.clouds.gcp.gke.reservations import reservation_of
from slicewright.rehearsal.clouds.gcp.machines import machines


class Offerings:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {
            "projects.get": self._project,
            "regions.get": self._region,
            "machineTypes.get": _machine_type,
            "reservations.get": self._reservation,
        }

    def _region(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, region = params["project"], params["region"]
        if region not in catalog.gcp().zones:
            raise _missing(f"projects/{project}/regions/{region}")
        link = f"{API}/projects/{project}/regions/{region}"
        return {
            **common(link, "compute#region"),
            "name": region,
            "status": "UP",
            "zones": [f"{API}/projects/{project}/zones/{zone}" for zone in zones_of(region)],
            "quotas": quotas.region_quotas(self._context, project, region),
        }

    def _project(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project = params["project"]
        return {
            **common(f"{API}/projects/{project}", "compute#project"),
            "name": project,
            "quotas": quotas.shown_of_project(self._context, project),
        }

    def _reservation(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, zone, name = params["project"], params["zone"], params["reservation"]
        path = f"projects/{project}/zones/{zone}/reservations/{name}"
        reservation = reservation_of(self._context, project, zone, name)
        if reservation is None:
            raise _missing(path)
        link = f"{API}/{path}"
        where = f"{API}/projects/{project}/zones/{zone}"
        return {**common(link, "compute#reservation"), "zone": where, **reservation}


def _machine_type(params: JsonObject, body: JsonObject) -> JsonObject:
    project, zone, name = params["project"], params["zone"], params["machineType"]
    path = f"projects/{project}/zones/{zone}/machineTypes/{name}"
    machine = machines().get(name)
    offered = machine is not None and (machine.zones is None or zone in machine.zones)
    if machine is None or not offered or zone not in zones_of(region_of(zone)):
        raise _missing(path)
    return {
        **common(f"{API}/{path}", "compute#machineType"),
        "name": name,
        "zone": zone,
        "guestCpus": machine.vcpu,
        "memoryMb": machine.ram_gib * 1024,
        "architecture": {"amd64": "X86_64", "arm64": "ARM64"}[machine.architecture],
    }


def _missing(path: str) -> CloudError:
    return google_error(404, f"The resource '{path}' was not found")

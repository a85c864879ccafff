"""Shared by the resources: project, location, region and network, and waiting for an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import Session
from slicewright.rehearsal.plugins.bridge.waiting import wait_until
from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties

BUSY_REASONS = frozenset({"FAILED_PRECONDITION"})
"""Of clusters and node pools: another operation runs.

Source: hashicorp/terraform-provider-google, services/container (retryWhileIncompatibleOperation).
"""


def project_of(session: Session, inputs: Mapping[str, Any]) -> str:
    """The resource's project, else the provider's."""
    project = inputs.get("project") or session.settings.get("project")
    if not project:
        raise ProviderError(
            "project: required field is not set; set gcp:project, the provider's project, "
            "or the resource's project"
        )
    return str(project)


def location_of(session: Session, inputs: Mapping[str, Any]) -> str:
    """The resource's location, else the provider's region, else its zone."""
    location = (
        inputs.get("location") or session.settings.get("region") or session.settings.get("zone")
    )
    if not location:
        raise ProviderError(
            "location: cannot determine location; set the resource's location, or the "
            "provider's region or zone"
        )
    return str(location)


def region_of(session: Session, inputs: Mapping[str, Any]) -> str:
    """The resource's region, else the provider's."""
    region = inputs.get("region") or session.settings.get("region")
    if not region:
        raise ProviderError(
            "region: cannot determine region; set the resource's region, gcp:region, or "
            "the provider's region"
        )
    return str(region)


def last(path: str) -> str:
    """The last segment of a path or self link."""
    return path.rpartition("/")[2]


def network_as_given(inputs: Properties, resource: JsonObject) -> Properties:
    """The network of a resource as the program wrote it, where that is still the one: a name, a
    partial path and a full self link name the same. Empty where it is not.
    """
    if last(str(inputs.get("network", ""))) != last(resource["network"]):
        return {}
    return {"network": inputs["network"]}


def or_none(session: Session, service: str, method: str, params: JsonObject) -> JsonObject | None:
    """The answer of a get; None for 404."""
    try:
        return session.cloud.call(service, method, params)
    except CloudError as e:
        if e.code == 404:
            return None
        raise


def operation_error(session: Session, operation: JsonObject) -> str | None:
    """Waits for a Kubernetes Engine operation. Returns its error message, None if it succeeded."""
    link: str = operation["targetLink"]
    _, project, _, location = link.partition("/v1/")[2].split("/")[:4]
    name = f"projects/{project}/locations/{location}/operations/{operation['name']}"

    def poll() -> JsonObject | None:
        operation = session.cloud.call(
            "container", "projects.locations.operations.get", {"name": name}
        )
        return operation if operation["status"] == "DONE" else None

    done = wait_until(
        session, f"operation {operation['name']} ({operation['operationType']} {last(link)})", poll
    )
    error = done.get("error")
    return str(error["message"]) if error else None


def complete(session: Session, operation: JsonObject) -> None:
    """Waits for an operation that must succeed. Raises ProviderError if it fails."""
    message = operation_error(session, operation)
    if message is not None:
        raise ProviderError(
            f"Error waiting for {operation['operationType']} "
            f"{last(operation['targetLink'])}: {message}"
        )

"""What every service of the simulated clouds works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.control_planes import ControlPlanes
from slicewright.rehearsal.clouds.core.faults import Faults
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.core.tasks import Tasks

Handler = Callable[[JsonObject, JsonObject], JsonObject]
"""(params, body) -> the cloud's answer. Raises CloudError."""
Methods = Mapping[str, Handler]
"""Name of an API operation -> what answers it."""


@dataclass(frozen=True)
class Context:
    store: Store
    tasks: Tasks
    planes: ControlPlanes
    faults: Faults
    ready_timeout_s: float = 120.0
    """How long new nodes may take to become Ready; real clouds wait 15 to 35 minutes."""


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def now_precisely() -> str:
    """Of what clouds date to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def made_in(resource: JsonObject, cluster_created: str) -> str:
    """When a cluster's object, and what it has in the cloud, was made: after the cluster."""
    created = (resource.get("metadata") or {}).get("creationTimestamp")
    return str(created or a_moment_after(cluster_created))


def a_moment_after(text: str) -> str:
    """The first time after that one which can be told from it."""
    later = datetime.fromisoformat(text) + timedelta(milliseconds=1)
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z")

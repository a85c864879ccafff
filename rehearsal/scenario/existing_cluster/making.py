"""Making an existing cluster in an environment, and comparing it with what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from infra.plan import ByoFleetPlan
from kubeapi import Client
from rehearsal.clouds.core.control_planes import LocalControlPlanes
from rehearsal.clouds.core.node_api import NotReady
from rehearsal.cluster.control_plane import ControlPlaneError
from rehearsal.scenario.environment import Environment
from rehearsal.scenario.errors import RehearsalError
from rehearsal.scenario.existing_cluster import record
from rehearsal.scenario.existing_cluster.nodes import node_objects

_READY_S: Final = 60.0
_SETTLED_S: Final = 30.0
"""How long what follows from a deletion may take: garbage collection, and a namespace's end."""


def start(environment: Environment, fleet: ByoFleetPlan) -> None:
    """Starts the cluster of the fleet, with its nodes; what runs or is there already stays.

    Writes the user's kubeconfig, with the context that the stack file names, and at the first call
    a record of every object. Raises RehearsalError.
    """
    assert fleet.cluster is not None, "stack_check refuses hosts without a cluster"
    name = fleet.cluster.name
    planes = LocalControlPlanes(environment.root)
    try:
        planes.start(name)
        nodes = planes.nodes(name)
        objects = list(node_objects(fleet))
        for node in objects:
            nodes.register(node)
        nodes.wait_ready([n["metadata"]["name"] for n in objects], timeout_s=_READY_S)
    except (ControlPlaneError, NotReady) as e:
        raise RehearsalError(f"existing cluster {name}: {e}") from e
    admin = environment.kubeconfigs()[name]
    _write_kubeconfig(environment.user_kubeconfig, admin, fleet.cluster.context)
    before = _record_of(environment, name)
    if not before.exists():
        found = record.settled(Client.from_kubeconfig(admin), timeout_s=_SETTLED_S)
        before.write_text(json.dumps(found))


def differences(environment: Environment, fleet: ByoFleetPlan) -> tuple[str, ...]:
    """What differs from the cluster as it was made, once what is being deleted is gone."""
    assert fleet.cluster is not None
    name = fleet.cluster.name
    client = Client.from_kubeconfig(environment.kubeconfigs()[name])
    before = json.loads(_record_of(environment, name).read_text())
    return record.wait_until_same(client, before, timeout_s=_SETTLED_S)


def _record_of(environment: Environment, name: str) -> Path:
    return environment.root / "clusters" / name / "as-it-was.json"


def _write_kubeconfig(path: Path, admin: Path, context: str) -> None:
    """The administrator's, under the name of context that the user's stack file has."""
    config = json.loads(admin.read_text())
    (only,) = config["contexts"]
    only["name"] = config["current-context"] = context
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(config, indent=1))
    new.replace(path)

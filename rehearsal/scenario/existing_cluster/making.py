"""Making an existing cluster in an environment, and comparing it with what it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slicewright.infra.plan import AdapterPlan, ExistingFleetPlan
from slicewright.infra.stack_file import ExistingPrometheus
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.rehearsal.clouds.core.control_planes import LocalControlPlanes
from slicewright.rehearsal.clouds.core.node_api import NotReady
from slicewright.rehearsal.cluster.control_plane import ControlPlaneError
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import RehearsalError
from slicewright.rehearsal.scenario.existing_cluster import (
    certificates,
    leftovers,
    operator_to_adopt,
    prometheus,
    record,
)
from slicewright.rehearsal.scenario.existing_cluster.nodes import node_objects

_RECORD: Final = "as-it-was.json"
_READY_S: Final = 60.0
_SETTLED_S: Final = 120.0
"""How long what follows from a deletion may take: garbage collection, and a namespace's end."""
_AGAIN_S: Final = 0.5


def make(environment: Environment, fleet: ExistingFleetPlan) -> None:
    """Makes the cluster of the fleet with its nodes, a record of every object in it, and the user's
    kubeconfig with the context that the stack file names. It has cert-manager, Prometheus and a GPU
    operator if the fleet asks for them. Raises RehearsalError.
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
    client = Client.from_kubeconfig(admin)
    if isinstance(fleet.pod_autoscaling, AdapterPlan):
        with _making(name, "cert-manager"):
            certificates.install(client)
    if fleet.monitoring is not None and isinstance(fleet.monitoring.settings, ExistingPrometheus):
        with _making(name, "Prometheus"):
            prometheus.install(client, fleet.monitoring.settings)
    if fleet.operator.existing:
        with _making(name, "GPU operator"):
            operator_to_adopt.install(client, fleet)
    found = record.settled(client, timeout_s=_SETTLED_S)
    (admin.parent / _RECORD).write_text(json.dumps(found))


@contextmanager
def _making(cluster: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ApiError, Unreachable) as e:
        raise RehearsalError(f"existing cluster {cluster}: {what}: {e}") from e


def restart(environment: Environment) -> bool:
    """Starts what does not run of the cluster that was made; False where there is none.

    The stack file may have changed since, or be broken: it is not read. Raises RehearsalError.
    """
    made = _made(environment)
    if made is None:
        return False
    try:
        LocalControlPlanes(environment.root).start(made.name)
    except ControlPlaneError as e:
        raise RehearsalError(f"existing cluster {made.name}: {e}") from e
    return True


@dataclass(frozen=True, kw_only=True)
class Differences:
    """Between a cluster and what it was: a line each."""

    of_operator: tuple[str, ...]
    """What NVIDIA's chart leaves when it is uninstalled, or what an operator that stays has done
    meanwhile (`leftovers`).
    """
    others: tuple[str, ...]


def differences(environment: Environment) -> Differences:
    """What differs from the cluster as it was made, once what is being deleted is gone. An operator
    that was adopted gets its settings back first, as by its owner.
    """
    made = _made(environment)
    assert made is not None, "only for an environment with such a cluster"
    client = Client.from_kubeconfig(environment.kubeconfigs()[made.name])
    before = json.loads((made / _RECORD).read_text())
    operators = operator_to_adopt.namespace_in(before)
    if operators is not None:
        operator_to_adopt.set_back(client, before)
    deadline = time.monotonic() + _SETTLED_S
    while True:
        found = record.compare(before, record.read(client))
        expected = (
            leftovers.of_uninstalled(found)
            if operators is None
            else leftovers.of_adopted(found, operators)
        )
        others = tuple(line for line in found if line not in expected)
        if not others or time.monotonic() > deadline:
            return Differences(
                of_operator=tuple(line for line in found if line in expected), others=others
            )
        time.sleep(_AGAIN_S)


def _made(environment: Environment) -> Path | None:
    """The directory of the cluster; named after it."""
    found = next(environment.root.glob(f"clusters/*/{_RECORD}"), None)
    return found.parent if found else None


def _write_kubeconfig(path: Path, admin: Path, context: str) -> None:
    """The administrator's, under the name of context that the user's stack file has."""
    config = json.loads(admin.read_text())
    (only,) = config["contexts"]
    only["name"] = config["current-context"] = context
    new = path.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(config, indent=1))
    new.replace(path)

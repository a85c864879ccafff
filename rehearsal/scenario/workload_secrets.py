"""The Secrets that a stack's workloads name: a rehearsal makes them, with values of its own.

A stack file has no secret values, and on a real cluster somebody makes the Secrets while `pulumi
up` runs; without them the pods would wait until its timeout.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from infra.plan import FleetPlan
from kubeapi import ApiError, Client, Unreachable
from rehearsal.scenario.environment import Environment

LABEL: Final = "rehearsal.slicewright.io/simulated"
_LOOK_S: Final = 0.5


def wanted(fleet: FleetPlan) -> Iterator[dict[str, Any]]:
    """A Secret for every name that the workloads of a namespace refer to, with all its keys."""
    keys: dict[tuple[str, str], set[str]] = {}
    for one in fleet.deployments:
        for of in one.asked.secrets.values():
            keys.setdefault((one.namespace, of.name), set()).add(of.key)
    for (namespace, name), found in sorted(keys.items()):
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": {LABEL: "true"}},
            "stringData": {key: f"simulated-{secrets.token_urlsafe(24)}" for key in sorted(found)},
        }


class WorkloadSecrets:
    """Makes them in the background, each as soon as its namespace is there."""

    def __init__(
        self, environment: Environment, fleet: FleetPlan, say: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._say = say
        self._left = list(wanted(fleet))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> WorkloadSecrets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while self._left and not self._stop.is_set():
            for path in self._environment.kubeconfigs().values():
                try:
                    client = Client.from_kubeconfig(path)
                    self._left = [one for one in self._left if not self._make(client, one)]
                except (Unreachable, ValueError, OSError):
                    continue  # the cluster comes up
            self._stop.wait(_LOOK_S)

    def _make(self, client: Client, secret: dict[str, Any]) -> bool:
        """Whether it is there now."""
        name, namespace = secret["metadata"]["name"], secret["metadata"]["namespace"]
        try:
            client.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
        except ApiError as e:
            return e.status == 409  # somebody has made it; 404: the namespace comes later
        keys = ", ".join(secret["stringData"])
        self._say(f"simulated: Secret {namespace}/{name} ({keys}), for the workloads that name it")
        return True


def remove(environment: Environment) -> None:
    """Deletes them from clusters that stay. Raises ApiError, Unreachable."""
    for path in environment.kubeconfigs().values():
        client = Client.from_kubeconfig(path)
        for found in client.get("/api/v1/secrets", labelSelector=LABEL)["items"]:
            of = found["metadata"]
            try:
                client.delete(f"/api/v1/namespaces/{of['namespace']}/secrets/{of['name']}")
            except ApiError as e:
                if e.status != 404:
                    raise

"""What a stack's workloads name and the stack does not make: Secrets, and classes of volumes.

On a real cluster its owner makes them while `pulumi up` runs; without them the pods would wait
until its timeout. A rehearsal makes the Secrets with values of its own, because a stack file has
none, and StorageClasses whose volumes the kubelet stand-in makes.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from slicewright.infra.plan import FleetPlan
from slicewright.infra.stack_file import NewVolume, TritonWorkload
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster.kubelet.pods import provisioner
from slicewright.rehearsal.scenario.environment import Environment

LABEL: Final = "rehearsal.slicewright.io/simulated"
_LOOK_S: Final = 0.5
_PLURALS: Final = {"Secret": "secrets", "StorageClass": "storageclasses"}


def wanted(fleet: FleetPlan) -> Iterator[dict[str, Any]]:
    """What is to be made, Secrets last: namespaces come later than the cluster."""
    yield from _storage_classes(fleet)
    yield from _secrets(fleet)


def _storage_classes(fleet: FleetPlan) -> Iterator[dict[str, Any]]:
    """As a driver of network file systems brings them."""
    caches = [
        one.workload.cache
        for one in fleet.deployments
        if not isinstance(one.workload, TritonWorkload)
    ]
    names = {
        cache.storage_class
        for cache in caches
        if isinstance(cache, NewVolume) and cache.storage_class is not None
    }
    for name in sorted(names):
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "labels": {LABEL: "true"}},
            "provisioner": provisioner.NAME,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        }


def _secrets(fleet: FleetPlan) -> Iterator[dict[str, Any]]:
    """A Secret for every name that the workloads of a namespace refer to, with all its keys."""
    keys: dict[tuple[str, str], set[str]] = {}
    for one in fleet.deployments:
        for of in one.workload.secrets.values():
            keys.setdefault((one.namespace, of.name), set()).add(of.key)
    for (namespace, name), found in sorted(keys.items()):
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": {LABEL: "true"}},
            "stringData": {key: f"simulated-{secrets.token_urlsafe(24)}" for key in sorted(found)},
        }


class WorkloadNeeds:
    """Makes them in the background, each as soon as its namespace is there."""

    def __init__(
        self, environment: Environment, fleet: FleetPlan, say: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._say = say
        self._left = list(wanted(fleet))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> WorkloadNeeds:
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

    def _make(self, client: Client, made: dict[str, Any]) -> bool:
        """Whether it is there now."""
        name, namespace = made["metadata"]["name"], made["metadata"].get("namespace")
        try:
            client.create(
                path_of(made["apiVersion"], _PLURALS[made["kind"]], None, namespace), made
            )
        except ApiError as e:
            return e.status == 409  # somebody has made it; 404: the namespace comes later
        if made["kind"] == "Secret":
            keys = ", ".join(made["stringData"])
            what = f"Secret {namespace}/{name} ({keys})"
        else:
            what = f"StorageClass {name}"
        self._say(f"simulated: {what}, for the workloads that name it")
        return True


def remove(environment: Environment) -> None:
    """Deletes them from clusters that stay. Raises ApiError, Unreachable."""
    for path in environment.kubeconfigs().values():
        client = Client.from_kubeconfig(path)
        for of_all in ("/api/v1/secrets", "/apis/storage.k8s.io/v1/storageclasses"):
            for found in client.get(of_all, labelSelector=LABEL)["items"]:
                of = found["metadata"]
                version, _, plural = (
                    of_all.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
                )
                try:
                    client.delete(path_of(version, plural, of["name"], of.get("namespace")))
                except ApiError as e:
                    if e.status != 404:
                        raise

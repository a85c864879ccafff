"""The nodes of one cluster, as a cloud handles them through the cluster's API server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable
from slicewright.rehearsal.clouds.core.taints import Taint, changed_taints
from slicewright.rehearsal.cluster.control_plane.kubelets import (
    controller_of,
    kubelet_may_label,
    kubelet_of,
)

VOLUME_SNAPSHOTS = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents"
"""Of clusters that have the snapshot controller's CRDs."""
_FIELD_MANAGER = "rehearsal-cloud"


class NotReady(Exception):
    """Nodes did not become Ready in time; the message names them."""


class NodeApi(Protocol):
    """What a simulated cloud does in a cluster. Every method can be repeated after a crash."""

    def register(self, node: JsonObject) -> None:
        """The machine has booted and its kubelet has registered.

        The cloud's node controller has set the labels that no kubelet may set.
        """

    def update(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None],
        add_taints: Sequence[Taint],
        remove_taints: Sequence[Taint],
    ) -> None:
        """Changes these labels (None = remove) and taints and no others; no node, no change."""

    def remove(self, name: str) -> None:
        """Cordons the node, ends its pods, deletes it."""

    def names(self) -> set[str]: ...

    def wait_ready(self, names: Sequence[str], *, timeout_s: float) -> None:
        """Raises NotReady."""

    def listed(self, path: str, **query: str) -> list[JsonObject]:
        """The objects under this path of the API; none where no API server answers."""

    def install(self, path: str, manifest: JsonObject) -> None:
        """Creates or replaces one object of the cloud's own add-ons."""

    def create(self, path: str, manifest: JsonObject) -> None:
        """In the collection at `path`, if it is not there."""

    def merge(self, path: str, patch: JsonObject) -> None:
        """Into the object at `path`, or into its status at `path`/status; none, no change."""

    def delete(self, path: str) -> None:
        """The object at `path`, if it is there; it stays while it has finalizers."""


@dataclass(frozen=True)
class ApiServerNodes:
    """NodeApi over a real API server."""

    kubeconfig: Path
    pods_grace_s: float = 3.0
    """How long ordinary pods get to end before the machine is gone; real clouds give up to 1 h."""

    @cached_property
    def _client(self) -> Client:
        return Client.from_kubeconfig(self.kubeconfig, user_agent="rehearsal-cloud")

    def register(self, node: JsonObject) -> None:
        metadata = node["metadata"]
        name, labels = metadata["name"], metadata["labels"]
        by_cloud = {key: value for key, value in labels.items() if not kubelet_may_label(key)}
        by_kubelet = {key: value for key, value in labels.items() if key not in by_cloud}
        registered = {**node, "metadata": {**metadata, "labels": by_kubelet}}
        try:
            kubelet_of(self._client, name).create("/api/v1/nodes", registered)
        except ApiError as e:
            if e.reason != "AlreadyExists":
                raise
        if by_cloud:
            controller = controller_of(self._client, "node-controller")
            with _unless_gone():
                controller.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": by_cloud}})

    def update(
        self,
        name: str,
        *,
        labels: Mapping[str, str | None],
        add_taints: Sequence[Taint],
        remove_taints: Sequence[Taint],
    ) -> None:
        client = self._client
        for attempt in range(8):
            try:
                node = client.get(f"/api/v1/nodes/{name}")
                taints = changed_taints(
                    node["spec"].get("taints", []), add=add_taints, remove=remove_taints
                )
                patch = {
                    "metadata": {
                        "labels": dict(labels),
                        "resourceVersion": node["metadata"]["resourceVersion"],
                    },
                    "spec": {"taints": taints or None},
                }
                client.patch(f"/api/v1/nodes/{name}", patch)
                return
            except ApiError as e:
                if e.reason == "NotFound":
                    return
                if e.reason != "Conflict" or attempt == 7:
                    raise

    def remove(self, name: str) -> None:
        client = self._client
        try:
            client.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
            self._end_pods(client, name)
            client.delete(f"/api/v1/nodes/{name}")
        except ApiError as e:
            if e.reason != "NotFound":
                raise
        # The machine is gone: no kubelet is left to confirm that these pods have ended.
        for pod in _pods_on(client, name):
            _delete_pod(client, pod, grace_s=0)

    def _end_pods(self, client: Client, name: str) -> None:
        pods = [p for p in _pods_on(client, name) if not _is_bound_to_node(p)]
        for pod in pods:
            _delete_pod(client, pod, grace_s=None)
        deadline = time.monotonic() + self.pods_grace_s
        while pods and time.monotonic() < deadline:
            time.sleep(0.1)
            pods = [p for p in _pods_on(client, name) if not _is_bound_to_node(p)]

    def names(self) -> set[str]:
        return {n["metadata"]["name"] for n in self._client.get("/api/v1/nodes")["items"]}

    def wait_ready(self, names: Sequence[str], *, timeout_s: float) -> None:
        client = self._client
        deadline = time.monotonic() + timeout_s
        missing = set(names)
        while missing:
            try:
                nodes = client.get("/api/v1/nodes")["items"]
                missing = set(names) - {n["metadata"]["name"] for n in nodes if _is_ready(n)}
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
            if missing and time.monotonic() > deadline:
                raise NotReady(f"not Ready after {timeout_s:.0f} s: {', '.join(sorted(missing))}")
            if missing:
                time.sleep(0.1)

    def listed(self, path: str, **query: str) -> list[JsonObject]:
        if not self.kubeconfig.exists():
            return []
        try:
            objects: list[JsonObject] = self._client.get(path, **query)["items"]
        except (ApiError, Unreachable):
            return []
        return objects

    def install(self, path: str, manifest: JsonObject) -> None:
        self._client.patch(
            f"{path}/{manifest['metadata']['name']}",
            manifest,
            kind="apply",
            fieldManager=_FIELD_MANAGER,
            force="true",
        )

    def create(self, path: str, manifest: JsonObject) -> None:
        try:
            self._client.create(path, manifest)
        except ApiError as e:
            if e.reason != "AlreadyExists":
                raise

    def merge(self, path: str, patch: JsonObject) -> None:
        with _unless_gone():
            self._client.patch(path, patch)

    def delete(self, path: str) -> None:
        with _unless_gone():
            self._client.delete(path)


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except ApiError as e:
        if e.reason != "NotFound":
            raise


def _is_ready(node: JsonObject) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _pods_on(client: Client, node: str) -> list[JsonObject]:
    pods: list[JsonObject] = client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")[
        "items"
    ]
    return pods


def _is_bound_to_node(pod: JsonObject) -> bool:
    """Pods of DaemonSets and static pods, which a drain leaves alone."""
    owners = pod["metadata"].get("ownerReferences", [])
    return any(o["kind"] in ("DaemonSet", "Node") for o in owners)


def _delete_pod(client: Client, pod: JsonObject, *, grace_s: int | None) -> None:
    meta = pod["metadata"]
    options = None if grace_s is None else {"gracePeriodSeconds": grace_s}
    try:
        client.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", options)
    except ApiError as e:
        if e.reason != "NotFound":
            raise

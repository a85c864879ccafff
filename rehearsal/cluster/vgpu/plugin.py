"""A device plugin of an engine on one node: its cards, its registration, its allocations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.kubeapi.client import ApiError, Client, Unreachable, path_of
from slicewright.node_agent.nvml.observed import Observation
from slicewright.rehearsal.cluster.vgpu import allocation
from slicewright.rehearsal.cluster.vgpu.allocation import Refused
from slicewright.rehearsal.cluster.vgpu.cards import Card, Sharing, cards_of, with_health
from slicewright.rehearsal.cluster.vgpu.endpoint import Endpoint
from slicewright.rehearsal.cluster.vgpu.engine import Engine


class Plugin:
    """observe: reads the node's GPUs. sockets: the directory of the kubelet's socket."""

    def __init__(
        self,
        engine: Engine,
        node: str,
        client: Client,
        observe: Callable[[], Observation],
        sharing: Sharing,
        sockets: Path,
    ) -> None:
        self._engine = engine
        self._node = node
        self._client = client
        self._observe = observe
        self._sharing = sharing
        self._cards: tuple[Card, ...] = cards_of(observe())
        self._registered: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()
        self._endpoints = {
            resource: Endpoint(
                sockets,
                f"{engine.name}-{resource.rpartition('/')[2]}.sock",
                resource,
                self._allocate if resource == engine.counting else _nothing,
            )
            for resource in engine.devices((), sharing)
        }

    def start(self) -> None:
        """Offers the cards to the kubelet; again when the kubelet has started anew."""
        self._offer()
        for endpoint in self._endpoints.values():
            endpoint.start()

    def stop(self) -> None:
        for endpoint in self._endpoints.values():
            endpoint.stop()

    def refresh(self) -> None:
        """Looks at the cards, and writes the node's annotations if they differ from the last ones.

        Raises ApiError, Unreachable.
        """
        self._cards = with_health(self._cards, self._observe())
        self._offer()
        annotations = dict(self._engine.registration(self._cards, self._sharing))
        if annotations != self._registered:
            patch = {"metadata": {"annotations": annotations}}
            self._client.patch(path_of("v1", "nodes", self._node), patch)
            self._registered = annotations

    def _offer(self) -> None:
        for resource, devices in self._engine.devices(self._cards, self._sharing).items():
            self._endpoints[resource].offer(devices)

    def _allocate(self, ids: Sequence[str]) -> dict[str, str]:
        with self._one_at_a_time:
            try:
                pods = self._client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self._node}")
                pod = allocation.pending_pod(pods["items"], self._node, self._engine)
                return self._allocate_to(pod, len(ids))
            except (Refused, ApiError, Unreachable) as e:
                raise ValueError(str(e)) from e
            finally:
                self._unlock()

    def _allocate_to(self, pod: JsonObject, cards: int) -> dict[str, str]:
        try:
            allocated = allocation.allocate(pod, cards, self._engine)
        except Refused:
            self._annotate(pod, {self._engine.keys.phase: allocation.FAILED})
            raise
        self._annotate(pod, dict(allocated.annotations))
        return allocation.environment(allocated.shares, self._sharing.memory_factor)

    def _annotate(self, pod: JsonObject, annotations: dict[str, str]) -> None:
        metadata = pod["metadata"]
        path = path_of("v1", "pods", metadata["name"], namespace=metadata["namespace"])
        self._client.patch(path, {"metadata": {"annotations": annotations}})

    def _unlock(self) -> None:
        """HAMi's scheduler binds nothing more to a node until its plugin has removed the lock."""
        if self._engine.lock:
            patch = {"metadata": {"annotations": {self._engine.lock: None}}}
            self._client.patch(path_of("v1", "nodes", self._node), patch)


def _nothing(ids: Sequence[str]) -> dict[str, str]:
    """Memory and compute are only counted."""
    return {}

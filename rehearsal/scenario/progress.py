"""What happens to the nodes while `pulumi up` runs: joined, partitioned, verified, released."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from slicewright.apis.names import NODE_CONDITION, POOL_LABEL, STARTUP_TAINT_KEY
from slicewright.kubeapi import ApiError, Client, Event, list_and_watch
from slicewright.kubeapi.client import Unreachable
from slicewright.rehearsal.scenario.environment import Environment


class Progress:
    """Watches every cluster of an environment and gives one line per change to `say`.

    `marks` holds when each stage was first reached, in seconds since entry, for the benchmark.
    """

    def __init__(self, environment: Environment, say: Callable[[str], None]) -> None:
        self._environment = environment
        self._say = say
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._last: dict[tuple[str, str], str] = {}
        self._held: set[str] = set()
        """Nodes that had the startup taint; those of an existing cluster may never have it."""
        self._began = time.monotonic()
        self.marks: dict[str, float] = {}

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        self._spawn(self._find_clusters)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=1)

    def _spawn(self, run: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _find_clusters(self) -> None:
        known: set[str] = set()
        while not self._stop.wait(0.3):
            for name, path in self._environment.kubeconfigs().items():
                if name in known:
                    continue
                try:
                    client = Client.from_kubeconfig(path)
                    client.get("/api/v1/namespaces/default")
                except (ApiError, Unreachable, ValueError, OSError):
                    continue
                known.add(name)
                self._mark("control plane ready")
                self._say(f"cluster {name}: API server answers")
                self._spawn(self._watch, client, "/api/v1/nodes", self._node)
                self._spawn(
                    self._watch,
                    client,
                    "/apis/slicewright.io/v1alpha1/gpunodereports",
                    self._report,
                )

    def _watch(self, client: Client, path: str, handle: Callable[[dict[str, Any]], None]) -> None:
        for event in list_and_watch(client, path, stop=self._stop, window_s=20, backoff_max_s=1.0):
            for changed in _objects(event):
                handle(changed)

    def _node(self, node: dict[str, Any]) -> None:
        name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
        if POOL_LABEL not in labels or node["metadata"].get("deletionTimestamp"):
            return
        tainted = any(t["key"] == STARTUP_TAINT_KEY for t in node["spec"].get("taints", []))
        self._change(
            name,
            "joined",
            f"joined pool {labels[POOL_LABEL]}, "
            f"{'startup taint set' if tainted else 'without startup taint'}",
        )
        if state := labels.get("nvidia.com/mig.config.state"):
            self._change(name, "mig", f"mig-manager: {labels.get('nvidia.com/mig.config')} {state}")
        resources = node.get("status", {}).get("allocatable", {})
        gpus = ", ".join(
            f"{k} {v}" for k, v in sorted(resources.items()) if k.startswith("nvidia.com/")
        )
        if gpus:
            self._change(name, "allocatable", f"kubelet advertises {gpus}")
            self._mark("first GPU resource advertised")
        for condition in node.get("status", {}).get("conditions", []):
            if condition["type"] == NODE_CONDITION:
                self._change(
                    name,
                    "condition",
                    f"{NODE_CONDITION.split('/')[1]}={condition['status']} ({condition['reason']})",
                )
        if tainted:
            self._held.add(name)
        elif name in self._held:
            self._change(name, "released", "released: startup taint removed")
            self._mark("first node released")

    def _report(self, report: dict[str, Any]) -> None:
        body = report.get("report") or {}
        if body:
            self._change(
                report["metadata"]["name"],
                "report",
                f"agent: {body.get('verdict')} {body.get('reason')}: {body.get('message')}",
            )
            self._mark("first report")

    def _change(self, node: str, topic: str, text: str) -> None:
        if topic == "joined" and (node, topic) in self._last:
            return
        if self._last.get((node, topic)) != text:
            self._last[(node, topic)] = text
            self._mark("first node joined")
            self._say(f"node {node}: {text}")

    def _mark(self, stage: str) -> None:
        self.marks.setdefault(stage, time.monotonic() - self._began)


def _objects(event: Event) -> tuple[dict[str, Any], ...]:
    if event.type == "LISTED":
        return event.items
    return (event.object,) if event.type in ("ADDED", "MODIFIED") else ()

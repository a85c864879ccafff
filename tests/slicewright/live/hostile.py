"""A fleet as an API server's answers, and what can be wrong with one object of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final, cast

from hypothesis import strategies as st

from slicewright.apis.names import (
    CHANGE_ANNOTATION,
    CHANGED_ANNOTATION,
    NODE_CONDITION,
    POOL_LABEL,
    REPORTS_AFTER_ANNOTATION,
    ROLLOUT_ANNOTATION,
    STARTUP_TAINT,
    VERIFIED_LAYOUT_ANNOTATION,
)
from slicewright.kubeapi import Client
from slicewright.live.reading import ClusterObjects, drained, read
from tests.odd_values import ABSENT, VALUES, places, replaced

POOLS = "/apis/slicewright.io/v1alpha1/gpupools"
REPORTS = "/apis/slicewright.io/v1alpha1/gpunodereports"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
BUDGETS = "/apis/policy/v1/namespaces/ai/poddisruptionbudgets"
DEPLOYMENT = "/apis/apps/v1/namespaces/slicewright-system/deployments/fleet-controller"
KINDS: Final = {
    POOLS: "GPUPool",
    REPORTS: "GPUNodeReport",
    NODES: "Node",
    PODS: "Pod",
    BUDGETS: "PodDisruptionBudget",
}
THEN = "2026-11-27T00:00:00Z"
NOW = 1_795_737_660.0
"""A minute later."""
_OLD, _NEW = json.dumps({"gpus": "old"}), json.dumps({"gpus": "new"})


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _condition(kind: str, status: str, reason: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"why: {reason}",
        "lastTransitionTime": THEN,
        "observedGeneration": 1,
    }


def pool(name: str) -> dict[str, Any]:
    """Another layout than before is declared."""
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": THEN,
            "annotations": {ROLLOUT_ANNOTATION: ""},
        },
        "spec": {
            "verification": {"compute": True},
            "selector": {"matchLabels": {POOL_LABEL: name}},
            "layoutHash": _hash(_NEW),
            "desiredState": _NEW,
            "migConfig": "new",
            "expectedNodes": {"min": 1, "max": 9},
            "rolloutPolicy": {"maxUnavailable": "50%", "canary": 1, "drain": {"pods": "GPU"}},
        },
        "status": {
            "observedGeneration": 1,
            "provenLayouts": [
                {"migConfig": "old", "layoutHash": _hash(_OLD), "desiredState": _OLD}
            ],
            "conditions": [
                _condition("Verified", "False", "RollingOut"),
                _condition("Progressing", "True", "RollingOut"),
                _condition("Degraded", "False", "AsWanted"),
            ],
        },
    }


def node(name: str, of: str, *, phase: str = "") -> dict[str, Any]:
    change = {
        "nodeUid": name,
        "target": "new",
        "phase": phase,
        "since": THEN,
        "started": THEN,
        "cordoned": True,
    }
    notes = {
        VERIFIED_LAYOUT_ANNOTATION: "old",
        REPORTS_AFTER_ANNOTATION: THEN,
        CHANGED_ANNOTATION: THEN,
    }
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": THEN,
            "labels": {POOL_LABEL: of, "nvidia.com/mig.config": "old"},
            "annotations": {**notes, **({CHANGE_ANNOTATION: json.dumps(change)} if phase else {})},
        },
        "spec": {"unschedulable": bool(phase), "taints": [dict(STARTUP_TAINT)] if phase else []},
        "status": {
            "nodeInfo": {"bootID": f"boot-{name}"},
            "conditions": [
                {"type": "Ready", "status": "True"},
                _condition(NODE_CONDITION, "Unknown", "Draining" if phase else "WaitsForItsTurn"),
            ],
        },
    }


def report(name: str, of: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "ownerReferences": [{"kind": "Node", "uid": name}]},
        "report": {
            "verdict": "Match",
            "reason": "PartitionsMatch",
            "message": "as wanted",
            "pool": of,
            "observedHash": _hash(_OLD),
            "bootID": f"boot-{name}",
            "time": THEN,
            "driver": "580.1.1",
            "compute": {
                "key": "0" * 32,
                "outcome": "failed",
                "seconds": 6.1,
                "deviceCount": 14,
                "devices": [
                    {"uuid": f"MIG-{name}", "outcome": "failed", "error": "CUDA_ERROR_UNKNOWN"},
                    {"uuid": "MIG-1", "outcome": "computed", "writeGBps": 310, "readGBps": 355},
                ],
            },
            "models": ["NVIDIA H100 80GB HBM3"],
            "gpus": [{"indexes": [0, 1], "mig": "enabled", "instances": {"1g.10gb": 7}}],
        },
    }


def pod(name: str, on: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ai",
            "uid": name,
            "labels": {"app": "infer"},
            "creationTimestamp": THEN,
            "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "controller": True}],
        },
        "spec": {
            "nodeName": on,
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
            ],
            "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        **more,
    }


def budget(name: str, *, allowed: int, needs: int, pods: int, app: str = "infer") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ai", "generation": 1},
        "spec": {"minAvailable": needs, "selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": needs + allowed,
            "desiredHealthy": needs,
            "expectedPods": pods,
            "observedGeneration": 1,
        },
    }


class Server:
    """Two pools, of which each has a node that is drained and one that waits."""

    def __init__(self) -> None:
        self.items: dict[str, list[Any]] = {
            POOLS: [pool("p"), pool("q")],
            NODES: [
                node("p0", "p", phase="Draining"),
                node("p1", "p"),
                node("q0", "q", phase="Draining"),
                node("q1", "q"),
            ],
            REPORTS: [report(f"{of}{n}", of) for of in ("p", "q") for n in (0, 1)],
            PODS: [pod("a", "p0"), pod("b", "p0"), pod("c", "q0")],
            BUDGETS: [budget("infer", allowed=1, needs=2, pods=3)],
        }
        self.deployment: Any = {"status": {"availableReplicas": 2}}
        self.patched: list[Any] = []

    def get(self, path: str, **query: str) -> Any:
        if path == DEPLOYMENT:
            return self.deployment
        kind, _, name = path.rpartition("/")
        if kind in self.items:
            return self._one(kind, name)
        # Budgets of a namespace that an odd pod claims to be in.
        items = self.items.get(path, [])
        first = query.get("fieldSelector", "").split(",")[0]
        if first.startswith("spec.nodeName="):
            items = [one for one in items if _node_name(one) in ("", first.partition("=")[2])]
        return {"items": items, "metadata": {}}

    def patch(self, path: str, body: Any, *, kind: str) -> Any:
        self.patched.append((path, body, kind))
        return {}

    def found(self) -> ClusterObjects:
        return read(cast("Client", self), pods_of=drained)

    def _one(self, kind: str, name: str) -> Any:
        return next(
            one
            for one in self.items[kind]
            if isinstance(one, dict) and (one.get("metadata") or {}).get("name") == name
        )


def _node_name(raw: Any) -> Any:
    try:
        return raw["spec"]["nodeName"]
    except (KeyError, TypeError):
        return ""


@st.composite
def odd_objects(draw: st.DrawFn, server: Server) -> tuple[str, int]:
    """Makes one object of the server odd in one or two places. Returns where it is."""
    path = draw(st.sampled_from(sorted(KINDS)))
    at = draw(st.integers(0, len(server.items[path]) - 1))
    for _ in range(draw(st.integers(1, 2))):
        known = server.items[path][at]
        way = draw(st.sampled_from(list(places(known))[:400]))
        new = draw(st.sampled_from((ABSENT, *VALUES) if way else VALUES))
        server.items[path][at] = replaced(known, way, new)
    return path, at

"""The fault "wrong-layout" as a Node's machine annotation orders it.

Form: the annotation's `fault` {"kind": "wrong-layout", "gpu": 3, "profile": "1g.10gb"}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.node.machine import ANNOTATION


@dataclass(frozen=True, kw_only=True)
class WrongLayout:
    """One GPU of the node holds a single partition of `profile` instead of its layout."""

    gpu: int
    profile: str


def wrong_layout_of(node: JsonObject) -> WrongLayout | None:
    """The fault in the node's machine annotation; None without one, or with an unknown one."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        fault = json.loads(text)["fault"] if text else None
        if fault and fault["kind"] == "wrong-layout":
            return WrongLayout(gpu=int(fault["gpu"]), profile=str(fault["profile"]))
    except (ValueError, TypeError, KeyError):
        pass  # an unreadable annotation is reported where the node is built
    return None


def partitioner_environment(cloud: str, fault: WrongLayout | None) -> dict[str, str]:
    """The variable that makes GKE's partitioner play the fault; nothing on other clouds."""
    if cloud != "gke" or fault is None:
        return {}
    return {"GKE_FAULT_WRONG_LAYOUT": f"{fault.gpu}={fault.profile}"}

"""The fault "hold" as a Node's machine annotation orders it: what must not happen there yet.

Form: the annotation's `fault` {"kind": "hold", "pods": ["node-agent"], "driver": true}, with any of
the fields of `Holds`. What is held goes on when the annotation no longer says so. So the order of
events on a node does not depend on how fast this machine is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.node.machine import ANNOTATION
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import Injection, NodeSilicon

_CREATE_GPU_INSTANCE = "nvmlDeviceCreateGpuInstance"
_LONGER_THAN_ANY_HOLD_MS = 3_600_000 * 24


@dataclass(frozen=True, kw_only=True)
class Holds:
    """Everything that is held on one node."""

    pods: tuple[str, ...] = ()
    """Beginnings of names of pods whose containers do not start, as while an image is pulled."""
    driver: bool = False
    """The driver is not installed yet."""
    toolkit: bool = False
    """containerd is not configured for NVIDIA's runtime: before NVIDIA's toolkit has done so, or
    while it restarts.
    """
    reboot: bool = False
    """A reboot does not begin, as while the host stops its services."""
    partitioning_from: int | None = None
    """Index of the first GPU on which the driver does not finish making a GPU instance."""

    def holds_pod(self, name: str) -> bool:
        return any(name.startswith(beginning) for beginning in self.pods)


def hold_partitioning(silicon: Path, first: int | None) -> None:
    """From GPU `first` on the driver does not finish making GPU instances; None: it goes on."""
    held = Injection(call=_CREATE_GPU_INSTANCE, times=-1, delay_ms=_LONGER_THAN_ANY_HOLD_MS)

    def edit(node: NodeSilicon) -> NodeSilicon:
        others = tuple(i for i in node.injections if replace(i, gpu=-1) != held)
        holding = () if first is None else (replace(held, gpu=first),)
        return replace(node, injections=(*others, *holding))

    if state.load(silicon) != edit(state.load(silicon)):
        state.change(silicon, edit)


def holds_of(node: JsonObject) -> Holds:
    """Those in the node's machine annotation; none without one, or with an unreadable one."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        fault = json.loads(text)["fault"] if text else None
        if fault and fault["kind"] == "hold":
            first = fault.get("partitioning_from")
            return Holds(
                pods=tuple(fault.get("pods") or ()),
                driver=bool(fault.get("driver")),
                toolkit=bool(fault.get("toolkit")),
                reboot=bool(fault.get("reboot")),
                partitioning_from=None if first is None else int(first),
            )
    except (ValueError, TypeError, KeyError):
        pass  # an unreadable annotation is reported where the node is built
    return Holds()

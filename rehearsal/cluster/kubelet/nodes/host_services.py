"""Services of a node's host that are in the way of a change of MIG mode, as faults.

Forms of the machine annotation's `fault`, from the node's first moment on:

- {"kind": "host-service", "unit": "nvidia-persistenced.service"}: the service uses every GPU while
  it runs, so that none changes its mode. After a reboot it runs again.
- {"kind": "kubelet-stays-down"}: once somebody has stopped the kubelet, as mig-manager does, its
  start does not bring the node back; only a reboot does (NVIDIA/gpu-operator #2415).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.node.machine import ANNOTATION
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon, Process

KUBELET: Final = "kubelet.service"
_PID: Final = 77


@dataclass(frozen=True, kw_only=True)
class HostServices:
    holder: str = ""
    """The unit that uses the GPUs; empty: none does."""
    kubelet_stays_down: bool = False


def host_services_of(node: JsonObject) -> HostServices:
    """Those of the node's machine annotation; none without one, or with an unreadable one."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION)
    try:
        fault: dict[str, Any] = (json.loads(text).get("fault") if text else None) or {}
        match fault.get("kind"):
            case "host-service":
                return HostServices(holder=str(fault["unit"]))
            case "kubelet-stays-down":
                return HostServices(kubelet_stays_down=True)
            case _:
                return HostServices()
    except (ValueError, TypeError, KeyError, AttributeError):
        return HostServices()  # an unreadable annotation is reported where the node is built


def use_gpus(silicon: Path, unit: str, *, running: bool) -> None:
    """The unit has started to use every GPU, or has ended."""
    name = unit.removesuffix(".service")

    def change(node: NodeSilicon) -> NodeSilicon:
        others = tuple(p for p in node.processes if p.name != name)
        own = tuple(Process(gpu=gpu.index, pid=_PID, name=name) for gpu in node.gpus)
        return replace(node, processes=(*others, *(own if running else ())))

    state.change(silicon, change)

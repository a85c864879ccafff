"""The NVLink fabric of a machine with NVSwitches, and Fabric Manager, which sets it up.

The C side is library/fabric.c. A GPU keeps the state that the fabric has reached, even if Fabric
Manager ends, until the node restarts (`state.rebooted`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from slicewright.rehearsal.cluster.silicon.node_silicon import Gpu, NodeSilicon
from slicewright.rehearsal.cluster.silicon.state import change

_HOPPER: Final = (9, 0)
"""Compute capability."""
_LINKS_TO_SWITCHES: Final = 18
_GPUS_OF_A_BOARD: Final = 8


def has_fabric(node: NodeSilicon) -> bool:
    """True if the driver reports an NVLink fabric (library/fabric.c)."""
    kind = node.gpus[0].model
    whole_board = len(node.gpus) >= _GPUS_OF_A_BOARD or kind.key.startswith("GB")
    return kind.compute_capability >= _HOPPER and kind.nvlinks == _LINKS_TO_SWITCHES and whole_board


def stop_fabric_manager(path: Path) -> NodeSilicon:
    """Fabric Manager ends, or is of another version than the driver: the GPUs keep their fabric
    state until the next restart.
    """
    return change(path, lambda node: _with_fabric_manager(node, runs=False))


def start_fabric_manager(path: Path) -> NodeSilicon:
    """Fabric Manager starts and sets up the fabric."""
    return change(path, lambda node: _with_fabric_manager(node, runs=True))


def _with_fabric_manager(node: NodeSilicon, *, runs: bool) -> NodeSilicon:
    def changed(gpu: Gpu) -> Gpu:
        of_fabric = ("fabric_manager", *(("fabric_state", "fabric_status") if runs else ()))
        health = {key: value for key, value in gpu.health.items() if key not in of_fabric}
        if not runs:
            health["fabric_manager"] = 0
        return replace(gpu, health=MappingProxyType(health))

    return replace(node, gpus=tuple(map(changed, node.gpus)))

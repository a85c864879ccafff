"""Which MIG profiles fit together on one GPU, where, what is nearest, what can stay, and what still
fits: exact, from tables.
"""

from infra.geometry.changes import Change, change
from infra.geometry.fitting import (
    Cause,
    Fit,
    Misfit,
    beside,
    check,
    creation_order,
    layouts,
    maximal,
    minimum_driver,
    most,
)
from infra.geometry.fragmentation import Room, room
from infra.geometry.nearby import nearest
from infra.geometry.parts import compute_instances, gpu_instances
from infra.geometry.table import Layout, LayoutError, Placement

__all__ = [
    "Cause",
    "Change",
    "Fit",
    "Layout",
    "LayoutError",
    "Misfit",
    "Placement",
    "Room",
    "beside",
    "change",
    "check",
    "compute_instances",
    "creation_order",
    "gpu_instances",
    "layouts",
    "maximal",
    "minimum_driver",
    "most",
    "nearest",
    "room",
]

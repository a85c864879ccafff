"""Which MIG layouts fit on a GPU, empty or with instances in use, and at which placements."""

from infra.geometry.changes import Change, change
from infra.geometry.compute_instances import compute_instances, gpu_instances
from infra.geometry.fitting import (
    Cause,
    Fit,
    Misfit,
    check,
    check_beside,
    creation_order,
    layouts,
    max_instances,
    maximal,
    minimum_driver,
)
from infra.geometry.headroom import Headroom, headroom
from infra.geometry.nearest import nearest
from infra.geometry.table import Layout, LayoutError, Placement

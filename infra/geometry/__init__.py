"""Which MIG layouts fit on a GPU, empty or with instances in use, and at which placements."""

from slicewright.infra.geometry.changes import Change, change
from slicewright.infra.geometry.compute_instances import compute_instances, gpu_instances
from slicewright.infra.geometry.fitting import (
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
from slicewright.infra.geometry.headroom import Headroom, headroom
from slicewright.infra.geometry.nearest import nearest
from slicewright.infra.geometry.table import Layout, LayoutError, Placement

"""The cluster of a stack with `cloud: byo`: it is there before `pulumi up`, and after `destroy`."""

from slicewright.rehearsal.scenario.existing_cluster.making import (
    Differences,
    differences,
    make,
    restart,
)
from slicewright.rehearsal.scenario.existing_cluster.operator_to_adopt import command_in, run

__all__ = ["Differences", "command_in", "differences", "make", "restart", "run"]

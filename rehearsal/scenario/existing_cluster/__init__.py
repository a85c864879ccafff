"""The cluster of a stack with `cloud: byo`: it is there before `pulumi up`, and after `destroy`."""

from rehearsal.scenario.existing_cluster.making import Differences, differences, make, restart

__all__ = ["Differences", "differences", "make", "restart"]

"""The cluster of a stack with `cloud: byo`: it is there before `pulumi up`, and after `destroy`."""

from rehearsal.scenario.existing_cluster.making import differences, start

__all__ = ["differences", "start"]

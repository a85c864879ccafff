"""EKS's quotas of node groups. How EKS words its refusals is not published.

Sources: EKS user guide, "Amazon EKS service quotas"; EKS API reference, NodegroupScalingConfig (the
largest size is what counts) and the errors of CreateNodegroup.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError


def check_one_more(context: Context, region: str, cluster: str) -> None:
    """Raises CloudError where the cluster has as many node groups as it may have."""
    most = account_of(context).node_groups
    if len(context.store.values(NODE_GROUPS, prefix=f"{region}/{cluster}/")) >= most:
        raise _exceeded(f"Cluster {cluster} has reached the limit of {most} node groups")


def check_size(context: Context, scaling: JsonObject) -> None:
    """Raises CloudError."""
    most, requested = account_of(context).nodes_per_group, int(scaling.get("maxSize", 2))
    if requested > most:
        raise _exceeded(f"maxSize {requested} is above the limit of {most} nodes of a node group")


def _exceeded(message: str) -> CloudError:
    return aws_error("ResourceLimitExceededException", f"{message}.")

"""Whether changed provider inputs mean another cluster, so that all its resources are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.kubeapi.kubeconfig import BadKubeconfig
from slicewright.rehearsal.plugins.engine.plugin import Difference
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN
from slicewright.rehearsal.plugins.providers.kubernetes import kubeconfig

_CLUSTER_KEYS = ("kubeconfig", "context", "cluster")


def config_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
    """The difference between the provider's old and new inputs, both without Secrets."""
    changed = sorted(key for key in {*old, *new} - {"version"} if old.get(key) != new.get(key))
    if not changed:
        return Difference(changes=False)
    before, after = old.get("clusterIdentifier"), new.get("clusterIdentifier")
    if before is not None or after is not None:
        # The identifier alone names the cluster; adding or removing it does not change the cluster.
        replaces = (
            ["clusterIdentifier"]
            if before is not None and after is not None and before != after
            else []
        )
    elif any(new.get(key) is UNKNOWN for key in _CLUSTER_KEYS):
        replaces = ["kubeconfig"]
    else:
        replaces = ["kubeconfig"] if _cluster_of(old) != _cluster_of(new) else []
    return Difference(changes=True, replaces=replaces, diffs=changed)


def _cluster_of(inputs: Mapping[str, Any]) -> Any:
    """The active cluster's entry; only the path for a kubeconfig given as a path."""
    text = inputs.get("kubeconfig")
    if isinstance(text, str) and kubeconfig.path_of(text) is not None:
        return text, inputs.get("context"), inputs.get("cluster")
    try:
        return kubeconfig.read(
            text, context=inputs.get("context"), cluster=inputs.get("cluster")
        ).cluster
    except BadKubeconfig:
        return text, inputs.get("context"), inputs.get("cluster")

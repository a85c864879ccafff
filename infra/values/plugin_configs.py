"""The device plugin's configs, one per pool, chosen by a label of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from infra.plan import PoolPlan
from infra.values.text import JsonObject


def plugin_configs(pools: Sequence[PoolPlan]) -> Mapping[str, JsonObject]:
    """The device plugin's config v1 by pool, for the pools that share their GPUs.

    They are the keys of one ConfigMap, because the chart takes one for the whole cluster. A node
    whose key is missing gets no plugin. Source: k8s-device-plugin, config-manager.
    """
    return {pool.name: _plugin_config(pool) for pool in pools if pool.sharing}


def _plugin_config(pool: PoolPlan) -> JsonObject:
    (strategy,) = {one.strategy for one in pool.sharing}
    renamed, strict = (
        pool.sharing[0].advertised != pool.sharing[0].resource,
        pool.sharing[0].fail_requests_greater_than_one,
    )
    return {
        "version": "v1",
        # No flags: the operator sets the strategy by environment, which overrides the file.
        "sharing": {
            "timeSlicing" if strategy == "time-slicing" else "mps": {
                "renameByDefault": renamed,
                "failRequestsGreaterThanOne": strict,
                "resources": [
                    {"name": one.resource, "replicas": one.replicas} for one in pool.sharing
                ],
            }
        },
    }

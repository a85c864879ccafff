"""The device plugin's configs, one per pool, chosen by a label of the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import PoolPlan, alike_by_mps

NOT_SHARED: Final = "not.shared"
"""The key of nodes without the label, unless all pools share alike by MPS. No pool can have this
name.
"""


def plugin_configs(pools: Sequence[PoolPlan]) -> Mapping[str, JsonObject]:
    """The device plugin's configs v1 by name: one per pool, and NOT_SHARED. Empty if no pool
    shares its GPUs.

    They are the keys of one ConfigMap, because the chart takes one for the whole cluster. Pools
    that do not share have a key too: nodes of a pool that shared until now keep its label until
    the cloud has removed it, and a node whose key is missing gets no device plugin. Source:
    NVIDIA/k8s-device-plugin, cmd/config-manager.
    """
    if not any(pool.offer.sharing for pool in pools):
        return {}
    return {NOT_SHARED: {"version": "v1"}, **{pool.name: _plugin_config(pool) for pool in pools}}


def default_config(pools: Sequence[PoolPlan]) -> str:
    """The key of nodes without the label: NOT_SHARED, so that nodes of no pool are left alone.

    But NVIDIA's MPS daemon gets the default config on every node. So if all pools share alike by
    MPS, the default is theirs. Source: NVIDIA/k8s-device-plugin #1645, #1827.
    """
    return pools[0].name if alike_by_mps(pools) else NOT_SHARED


def _plugin_config(pool: PoolPlan) -> JsonObject:
    if not pool.offer.sharing:
        return {"version": "v1"}
    (strategy,) = {shared.strategy for shared in pool.offer.sharing}
    renamed, strict = (
        pool.offer.sharing[0].advertised != pool.offer.sharing[0].resource,
        pool.offer.sharing[0].fail_requests_greater_than_one,
    )
    return {
        "version": "v1",
        # No flags: the operator sets the strategy by environment, which overrides the file.
        "sharing": {
            "timeSlicing" if strategy == "time-slicing" else "mps": {
                "renameByDefault": renamed,
                "failRequestsGreaterThanOne": strict,
                "resources": [
                    {"name": shared.resource, "replicas": shared.replicas}
                    for shared in pool.offer.sharing
                ],
            }
        },
    }

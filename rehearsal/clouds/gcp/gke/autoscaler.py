"""GKE's cluster autoscaler, as far as it adds nodes: for pods that fit on no node that there is.

It removes none: idle nodes stay. Source: GKE's "About GKE cluster autoscaling".
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.autoscaler_events import tell_pods
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.pod_fit import empty_node
from slicewright.rehearsal.clouds.core.scaling import Group, Limits, is_usable, scale_up, waiting
from slicewright.rehearsal.clouds.gcp.gke.node_pools import NodePools
from slicewright.rehearsal.clouds.gcp.gke.nodes import advertised_gpus, counts_of, sample_node
from slicewright.rehearsal.clouds.gcp.gke.provisioning import is_queued
from slicewright.rehearsal.clouds.gcp.gke.records import pools_of
from slicewright.rehearsal.clouds.gcp.state import CLUSTERS, NodePoolRecord


class Autoscaler:
    def __init__(self, context: Context, pools: NodePools) -> None:
        self._context = context
        self._pools = pools

    def look_around(self) -> None:
        for key, item in self._context.store.items(CLUSTERS):
            if item["cluster"]["status"] != "RUNNING":
                continue
            # A queued pool grows for ProvisioningRequests, which nothing creates here.
            pools = pools_of(self._context.store, key)
            scaled = [p for p in pools if limits_of(p) and not is_queued(p["pool"])]
            if scaled:
                api = self._context.planes.nodes(item["cluster"]["name"])
                self._look(scaled, api, project=key.split("/")[1])

    def _look(self, pools: Sequence[NodePoolRecord], api: NodeApi, *, project: str) -> None:
        pods = waiting(api.listed("/api/v1/pods", fieldSelector="status.phase=Pending"))
        if not pods:
            return
        usable = {n["metadata"]["name"] for n in api.listed("/api/v1/nodes") if _is_usable(n)}
        groups = [g for pool in pools for g in groups_of(pool, usable, project=project)]
        limits = {p["key"]: limit for p in pools if (limit := limits_of(p))}
        steps = scale_up(pods, groups, limits)
        for pool in pools:
            zones = {step.zone: step for step in steps if step.pool == pool["key"]}
            if not zones:
                continue
            grown = self._pools.scale_up(pool["key"], {z: s.added for z, s in zones.items()})
            for zone in grown:
                tell_pods(api, zones[zone], group=self._instance_group(pool, zone))

    def _instance_group(self, pool: NodePoolRecord, zone: str) -> str:
        """The URL of the pool's nodes in a zone, cluster-autoscaler's name for them."""
        urls: Sequence[str] = self._pools.describe(pool)["instanceGroupUrls"]
        url = next(url for url in urls if f"/zones/{zone}/" in url)
        return url.replace("/instanceGroupManagers/", "/instanceGroups/")


def limits_of(item: NodePoolRecord) -> Limits | None:
    """None of a pool that is not autoscaled."""
    scaling = item["pool"].get("autoscaling") or {}
    if not scaling.get("enabled"):
        return None
    if "totalMaxNodeCount" in scaling:
        return Limits(total=int(scaling["totalMaxNodeCount"]), per_zone=None)
    return Limits(total=None, per_zone=int(scaling.get("maxNodeCount", 0)))


def groups_of(item: NodePoolRecord, usable: set[str], *, project: str) -> list[Group]:
    """usable: names of the nodes on which pods can run that want what the pool offers."""
    gpus = {"nvidia.com/gpu": Decimal(advertised_gpus(item["pool"]))}
    groups = []
    for zone, count in counts_of(item).items():
        names = [n["name"] for n in item["nodes"] if n["location"] == zone]
        size = max(count, len(names))
        groups.append(
            Group(
                pool=item["key"],
                zone=zone,
                node=empty_node(sample_node(item, zone, project=project), gpus=gpus),
                size=size,
                joining=size - len(usable.intersection(names)),
            )
        )
    return groups


def _is_usable(node: JsonObject) -> bool:
    return is_usable(node, accelerator="cloud.google.com/gke-accelerator")

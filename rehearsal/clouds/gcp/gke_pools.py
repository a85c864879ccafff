"""The simulated Kubernetes Engine: node pools."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kubeapi import JsonObject
from rehearsal.clouds.core import node_group as fleet
from rehearsal.clouds.core.context import Context, Methods
from rehearsal.clouds.core.errors import CloudError, google_error
from rehearsal.clouds.core.node_api import NotReady
from rehearsal.clouds.core.tasks import Task
from rehearsal.clouds.gcp.gke_checks import (
    check_count,
    check_labels_and_taints,
    check_pool,
    check_ssd,
    check_upgrade,
    find_machine,
)
from rehearsal.clouds.gcp.gke_defaults import VERSION, etag, fill_pool, zones_of
from rehearsal.clouds.gcp.gke_nodes import GPU_TAINT, is_gpu_pool, target

if TYPE_CHECKING:
    from rehearsal.clouds.gcp.gke import Gke


POOLS = "container/nodePools"
# UpdateNodePool: what is changed on running nodes, and what makes GKE replace every node. Source:
# the API reference of projects.locations.clusters.nodePools.update. field -> (name inside its
# wrapper, what "none" is)
_WRAPPED: Mapping[str, tuple[str, Any]] = {
    "labels": ("labels", {}),
    "taints": ("taints", []),
    "resourceLabels": ("labels", {}),
    "tags": ("tags", []),
}
_CONFIG_RECREATES = (
    "machineType", "diskType", "diskSizeGb", "bootDisk", "imageType", "gvnic", "fastSocket",
    "gcfsConfig", "kubeletConfig",
    "linuxNodeConfig", "containerdConfig", "taintConfig", "workloadMetadataConfig",
    "loggingConfig", "confidentialNodes",
)  # fmt: skip
_POOL_IN_PLACE = ("locations", "upgradeSettings", "nodeDrainConfig")


class Pools:
    def __init__(self, context: Context, clusters: Gke) -> None:
        self._context = context
        self._store = context.store
        self._clusters = clusters

    def methods(self) -> Methods:
        pools = "projects.locations.clusters.nodePools"
        return {
            f"{pools}.create": self._create,
            f"{pools}.get": lambda params, _: self.shown(self.pool(params["name"])),
            f"{pools}.list": lambda params, _: {
                "nodePools": [self.shown(p) for p in self.of_cluster(params["parent"])]
            },
            f"{pools}.update": self._update,
            f"{pools}.setSize": self._set_size,
            f"{pools}.setManagement": self._set_management,
            f"{pools}.setAutoscaling": self._set_autoscaling,
            f"{pools}.delete": self._delete,
        }

    def tasks(self) -> dict[str, Task]:
        return {
            "container.nodePools.converge": self._finish_converge,
            "container.nodePools.delete": self._finish_delete,
        }

    def pool(self, key: str) -> JsonObject:
        item = self._store.get(POOLS, key)
        if item is None:
            raise google_error(404, f"Not found: {key}.")
        return item

    def of_cluster(self, cluster_key: str) -> list[JsonObject]:
        return [
            item
            for key, item in self._store.items(POOLS)
            if key.startswith(f"{cluster_key}/nodePools/")
        ]

    def shown(self, item: JsonObject) -> JsonObject:
        pool = {k: v for k, v in item["pool"].items() if k != "etag_seed"}
        project = item["key"].split("/")[1]
        pool["instanceGroupUrls"] = [
            f"https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers/gke-{pool['name']}-{pool['etag'][:4]}-grp"
            for zone in pool["locations"]
        ]
        if item["gke_gpu_taint"]:
            declared = pool["config"].get("taints", [])
            if GPU_TAINT not in declared:
                pool["config"] = {**pool["config"], "taints": [*declared, GPU_TAINT]}
        return pool

    def check(self, pool: JsonObject, *, location: str) -> None:
        check_pool(pool, cluster_zones=zones_of(location))

    def put_new(self, cluster_key: str, cluster: JsonObject, asked: JsonObject) -> JsonObject:
        """Records a checked pool as PROVISIONING. GKE decides on its GPU taint now, and never
        again.
        """
        key = f"{cluster_key}/nodePools/{asked['name']}"
        pool = fill_pool(asked, cluster_locations=cluster["locations"])
        link = f"https://container.googleapis.com/v1/{key}"
        pool |= {"selfLink": link, "status": "PROVISIONING", "etag_seed": secrets.token_hex(4)}
        gpu_taint = is_gpu_pool(pool) and any(
            not is_gpu_pool(p["pool"]) for p in self.of_cluster(cluster_key)
        )
        if gpu_taint:
            self._refuse_other_gpu_taint(pool)
        item = {
            "key": key,
            "pool": pool,
            "count": pool["initialNodeCount"],
            "generation": 1,
            "gke_gpu_taint": gpu_taint,
            "nodes": [],
            "applied": _applied(pool),
        }
        return self._store.put(POOLS, key, item)

    def converge(self, key: str) -> None:
        """Brings the pool's nodes to what the pool says. Raises CloudError after writing down what
        went wrong.
        """
        item = self.pool(key)
        cluster = self._clusters.cluster(key.rpartition("/nodePools/")[0])["cluster"]
        wanted = target(
            item, project=key.split("/")[1], cluster=cluster["name"], faults=self._context.faults
        )
        api = self._context.planes.nodes(cluster["name"])
        try:
            fleet.converge(
                self._store, POOLS, key, api, wanted, timeout_s=self._context.ready_timeout_s
            )
        except (NotReady, fleet.NoRoom) as e:
            message = (
                f"All cluster resources were brought up, but: only some nodes have registered: {e}."
            )
            self._set(key, status="RUNNING_WITH_ERROR", statusMessage=message)
            raise google_error(400, message) from e
        self._set(key, status="RUNNING", statusMessage=None)

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        parent = params["parent"]
        asked = dict(body.get("nodePool") or {})
        with self._store.lock:
            cluster = self._usable_cluster(parent)
            key = f"{parent}/nodePools/{asked.get('name', '')}"
            if self._store.get(POOLS, key):
                raise google_error(409, f"Already exists: {key}.")
            self.check(asked, location=cluster["location"])
            self._check_account(asked.get("config") or {})
            self.put_new(parent, cluster, asked)
        return self._clusters.begin("container.nodePools.converge", "CREATE_NODE_POOL", key)

    def _check_account(self, config: JsonObject) -> None:
        account = config.get("serviceAccount") or "default"
        if account != "default" and self._store.get("iam/serviceAccounts", account) is None:
            raise google_error(400, f'Service account "{account}" does not exist.')

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = params["name"]
        with self._store.lock:
            item = self._usable_pool(key)
            pool, config = item["pool"], dict(item["pool"]["config"])
            changes = {k: v for k, v in body.items() if k not in ("name", "etag")}
            self._refuse_replacing(changes)
            for field, value in changes.items():
                if field in _POOL_IN_PLACE:
                    pool[field] = value
                elif field == "nodeVersion":
                    pool["version"] = VERSION if value in ("-", "latest") else value
                    item["generation"] += 1
                elif field in _WRAPPED:
                    # The API wraps these, so that "none" can be told from "leave".
                    inner, nothing = _WRAPPED[field]
                    config[field] = (value or {}).get(inner, nothing)
                elif field == "diskSizeGb":
                    config[field] = int(value)
                    item["generation"] += 1
                else:
                    item["generation"] += field in _CONFIG_RECREATES
                    config[field] = value
            check_labels_and_taints(config)
            check_ssd(config, find_machine(config["machineType"]))
            check_upgrade(pool["upgradeSettings"])
            pool |= {"config": config, "etag": etag(), "status": "RECONCILING"}
            if item["gke_gpu_taint"]:
                self._refuse_other_gpu_taint(pool)
            self._store.put(POOLS, key, item)
        return self._clusters.begin("container.nodePools.converge", "UPDATE_NODE_POOL", key)

    def _refuse_replacing(self, changes: JsonObject) -> None:
        known = {*_POOL_IN_PLACE, *_WRAPPED, *_CONFIG_RECREATES, "nodeVersion"}
        for field in changes:
            if field == "accelerators":
                raise google_error(
                    400,
                    "Updating accelerator type, count or partition size of a node pool is "
                    "not supported.",
                )
            if field not in known:
                raise google_error(
                    400, f"The rehearsal's cloud does not update {field} of a node pool."
                )

    def _set_size(self, params: JsonObject, body: JsonObject) -> JsonObject:
        count = int(body.get("nodeCount", 0))
        check_count(count)
        return self._reconcile(params["name"], "SET_NODE_POOL_SIZE", count=count)

    def _set_management(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._reconcile(
            params["name"],
            "SET_NODE_POOL_MANAGEMENT",
            pool={"management": body.get("management") or {}},
        )

    def _set_autoscaling(self, params: JsonObject, body: JsonObject) -> JsonObject:
        scaling = body.get("autoscaling") or {}
        if scaling.get("enabled"):
            low, high = int(scaling.get("minNodeCount", 0)), int(scaling.get("maxNodeCount", 0))
            total = "totalMaxNodeCount" in scaling
            if (not total and not 0 <= low <= high) or (not total and high < 1):
                raise google_error(
                    400,
                    f"Autoscaling needs 0 <= minNodeCount ({low}) <= maxNodeCount ({high}) "
                    "and maxNodeCount >= 1.",
                )
        return self._reconcile(params["name"], "SET_NODE_POOL_SIZE", pool={"autoscaling": scaling})

    def _reconcile(
        self,
        key: str,
        operation_type: str,
        *,
        count: int | None = None,
        pool: JsonObject | None = None,
    ) -> JsonObject:
        with self._store.lock:
            item = self._usable_pool(key)
            item["count"] = item["count"] if count is None else count
            # The API shows the size of a pool in initialNodeCount, misleading as the name is.
            item["pool"] |= {
                **(pool or {}),
                "initialNodeCount": item["count"],
                "etag": etag(),
                "status": "RECONCILING",
            }
            self._store.put(POOLS, key, item)
        return self._clusters.begin("container.nodePools.converge", operation_type, key)

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = params["name"]
        with self._store.lock:
            item = self._usable_pool(key)
            item["pool"]["status"] = "STOPPING"
            self._store.put(POOLS, key, item)
        return self._clusters.begin("container.nodePools.delete", "DELETE_NODE_POOL", key)

    def _finish_converge(self, arguments: JsonObject) -> None:
        self._clusters.work(arguments, lambda: self.converge(arguments["target"]))

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["target"]

        def step() -> None:
            if self._store.get(POOLS, key) is not None:
                cluster = key.split("/")[5]
                fleet.dissolve(self._store, POOLS, key, self._context.planes.nodes(cluster))
                self._store.delete(POOLS, key)

        self._clusters.work(arguments, step)

    def _usable_cluster(self, key: str) -> JsonObject:
        cluster: JsonObject = self._clusters.cluster(key)["cluster"]
        if cluster["status"] != "RUNNING":
            raise _busy(f"Cluster {key} is {cluster['status']}.")
        return cluster

    def _usable_pool(self, key: str) -> JsonObject:
        """Locks are per pool: pools of one cluster change in parallel, one pool does one thing at a
        time.
        """
        item = self.pool(key)
        running = self._clusters.running_operations(key)
        if running:
            raise _busy(
                f"Cluster is running incompatible operation {running[0]['name']} "
                f"({running[0]['operationType']})."
            )
        self._usable_cluster(key.rpartition("/nodePools/")[0])
        return item

    def _refuse_other_gpu_taint(self, pool: JsonObject) -> None:
        """Declared exactly as GKE sets it, its own taint is accepted; with another value the two
        collide.
        """
        for taint in pool["config"].get("taints", []):
            if (
                taint["key"] == GPU_TAINT["key"]
                and taint["effect"] == GPU_TAINT["effect"]
                and taint != GPU_TAINT
            ):
                raise google_error(
                    400, "Found more than one taint with key nvidia.com/gpu and effect NO_SCHEDULE"
                )

    def _set(self, key: str, **fields: Any) -> None:
        with self._store.lock:
            item = self.pool(key)
            item["pool"] = {k: v for k, v in (item["pool"] | fields).items() if v is not None}
            self._store.put(POOLS, key, item)


def _applied(pool: JsonObject) -> JsonObject:
    from rehearsal.clouds.core.node_object import kubernetes_taints

    config = pool["config"]
    return {
        "labels": config.get("labels", {}),
        "taints": kubernetes_taints(config.get("taints", [])),
    }


def _busy(message: str) -> CloudError:
    return google_error(400, message, status="FAILED_PRECONDITION")

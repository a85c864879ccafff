"""GKE node pools."""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Collection, Mapping
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fault_file import NodeEvent
from slicewright.rehearsal.clouds.core.faults import names_pool
from slicewright.rehearsal.clouds.core.locks import Locks
from slicewright.rehearsal.clouds.core.node_api import NotReady
from slicewright.rehearsal.clouds.core.node_group import DesiredNodes, NoCapacity, NodeGroup
from slicewright.rehearsal.clouds.core.taints import taint_id
from slicewright.rehearsal.clouds.core.tasks import Task
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.etag import etag
from slicewright.rehearsal.clouds.gcp.gke.accelerator_networks import (
    check_accelerator_network,
    with_accelerator_network,
)
from slicewright.rehearsal.clouds.gcp.gke.checks import (
    check_boot_disk,
    check_count,
    check_features,
    check_labels_and_taints,
    check_management,
    check_pool,
    check_ssd,
    find_machine,
)
from slicewright.rehearsal.clouds.gcp.gke.defaults import VERSION, fill_node_config, fill_pool
from slicewright.rehearsal.clouds.gcp.gke.encryption import check_key_there
from slicewright.rehearsal.clouds.gcp.gke.node_networks import check_node_networks
from slicewright.rehearsal.clouds.gcp.gke.nodes import (
    GPU_TAINT,
    counts_of,
    desired_nodes,
    is_gpu_pool,
    node_settings,
)
from slicewright.rehearsal.clouds.gcp.gke.operations import API, Operations
from slicewright.rehearsal.clouds.gcp.gke.placement import check_placement
from slicewright.rehearsal.clouds.gcp.gke.pod_addresses import PodRange
from slicewright.rehearsal.clouds.gcp.gke.provisioning import check_provisioning
from slicewright.rehearsal.clouds.gcp.gke.quotas import Added, check_quotas
from slicewright.rehearsal.clouds.gcp.gke.records import find_cluster, find_pool, pools_of
from slicewright.rehearsal.clouds.gcp.gke.reservations import check_reserved
from slicewright.rehearsal.clouds.gcp.gke.upgrades import check_upgrade, fill_upgrade
from slicewright.rehearsal.clouds.gcp.iam import known_account
from slicewright.rehearsal.clouds.gcp.state import NODE_POOLS, NodePoolRecord

# The fields of UpdateNodePoolRequest: those that change nodes in place, and those for which GKE
# recreates every node. Sources: GKE's API reference of nodePools.update;
# hashicorp/terraform-provider-google-beta, services/container/node_config.go.
# Field -> (field inside its wrapper message, value of an empty one)
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


class NodePools:
    def __init__(self, context: Context, operations: Operations) -> None:
        self._context = context
        self._store = context.store
        self._operations = operations
        self._converging = Locks()

    def methods(self) -> Methods:
        pools = "projects.locations.clusters.nodePools"
        return {
            f"{pools}.create": self._create,
            f"{pools}.get": lambda params, _: self.describe(find_pool(self._store, params["name"])),
            f"{pools}.list": lambda params, _: {
                "nodePools": [self.describe(p) for p in pools_of(self._store, params["parent"])]
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
            "container.nodePools.retry": self._finish_retry,
            "container.nodePools.scaleUp": self._finish_retry,
            "container.nodes.recreate": self._finish_recreate,
        }

    def describe(self, item: NodePoolRecord) -> JsonObject:
        """The pool as GetNodePool answers."""
        pool = {k: v for k, v in item["pool"].items() if k != "etag_seed"}
        project = item["key"].split("/")[1]
        group = f"gke-{pool['name']}-{item['pool']['etag_seed']}-grp"
        pool["instanceGroupUrls"] = [
            f"https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}/"
            f"instanceGroupManagers/{group}"
            for zone in pool["locations"]
        ]
        if item["gke_gpu_taint"]:
            declared = pool["config"].get("taints", [])
            if GPU_TAINT not in declared:
                pool["config"] = {**pool["config"], "taints": [*declared, GPU_TAINT]}
        return pool

    def add(self, cluster_key: str, cluster: JsonObject, requested: JsonObject) -> None:
        """Records a checked pool as PROVISIONING.

        GKE decides on its GPU taint now and never again: GPU pools get it unless all other pools
        are GPU pools (terraform-google-modules/terraform-google-kubernetes-engine #703).
        """
        key = f"{cluster_key}/nodePools/{requested['name']}"
        pool = fill_pool(requested, cluster_locations=cluster["locations"])
        pool |= {
            "selfLink": f"{API}/{key}",
            "status": "PROVISIONING",
            "etag_seed": secrets.token_hex(4),
            "networkConfig": {
                "enablePrivateNodes": cluster["networkConfig"]["defaultEnablePrivateNodes"],
                **(pool.get("networkConfig") or {}),
            },
        }
        pool = with_accelerator_network(pool)
        gpu_taint = is_gpu_pool(pool) and any(
            not is_gpu_pool(p["pool"]) for p in pools_of(self._store, cluster_key)
        )
        if gpu_taint:
            _refuse_other_gpu_taint(pool)
        item: NodePoolRecord = {
            "key": key,
            "pool": pool,
            "count": pool["initialNodeCount"],
            "scaled": None,
            "generation": 1,
            "gke_gpu_taint": gpu_taint,
            "nodes": [],
            "applied": node_settings(pool),
        }
        self._store.put(NODE_POOLS, key, item)

    def converge(self, key: str) -> None:
        """Gives the pool the nodes it asks for. On failure records it and raises CloudError."""
        with self._converging.lock(key):  # an operation and the autoscaler, one after the other
            self._converge(key)

    def _converge(self, key: str) -> None:
        item = find_pool(self._store, key)
        desired = self._desired(item)
        try:
            self._nodes(key).converge(desired, timeout_s=self._context.ready_timeout_s)
        except NotReady as e:
            message = (
                f"All cluster resources were brought up, but: only some nodes have registered: {e}."
            )
            self._set(key, status="RUNNING_WITH_ERROR", statusMessage=message)
            raise google_error(400, message) from e
        except NoCapacity as e:
            raise self._out_of_stock(key, sum(desired.counts.values()), e) from e
        self._set(key, status="RUNNING", statusMessage=None, conditions=None)

    def _desired(self, item: NodePoolRecord) -> DesiredNodes:
        _, project, _, _, _, cluster, *_ = item["key"].split("/")
        return desired_nodes(
            item,
            PodRange(self._store, item["key"]),
            self._context,
            project=project,
            cluster=cluster,
        )

    def _out_of_stock(self, key: str, expected: int, full: NoCapacity) -> CloudError:
        """Marks the pool, which keeps what it got; in GKE's words (akka/akka-core #32992)."""
        running = len(find_pool(self._store, key)["nodes"])
        message = (
            f"Google Compute Engine: Not all instances running in IGM after 35m4.033429035s. "
            f"Expected {expected}, running {running}, transitioning {expected - running}. Current "
            f"errors: [{full.code}]: {full}"
        )
        condition = {"code": full.code, "message": message, "canonicalCode": "RESOURCE_EXHAUSTED"}
        status = "RUNNING_WITH_ERROR" if running else "ERROR"
        self._set(key, status=status, statusMessage=message, conditions=[condition])
        return google_error(429, message)

    def disturb(self, event: NodeEvent) -> bool:
        """Lets it happen to the node that it names; False where there is no such node yet."""
        for key, item in self._store.items(NODE_POOLS):
            pool = item["pool"]
            if names_pool(event.pool, pool["name"], pool["config"].get("labels", {})):
                if not any(node["index"] == event.node for node in item["nodes"]):
                    return False
                self._context.tasks.begin("container.nodes.recreate", key=key, node=event.node)
                return True
        return False

    def retry(self) -> None:
        """Instance groups go on asking for machines that were out of stock."""
        for key, item in self._store.items(NODE_POOLS):
            codes = [c.get("code") for c in item["pool"].get("conditions") or ()]
            if codes == ["GCE_STOCKOUT"] and self._has_stock_again(item):
                self._set(key, status="RECONCILING", conditions=None)
                self._context.tasks.begin("container.nodePools.retry", target=key)

    def _has_stock_again(self, item: NodePoolRecord) -> bool:
        return all(self._has_stock(item, zone) for zone in item["pool"]["locations"])

    def _has_stock(self, item: NodePoolRecord, zone: str) -> bool:
        pool, indexes = item["pool"], {node["index"] for node in item["nodes"]}
        index = next(i for i in itertools.count() if i not in indexes)
        return self._context.faults.has_stock(
            pool=pool["name"], labels=pool["config"].get("labels", {}), index=index, zone=zone
        )

    def scale_up(self, key: str, added: Mapping[str, int]) -> Collection[str]:
        """By the autoscaler, which does nothing while an operation changes the pool. Returns the
        zones that get nodes.

        added: zone -> nodes. Zones without stock get none, and no zone if there is no quota: the
        autoscaler asks again at its next look.
        """
        with self._store.lock, contextlib.suppress(CloudError):
            item = self._updatable(key)
            new = {zone: n for zone, n in added.items() if self._has_stock(item, zone)}
            nodes = [_added(item["pool"], sum(new.values()))]
            check_quotas(self._context, key.split("/")[1], key.split("/")[3], nodes)
            self._check_reserved(key, item["pool"]["config"], new)
            if new:
                counts = counts_of(item)
                item["scaled"] = {zone: n + new.get(zone, 0) for zone, n in counts.items()}
                self._store.put(NODE_POOLS, key, item)
                self._context.tasks.begin("container.nodePools.scaleUp", target=key)
            return new.keys()
        return ()

    def _finish_retry(self, arguments: JsonObject) -> None:
        with contextlib.suppress(CloudError):  # it is in the pool's status
            self.converge(arguments["target"])

    def _finish_recreate(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        item = find_pool(self._store, key)
        desired = self._desired(item)
        self._nodes(key).recreate(
            desired,
            arguments["node"],
            same_name=True,
            timeout_s=self._context.ready_timeout_s,
        )

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        parent = params["parent"]
        requested = dict(body.get("nodePool") or {})
        with self._store.lock:
            cluster = self._running_cluster(parent)
            key = f"{parent}/nodePools/{requested.get('name', '')}"
            if self._store.get(NODE_POOLS, key):
                raise google_error(409, f"Already exists: {key}.")
            check_pool(requested, location=cluster["location"], channel=_channel(cluster))
            self._check_account(requested.get("config") or {})
            check_key_there(self._context, (requested.get("config") or {}).get("bootDiskKmsKey"))
            zones = requested.get("locations") or cluster["locations"]
            project = parent.split("/")[1]
            check_accelerator_network(self._store, project, cluster, requested, zones)
            check_node_networks(self._store, project, cluster["location"], cluster, requested)
            count = int(requested.get("initialNodeCount", 0))
            nodes = count * len(zones)
            where = (project, cluster["location"])
            network = {
                "enablePrivateNodes": cluster["networkConfig"]["defaultEnablePrivateNodes"],
                **(requested.get("networkConfig") or {}),
            }
            added = {"config": requested.get("config") or {}, "networkConfig": network}
            check_quotas(self._context, *where, [_added(added, nodes)])
            self._check_reserved(key, requested.get("config") or {}, dict.fromkeys(zones, count))
            self.add(parent, cluster, requested)
        return self._operations.begin("container.nodePools.converge", "CREATE_NODE_POOL", key)

    def _check_reserved(self, key: str, config: JsonObject, added: Mapping[str, int]) -> None:
        check_reserved(self._context, key, fill_node_config(config), added)

    def _check_account(self, config: JsonObject) -> None:
        account = config.get("serviceAccount") or "default"
        if account != "default" and known_account(self._context, account) is None:
            raise google_error(400, f'Service account "{account}" does not exist.')

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = params["name"]
        with self._store.lock:
            item = self._updatable(key)
            before = item["generation"]
            pool, config = item["pool"], dict(item["pool"]["config"])
            changes = {k: v for k, v in body.items() if k not in ("name", "etag")}
            _refuse_unsupported(changes)
            zones = set(changes.get("locations", ())) - set(pool["locations"])
            self._check_reserved(key, config, dict.fromkeys(zones, item["count"]))
            for field, value in changes.items():
                if field in _POOL_IN_PLACE:
                    pool[field] = value
                elif field == "nodeNetworkConfig":
                    # Nodes get or lose external addresses when they are created.
                    pool["networkConfig"] = {**pool["networkConfig"], **value}
                    item["generation"] += 1
                elif field == "nodeVersion":
                    pool["version"] = VERSION if value in ("-", "latest") else value
                    item["generation"] += 1
                elif field in _WRAPPED:
                    # The API wraps these so that "empty" differs from "unchanged".
                    inner, empty = _WRAPPED[field]
                    config[field] = (value or {}).get(inner, empty)
                    # gcloud's reference, --resource-labels of node-pools update: the nodes are
                    # recreated.
                    item["generation"] += field == "resourceLabels"
                elif field == "diskSizeGb":
                    config[field] = int(value)
                    item["generation"] += 1
                else:
                    item["generation"] += field in _CONFIG_RECREATES
                    config[field] = value
            check_labels_and_taints(config)
            check_ssd(config, find_machine(config["machineType"]))
            check_boot_disk(config, find_machine(config["machineType"]))
            check_features(config)
            check_upgrade(pool["upgradeSettings"])
            pool["upgradeSettings"] = fill_upgrade(pool["upgradeSettings"])
            check_placement(pool, pool["locations"])
            pool |= {"config": config, "etag": etag(), "status": "RECONCILING"}
            if item["gke_gpu_taint"]:
                _refuse_other_gpu_taint(pool)
            self._store.put(NODE_POOLS, key, item)
        kind = "UPGRADE_NODES" if item["generation"] > before else "UPDATE_CLUSTER"
        return self._operations.begin("container.nodePools.converge", kind, key)

    def _set_size(self, params: JsonObject, body: JsonObject) -> JsonObject:
        count = int(body.get("nodeCount", 0))
        check_count(count)
        item = find_pool(self._store, params["name"])
        added = count * len(item["pool"]["locations"]) - sum(counts_of(item).values())
        where = (params["name"].split("/")[1], params["name"].split("/")[3])
        check_quotas(self._context, *where, [_added(item["pool"], max(added, 0))])
        more = {zone: max(count - n, 0) for zone, n in counts_of(item).items()}
        self._check_reserved(params["name"], item["pool"]["config"], more)
        return self._reconcile(params["name"], "SET_NODE_POOL_SIZE", count=count)

    def _set_management(self, params: JsonObject, body: JsonObject) -> JsonObject:
        management = body.get("management") or {}
        cluster = find_cluster(self._store, params["name"].rpartition("/nodePools/")[0])
        check_management(management, _channel(cluster["cluster"]))
        return self._reconcile(
            params["name"], "SET_NODE_POOL_MANAGEMENT", pool={"management": management}
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
            item = self._updatable(key)
            check_provisioning({**item["pool"], **(pool or {})})
            if count is not None:
                item |= {"count": count, "scaled": None}
            # Despite its name, initialNodeCount is where the API shows a pool's current size.
            item["pool"] |= {
                **(pool or {}),
                "initialNodeCount": item["count"],
                "etag": etag(),
                "status": "RECONCILING",
            }
            self._store.put(NODE_POOLS, key, item)
        return self._operations.begin("container.nodePools.converge", operation_type, key)

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = params["name"]
        with self._store.lock:
            item = self._updatable(key)
            item["pool"]["status"] = "STOPPING"
            self._store.put(NODE_POOLS, key, item)
        return self._operations.begin("container.nodePools.delete", "DELETE_NODE_POOL", key)

    def _finish_converge(self, arguments: JsonObject) -> None:
        self._operations.finish(arguments, lambda: self.converge(arguments["target"]))

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["target"]

        def step() -> None:
            if self._store.get(NODE_POOLS, key) is not None:
                self._nodes(key).remove_nodes()
                self._store.delete(NODE_POOLS, key)

        self._operations.finish(arguments, step)

    def _nodes(self, key: str) -> NodeGroup:
        api = self._context.planes.nodes(key.split("/")[5])
        return NodeGroup(self._store, NODE_POOLS, key, api)

    def _running_cluster(self, key: str) -> JsonObject:
        cluster = find_cluster(self._store, key)["cluster"]
        if cluster["status"] != "RUNNING":
            raise google_error(
                400, f"Cluster {key} is {cluster['status']}.", status="FAILED_PRECONDITION"
            )
        return cluster

    def _updatable(self, key: str) -> NodePoolRecord:
        """Raises CloudError while the pool changes. Locks are per pool: others may change."""
        item = find_pool(self._store, key)
        self._operations.refuse_while_running(key)
        self._running_cluster(key.rpartition("/nodePools/")[0])
        return item

    def _set(self, key: str, **fields: Any) -> None:
        """None removes a field."""
        with self._store.lock:
            item = find_pool(self._store, key)
            item["pool"] = {k: v for k, v in (item["pool"] | fields).items() if v is not None}
            self._store.put(NODE_POOLS, key, item)


def _added(pool: JsonObject, nodes: int) -> Added:
    return Added(pool["config"], nodes, bool(pool["networkConfig"]["enablePrivateNodes"]))


def _channel(cluster: JsonObject) -> str:
    return str(cluster["releaseChannel"]["channel"])


def _refuse_unsupported(changes: JsonObject) -> None:
    fields = {*_POOL_IN_PLACE, *_WRAPPED, *_CONFIG_RECREATES, "nodeVersion", "nodeNetworkConfig"}
    for field in changes:
        if field == "accelerators":
            raise google_error(
                400,
                "Updating accelerator type, count or partition size of a node pool is "
                "not supported.",
            )
        if field not in fields:
            raise google_error(
                400, f"The rehearsal's cloud does not update {field} of a node pool."
            )


def _refuse_other_gpu_taint(pool: JsonObject) -> None:
    """GKE accepts its own GPU taint in a request; one with another value collides with it."""
    for taint in pool["config"].get("taints", []):
        if taint_id(taint) == taint_id(GPU_TAINT) and taint != GPU_TAINT:
            raise google_error(
                400, "Found more than one taint with key nvidia.com/gpu and effect NO_SCHEDULE"
            )

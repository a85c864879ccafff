"""The simulated Kubernetes Engine: clusters and operations. Pools stand in gke_pools."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any

from kubeapi import JsonObject
from rehearsal.clouds.core.context import CLUSTER_NAMES, Context, Handler, Methods, now
from rehearsal.clouds.core.control_planes import Address
from rehearsal.clouds.core.errors import CloudError, google_error
from rehearsal.clouds.gcp import gke_addons
from rehearsal.clouds.gcp.gke_checks import check_name
from rehearsal.clouds.gcp.gke_defaults import (
    VERSION,
    default_locations,
    etag,
    fill_node_config,
    region_of,
    zones_of,
)
from rehearsal.clouds.gcp.gke_pools import POOLS, Pools

CLUSTERS = "container/clusters"
OPERATIONS = "container/operations"
# UpdateCluster's word for a field -> the cluster's. The rest of desired* has no effect that a
# rehearsal could show: refused.
_DESIRED = {
    "desiredLoggingConfig": "loggingConfig",
    "desiredMonitoringConfig": "monitoringConfig",
    "desiredWorkloadIdentityConfig": "workloadIdentityConfig",
    "desiredVerticalPodAutoscaling": "verticalPodAutoscaling",
    "desiredLocations": "locations",
}
log = logging.getLogger(__name__)


class Gke:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._pools = Pools(context, self)
        context.tasks.register(
            {
                "container.clusters.create": self._finish_create,
                "container.clusters.delete": self._finish_delete,
                **self._pools.tasks(),
            }
        )

    def methods(self) -> Methods:
        location = "projects.locations"
        return {
            f"{location}.clusters.create": self._create,
            f"{location}.clusters.get": lambda params, _: self.shown(self.cluster(params["name"])),
            f"{location}.clusters.list": self._list,
            f"{location}.clusters.update": self._update,
            f"{location}.clusters.setResourceLabels": self._set_labels,
            f"{location}.clusters.delete": self._delete,
            f"{location}.operations.get": self._operation,
            **self._pools.methods(),
        }

    def inventory(self) -> list[JsonObject]:
        clusters = [
            {"kind": "container.cluster", "name": key} for key, _ in self._store.items(CLUSTERS)
        ]
        pools = [
            {"kind": "container.nodePool", "name": key, "nodes": len(i["nodes"])}
            for key, i in self._store.items(POOLS)
        ]
        return clusters + pools

    def revive(self) -> None:
        """Control planes of running clusters that have ended with the machine, say, are started
        again.
        """
        for key, item in self._store.items(CLUSTERS):
            if item["cluster"]["status"] == "RUNNING":
                self._set_running(key, self._context.planes.start(item["cluster"]["name"]))

    # Used by pools as well.

    def cluster(self, name: str) -> JsonObject:
        item = self._store.get(CLUSTERS, name)
        if item is None:
            raise google_error(404, f"Not found: {name}.")
        return item

    def begin(self, kind: str, operation_type: str, target: str, **arguments: Any) -> JsonObject:
        """Starts work that an operation reports on."""
        project, location = target.split("/")[1], target.split("/")[3]
        name = f"operation-{secrets.token_hex(12)}"
        path = f"projects/{project}/locations/{location}/operations/{name}"
        operation = {
            "name": name,
            "operationType": operation_type,
            "status": "RUNNING",
            "startTime": now(),
            "selfLink": f"https://container.googleapis.com/v1/{path}",
            "targetLink": f"https://container.googleapis.com/v1/{target}",
            "location": location,
            "zone": location,
        }
        self._store.put(OPERATIONS, path, operation)
        self._context.tasks.begin(kind, operation=path, target=target, **arguments)
        return operation

    def work(self, arguments: JsonObject, step: Callable[[], None]) -> None:
        """Runs the step and closes its operation, with the error if there was one."""
        error: JsonObject | None = None
        try:
            step()
        except CloudError as e:
            error = {"code": e.code, "message": e.message}
        except Exception as e:
            log.exception("%s", arguments)
            error = {
                "code": 13,
                "message": f"internal error of the rehearsal's cloud: {type(e).__name__}: {e}",
            }
        with self._store.lock:
            operation = self._store.get(OPERATIONS, arguments["operation"]) or {}
            operation |= {"status": "DONE", "endTime": now()}
            if error:
                operation |= {"error": error, "statusMessage": error["message"]}
            self._store.put(OPERATIONS, arguments["operation"], operation)

    def running_operations(self, target: str) -> list[JsonObject]:
        link = f"https://container.googleapis.com/v1/{target}"
        return [
            o
            for o in self._store.values(OPERATIONS)
            if o["status"] == "RUNNING" and o["targetLink"].startswith(link)
        ]

    def shown(self, item: JsonObject) -> JsonObject:
        """The cluster as GetCluster answers: with its pools."""
        cluster = dict(item["cluster"])
        pools = self._pools.of_cluster(item["key"])
        cluster["nodePools"] = [self._pools.shown(p) for p in pools]
        cluster["currentNodeCount"] = sum(len(p["nodes"]) for p in pools)
        return cluster

    # Methods.

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        asked = body.get("cluster") or {}
        parent = params["parent"]
        project, location = parent.split("/")[1], parent.split("/")[3]
        name = str(asked.get("name", ""))
        check_name("cluster", name)
        key = f"{parent}/clusters/{name}"
        pools = list(asked.get("nodePools") or [])
        count = int(asked.get("initialNodeCount", 0))
        if not pools and count < 1:
            raise google_error(400, "Cluster.initial_node_count must be greater than zero.")
        if pools and count:
            raise google_error(
                400, "Cluster.initial_node_count and Cluster.node_pools must not both be set."
            )
        with self._store.lock:
            if self._store.get(CLUSTERS, key):
                raise google_error(409, f"Already exists: {key}.")
            network, subnetwork = self._check_network(project, location, asked)
            locations = list(asked.get("locations") or default_locations(location))
            wrong = sorted(set(locations) - set(zones_of(location)))
            if wrong:
                raise google_error(
                    400,
                    f"Locations {', '.join(wrong)} are not in {location}; it has "
                    f"{', '.join(zones_of(location))}.",
                )
            if not pools:
                pools = [
                    {
                        "name": "default-pool",
                        "initialNodeCount": count,
                        "config": asked.get("nodeConfig") or {},
                    }
                ]
            for pool in pools:
                self._pools.check(pool, location=location)
            _claim_name(self._context, name, key)
            cluster = _filled(
                asked, name=name, project=project, location=location, locations=locations
            )
            cluster |= {"network": network, "subnetwork": subnetwork}
            self._store.put(CLUSTERS, key, {"key": key, "cluster": cluster, "nodes": []})
            for pool in pools:
                self._pools.put_new(key, cluster, pool)
        return self.begin("container.clusters.create", "CREATE_CLUSTER", key)

    def _finish_create(self, arguments: JsonObject) -> None:
        key = arguments["target"]

        def step() -> None:
            item = self.cluster(key)
            name = item["cluster"]["name"]
            address = self._context.planes.start(name)
            gke_addons.install(self._context.planes.nodes(name))
            for pool in self._pools.of_cluster(key):
                self._pools.converge(pool["key"])
            self._set_running(key, address)

        self.work(arguments, step)

    def _set_running(self, key: str, address: Address) -> None:
        with self._store.lock:
            item = self.cluster(key)
            item["cluster"] |= {
                "status": "RUNNING",
                # GKE gives a bare IP; the rehearsal's API server has a port of its own.
                "endpoint": address.server.removeprefix("https://"),
                "masterAuth": {"clusterCaCertificate": address.ca_data},
            }
            self._store.put(CLUSTERS, key, item)

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        parent = params["parent"].replace("/locations/-", "/locations/")
        return {
            "clusters": [
                self.shown(i) for key, i in self._store.items(CLUSTERS) if key.startswith(parent)
            ]
        }

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        update = body.get("update") or {}
        unknown = sorted(set(update) - set(_DESIRED))
        if unknown or len(update) != 1:
            raise google_error(
                400,
                f"The rehearsal's cloud updates one of {', '.join(sorted(_DESIRED))} at a time, "
                f"not {', '.join(sorted(update)) or 'nothing'}.",
            )
        return self._change(
            params["name"], {_DESIRED[k]: v for k, v in update.items()}, "UPDATE_CLUSTER"
        )

    def _set_labels(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._change(
            params["name"], {"resourceLabels": body.get("resourceLabels") or {}}, "UPDATE_CLUSTER"
        )

    def _change(self, key: str, change: JsonObject, kind: str) -> JsonObject:
        with self._store.lock:
            item = self.cluster(key)
            self._refuse_while_busy(key)
            item["cluster"] |= {**change, "labelFingerprint": secrets.token_hex(4), "etag": etag()}
            self._store.put(CLUSTERS, key, item)
        return self.finished(kind, key)

    def finished(self, operation_type: str, target: str) -> JsonObject:
        """An operation over work that took no time."""
        project, location = target.split("/")[1], target.split("/")[3]
        name = f"operation-{secrets.token_hex(12)}"
        operation = {
            "name": name,
            "operationType": operation_type,
            "status": "DONE",
            "startTime": now(),
            "endTime": now(),
            "targetLink": f"https://container.googleapis.com/v1/{target}",
            "location": location,
            "zone": location,
        }
        return self._store.put(
            OPERATIONS, f"projects/{project}/locations/{location}/operations/{name}", operation
        )

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = params["name"]
        with self._store.lock:
            item = self.cluster(key)
            self._refuse_while_busy(key)
            item["cluster"]["status"] = "STOPPING"
            self._store.put(CLUSTERS, key, item)
        return self.begin("container.clusters.delete", "DELETE_CLUSTER", key)

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["target"]

        def step() -> None:
            name = key.rpartition("/")[2]
            self._context.planes.remove(name)
            for pool in self._pools.of_cluster(key):
                self._store.delete(POOLS, pool["key"])
            self._store.delete(CLUSTERS, key)
            self._store.delete(CLUSTER_NAMES, name)

        self.work(arguments, step)

    def _operation(self, params: JsonObject, body: JsonObject) -> JsonObject:
        operation = self._store.get(OPERATIONS, params["name"])
        if operation is None:
            raise google_error(404, f"Not found: {params['name']}.")
        return operation

    def _refuse_while_busy(self, key: str) -> None:
        running = self.running_operations(key)
        if running:
            raise google_error(
                400,
                f"Cluster is running incompatible operation {running[0]['name']} "
                f"({running[0]['operationType']}).",
                status="FAILED_PRECONDITION",
            )

    def _check_network(self, project: str, location: str, asked: JsonObject) -> tuple[str, str]:
        """The names of network and subnetwork, both of which must exist and fit together."""
        name = str(asked.get("network") or "default").rpartition("/")[2]
        network = self._store.get("compute/networks", f"{project}/{name}")
        if network is None:
            raise google_error(400, f'Network "{name}" does not exist in project {project}.')
        region = region_of(location)
        wanted = str(asked.get("subnetwork") or "").rpartition("/")[2]
        found = [
            s
            for k, s in self._store.items("compute/subnetworks")
            if k.startswith(f"{project}/{region}/")
            and s["network"].endswith(f"/{name}")
            and wanted in ("", s["name"])
        ]
        if not found:
            what = f'Subnetwork "{wanted}"' if wanted else "A subnetwork"
            raise google_error(
                400, f'{what} of network "{name}" does not exist in region {region}.'
            )
        ranges = {r["rangeName"] for r in found[0].get("secondaryIpRanges", [])}
        policy = asked.get("ipAllocationPolicy") or {}
        for field in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
            if policy.get(field) and policy[field] not in ranges:
                raise google_error(
                    400,
                    f'Secondary range "{policy[field]}" does not exist in subnetwork '
                    f'"{found[0]["name"]}"; '
                    f"it has {sorted(ranges)}.",
                )
        return name, found[0]["name"]


def _claim_name(context: Context, name: str, owner: str) -> None:
    """A cluster's name is the name of its directory, whatever cloud it is in."""
    taken = context.store.get(CLUSTER_NAMES, name)
    if taken and taken["owner"] != owner:
        raise google_error(
            409,
            f'The rehearsal already has a cluster named "{name}" ({taken["owner"]}); one '
            "name per environment.",
        )
    context.store.put(CLUSTER_NAMES, name, {"owner": owner})


def _filled(
    asked: JsonObject, *, name: str, project: str, location: str, locations: list[str]
) -> JsonObject:
    cluster = {k: v for k, v in asked.items() if k not in ("nodePools", "masterAuth")}
    channel = (asked.get("releaseChannel") or {}).get("channel", "REGULAR")
    defaults: JsonObject = {
        "addonsConfig": {
            "kubernetesDashboard": {"disabled": True},
            "networkPolicyConfig": {"disabled": True},
        },
        "clusterIpv4Cidr": "10.0.0.0/16",
        "servicesIpv4Cidr": "10.96.0.0/16",
        "databaseEncryption": {"state": "DECRYPTED"},
        "defaultMaxPodsConstraint": {"maxPodsPerNode": "110"},
        "ipAllocationPolicy": {"useIpAliases": True, "stackType": "IPV4"},
        "loggingService": "logging.googleapis.com/kubernetes",
        "monitoringService": "monitoring.googleapis.com/kubernetes",
        "networkConfig": {},
        "shieldedNodes": {"enabled": True},
    }
    return {
        **defaults,
        **cluster,
        "name": name,
        "location": location,
        "zone": location,
        "locations": locations,
        "nodeConfig": fill_node_config(asked.get("nodeConfig") or {}),
        "releaseChannel": {"channel": channel},
        "currentMasterVersion": asked.get("initialClusterVersion")
        if "-gke." in str(asked.get("initialClusterVersion"))
        else VERSION,
        "currentNodeVersion": VERSION,
        "initialClusterVersion": VERSION,
        "createTime": now(),
        "etag": etag(),
        "id": secrets.token_hex(32),
        "labelFingerprint": secrets.token_hex(4),
        "selfLink": f"https://container.googleapis.com/v1/projects/{project}/locations/{location}/clusters/{name}",
        "status": "PROVISIONING",
    }


__all__ = ["CLUSTERS", "OPERATIONS", "Gke", "Handler"]

"""GKE clusters. Their control planes are real; the rest of a cluster is a record."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core import cluster_names
from slicewright.rehearsal.clouds.core.context import Context, Methods, now_precisely
from slicewright.rehearsal.clouds.core.control_planes import Address, Login
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.tasks import Task
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.etag import etag
from slicewright.rehearsal.clouds.gcp.gke import addons, versions
from slicewright.rehearsal.clouds.gcp.gke.checks import check_name, check_pool
from slicewright.rehearsal.clouds.gcp.gke.control_plane_access import (
    changed_access,
    check_access,
    check_addresses,
    fill_access,
)
from slicewright.rehearsal.clouds.gcp.gke.defaults import (
    VERSION,
    default_locations,
    fill_node_config,
    zones_of,
)
from slicewright.rehearsal.clouds.gcp.gke.encryption import (
    check_key_there,
    check_secrets_key,
    database_encryption,
)
from slicewright.rehearsal.clouds.gcp.gke.leftovers import leave_of_cluster
from slicewright.rehearsal.clouds.gcp.gke.maintenance import changed_policy
from slicewright.rehearsal.clouds.gcp.gke.managed_prometheus import install_managed_collection
from slicewright.rehearsal.clouds.gcp.gke.monitoring import OBSERVED, check_services, observed
from slicewright.rehearsal.clouds.gcp.gke.networks import check_network, check_subnetwork_rights
from slicewright.rehearsal.clouds.gcp.gke.node_networks import (
    check_multi_networking,
    check_multi_networking_used,
    install_kinds,
)
from slicewright.rehearsal.clouds.gcp.gke.node_pools import NodePools
from slicewright.rehearsal.clouds.gcp.gke.operations import API, Operations
from slicewright.rehearsal.clouds.gcp.gke.quotas import Added, check_quotas
from slicewright.rehearsal.clouds.gcp.gke.records import find_cluster, pools_of
from slicewright.rehearsal.clouds.gcp.state import CLUSTERS, NODE_POOLS, ClusterRecord

_LOGIN = Login(
    command="gke-gcloud-auth-plugin", arguments=("--use_application_default_credentials",)
)
# Field of ClusterUpdate -> field of the cluster. The other desired* fields have no effect that a
# rehearsal could show and are refused.
_DESIRED = {
    "desiredLoggingConfig": "loggingConfig",
    "desiredMonitoringConfig": "monitoringConfig",
    "desiredWorkloadIdentityConfig": "workloadIdentityConfig",
    "desiredVerticalPodAutoscaling": "verticalPodAutoscaling",
    "desiredLocations": "locations",
    "desiredReleaseChannel": "releaseChannel",
    "desiredMasterVersion": "currentMasterVersion",
    "desiredAddonsConfig": "addonsConfig",
    "desiredStackType": "ipAllocationPolicy.stackType",
    "desiredEnableMultiNetworking": "networkConfig.enableMultiNetworking",
    "desiredEnablePrivateEndpoint": "privateClusterConfig.enablePrivateEndpoint",
    "desiredDefaultEnablePrivateNodes": "privateClusterConfig.enablePrivateNodes",
    "desiredMasterAuthorizedNetworksConfig": "masterAuthorizedNetworksConfig",
    "desiredDatabaseEncryption": "databaseEncryption",
    "desiredControlPlaneEndpointsConfig": "controlPlaneEndpointsConfig",
}


class Clusters:
    def __init__(self, context: Context, operations: Operations, pools: NodePools) -> None:
        self._context = context
        self._planes = context.planes
        self._store = context.store
        self._operations = operations
        self._pools = pools

    def methods(self) -> Methods:
        clusters = "projects.locations.clusters"
        return {
            "projects.locations.getServerConfig": lambda _, __: versions.server_config(),
            f"{clusters}.create": self._create,
            f"{clusters}.get": lambda params, _: self._describe(
                find_cluster(self._store, params["name"])
            ),
            f"{clusters}.list": self._list,
            f"{clusters}.update": self._update,
            f"{clusters}.setResourceLabels": self._set_labels,
            f"{clusters}.setMaintenancePolicy": self._set_maintenance,
            f"{clusters}.delete": self._delete,
        }

    def tasks(self) -> dict[str, Task]:
        return {
            "container.clusters.create": self._finish_create,
            "container.clusters.delete": self._finish_delete,
        }

    def restart_control_planes(self) -> None:
        """For running clusters whose processes have ended, for example with the machine."""
        for key, item in self._store.items(CLUSTERS):
            if item["cluster"]["status"] == "RUNNING":
                self._set_running(key, self._start(item["cluster"]["name"]))

    def _start(self, name: str) -> Address:
        return self._planes.start(name, login=_LOGIN, critical_pods_need_quota=True)

    def _describe(self, item: ClusterRecord) -> JsonObject:
        """The cluster as GetCluster answers: with its node pools."""
        cluster = dict(item["cluster"])
        pools = pools_of(self._store, item["key"])
        cluster["nodePools"] = [self._pools.describe(p) for p in pools]
        cluster["currentNodeCount"] = sum(len(p["nodes"]) for p in pools)
        return cluster

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        requested = body.get("cluster") or {}
        parent = params["parent"]
        project, location = parent.split("/")[1], parent.split("/")[3]
        name = str(requested.get("name", ""))
        check_name("cluster", name)
        key = f"{parent}/clusters/{name}"
        pools = _requested_pools(requested)
        with self._store.lock:
            if self._store.get(CLUSTERS, key):
                raise google_error(409, f"Already exists: {key}.")
            network = check_network(self._store, project, location, requested)
            locations = _requested_locations(requested, location)
            for pool in pools:
                check_pool(pool, location=location, channel=_channel(requested))
                check_key_there(self._context, (pool.get("config") or {}).get("bootDiskKmsKey"))
            nodes = _added_nodes(requested, pools, locations)
            check_quotas(self._context, project, location, nodes)
            check_access(requested)
            check_multi_networking(requested)
            check_services(requested)
            encryption = requested.get("databaseEncryption") or {}
            check_secrets_key(encryption, location)
            check_key_there(self._context, encryption.get("keyName") or None)
            try:
                cluster_names.claim(self._store, name, owner=key)
            except cluster_names.NameTaken as e:
                raise google_error(409, str(e)) from None
            cluster = _filled(
                requested, name=name, project=project, location=location, locations=locations
            )
            cluster |= network.answer_fields()
            cluster["networkConfig"] = {**cluster["networkConfig"], **network.in_network_config()}
            cluster |= _derived(cluster, requested)
            self._store.put(CLUSTERS, key, ClusterRecord(key=key, cluster=cluster))
            for pool in pools:
                self._pools.add(key, cluster, pool)
        return self._operations.begin("container.clusters.create", "CREATE_CLUSTER", key)

    def _finish_create(self, arguments: JsonObject) -> None:
        key = arguments["target"]

        def step() -> None:
            cluster = find_cluster(self._store, key)["cluster"]
            self._check_late(key, cluster)
            name = cluster["name"]
            address = self._start(name)
            addons.install(self._planes.nodes(name))
            install_kinds(self._planes.nodes(name), cluster)
            install_managed_collection(self._planes.nodes(name), cluster)
            for pool in pools_of(self._store, key):
                self._pools.converge(pool["key"])
            self._set_running(key, address)

        self._operations.finish(arguments, step)

    def _check_late(self, key: str, cluster: JsonObject) -> None:
        """What GKE finds out only while it makes the cluster, which is then in status ERROR."""
        try:
            check_subnetwork_rights(self._store, key.split("/")[1], cluster)
            check_addresses(cluster)
        except CloudError as e:
            with self._store.lock:
                item = find_cluster(self._store, key)
                item["cluster"] |= {"status": "ERROR", "statusMessage": e.message}
                self._store.put(CLUSTERS, key, item)
            raise

    def _set_running(self, key: str, address: Address) -> None:
        with self._store.lock:
            item = find_cluster(self._store, key)
            item["cluster"] |= {
                "status": "RUNNING",
                # GKE gives a bare IP address; the rehearsal's API server has its own port.
                "endpoint": address.server.removeprefix("https://"),
                "masterAuth": {"clusterCaCertificate": address.ca_data},
            }
            self._store.put(CLUSTERS, key, item)

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        parent = params["parent"].replace("/locations/-", "/locations/")
        clusters = self._store.values(CLUSTERS, prefix=parent)
        return {"clusters": [self._describe(item) for item in clusters]}

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        update = body.get("update") or {}
        unknown = sorted(set(update) - set(_DESIRED))
        if unknown or len(update) != 1:
            raise google_error(
                400,
                f"The rehearsal's cloud updates one of {', '.join(sorted(_DESIRED))} at a time, "
                f"not {', '.join(sorted(update)) or 'nothing'}.",
            )
        ((desired, value),) = update.items()
        cluster = find_cluster(self._store, params["name"])["cluster"]
        if desired == "desiredMasterVersion":
            value = versions.upgraded(cluster["currentMasterVersion"], str(value))
        if desired == "desiredDatabaseEncryption":
            check_secrets_key(value, cluster["location"])
            value = database_encryption(value)
        field, _, member = _DESIRED[desired].partition(".")
        if member:
            value = {**(cluster.get(field) or {}), member: value}
        change = changed_access(cluster, field, value)
        if field in OBSERVED:
            # What the request leaves out of it stays.
            change = observed({**cluster, field: {**cluster[field], **value}})
        check_access({**cluster, **change})
        changed = {**cluster, **change}
        check_multi_networking(changed)
        check_multi_networking_used(changed, pools_of(self._store, params["name"]))
        check_addresses({**cluster, **change})
        kind = "UPGRADE_MASTER" if desired == "desiredMasterVersion" else "UPDATE_CLUSTER"
        answer = self._change(params["name"], change, kind)
        if desired == "desiredEnableMultiNetworking":
            install_kinds(self._planes.nodes(cluster["name"]), {**cluster, **change})
        if desired == "desiredMonitoringConfig":
            install_managed_collection(self._planes.nodes(cluster["name"]), {**cluster, **change})
        return answer

    def _set_maintenance(self, params: JsonObject, body: JsonObject) -> JsonObject:
        cluster = find_cluster(self._store, params["name"])["cluster"]
        requested = body.get("maintenancePolicy") or {}
        change = {"maintenancePolicy": changed_policy(cluster.get("maintenancePolicy"), requested)}
        return self._change(params["name"], change, "UPDATE_CLUSTER")

    def _set_labels(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._change(
            params["name"], {"resourceLabels": body.get("resourceLabels") or {}}, "UPDATE_CLUSTER"
        )

    def _change(self, key: str, change: JsonObject, operation_type: str) -> JsonObject:
        with self._store.lock:
            item = find_cluster(self._store, key)
            self._operations.refuse_while_running(key)
            item["cluster"] |= {**change, "labelFingerprint": secrets.token_hex(4), "etag": etag()}
            self._store.put(CLUSTERS, key, item)
        return self._operations.done(operation_type, key)

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = params["name"]
        with self._store.lock:
            item = find_cluster(self._store, key)
            self._operations.refuse_while_running(key)
            item["cluster"]["status"] = "STOPPING"
            self._store.put(CLUSTERS, key, item)
        return self._operations.begin("container.clusters.delete", "DELETE_CLUSTER", key)

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["target"]

        def step() -> None:
            name = key.rpartition("/")[2]
            item = self._store.get(CLUSTERS, key)
            if item is not None:
                api = self._planes.nodes(name)
                leave_of_cluster(self._context, key.split("/")[1], item["cluster"], api)
            self._planes.remove(name)
            for pool in pools_of(self._store, key):
                self._store.delete(NODE_POOLS, pool["key"])
            self._store.delete(CLUSTERS, key)
            cluster_names.release(self._store, name)

        self._operations.finish(arguments, step)


def _channel(cluster: JsonObject) -> str:
    """New clusters are in REGULAR unless they say otherwise."""
    return str((cluster.get("releaseChannel") or {}).get("channel") or "REGULAR")


def _requested_pools(requested: JsonObject) -> list[JsonObject]:
    """Returns the pools of a new cluster: one by the name default-pool if it names none."""
    pools = list(requested.get("nodePools") or [])
    count = int(requested.get("initialNodeCount", 0))
    if not pools and count < 1:
        raise google_error(400, "Cluster.initial_node_count must be greater than zero.")
    if pools and count:
        raise google_error(
            400, "Cluster.initial_node_count and Cluster.node_pools must not both be set."
        )
    config = requested.get("nodeConfig") or {}
    return pools or [{"name": "default-pool", "initialNodeCount": count, "config": config}]


def _requested_locations(requested: JsonObject, location: str) -> list[str]:
    """Returns the zones of a new cluster's nodes. Raises CloudError."""
    locations = list(requested.get("locations") or default_locations(location))
    wrong = sorted(set(locations) - set(zones_of(location)))
    if wrong:
        raise google_error(
            400,
            f"Locations {', '.join(wrong)} are not in {location}; it has "
            f"{', '.join(zones_of(location))}.",
        )
    return locations


def _added_nodes(
    requested: JsonObject, pools: Sequence[JsonObject], locations: Sequence[str]
) -> list[Added]:
    """Returns the nodes that a new cluster takes from the project's quotas."""
    private = bool((requested.get("privateClusterConfig") or {}).get("enablePrivateNodes"))
    return [
        Added(
            pool.get("config") or {},
            int(pool.get("initialNodeCount", 0)) * len(pool.get("locations") or locations),
            private,
        )
        for pool in pools
    ]


def _derived(cluster: JsonObject, requested: JsonObject) -> JsonObject:
    """Returns the fields that GKE completes in a new cluster. Raises CloudError."""
    fields = {**fill_access(cluster), **observed(requested)}
    fields["databaseEncryption"] = database_encryption(cluster["databaseEncryption"])
    if "maintenancePolicy" in requested:
        fields["maintenancePolicy"] = changed_policy(None, requested["maintenancePolicy"])
    return fields


def _filled(
    requested: JsonObject, *, name: str, project: str, location: str, locations: list[str]
) -> JsonObject:
    """The cluster with what GKE fills in."""
    cluster = {k: v for k, v in requested.items() if k not in ("nodePools", "masterAuth")}
    channel = _channel(requested)
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
        "nodeConfig": fill_node_config(requested.get("nodeConfig") or {}),
        "releaseChannel": {"channel": channel},
        "currentMasterVersion": versions.chosen(str(requested.get("initialClusterVersion") or "-")),
        "currentNodeVersion": VERSION,
        "initialClusterVersion": VERSION,
        "createTime": now_precisely(),
        "etag": etag(),
        "id": secrets.token_hex(32),
        "labelFingerprint": secrets.token_hex(4),
        "selfLink": f"{API}/projects/{project}/locations/{location}/clusters/{name}",
        "status": "PROVISIONING",
    }

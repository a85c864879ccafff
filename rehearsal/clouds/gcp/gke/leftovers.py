"""What a deleted GKE cluster leaves in its project: GKE deletes what it made with the cluster only.

Sources: kubernetes/ingress-gce #1195 (load balancers, their firewall rules, disks: gcloud's
reference, "container clusters delete"), kubernetes/kubernetes #39420, #39421, hashicorp/
terraform-provider-google #5948 (firewall rules that hold the network), #7637 and
pulumi/pulumi-kubernetes #1787 (network endpoint groups, removed by Google after a while). Labels of
disks: GKE documentation, "Create and manage cluster and node pool labels"; network tags of firewall
rules: the same, "Automatically created firewall rules"; descriptions of endpoint groups:
kubernetes/ingress-gce, pkg/utils/description.go.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator

from kubeapi import JsonObject
from rehearsal.clouds.core.context import Context
from rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS, NodeApi
from rehearsal.clouds.core.store import Kind
from rehearsal.clouds.gcp.account import account_of
from rehearsal.clouds.gcp.cluster_resources import COLLECTIONS
from rehearsal.clouds.gcp.compute_answers import API, common
from rehearsal.clouds.gcp.gke.defaults import region_of
from rehearsal.clouds.gcp.gke.networks import network_of
from rehearsal.clouds.gcp.state import (
    ADDRESSES,
    BACKEND_SERVICES,
    DISKS,
    FIREWALLS,
    FORWARDING_RULES,
    NETWORK_ENDPOINT_GROUPS,
    SNAPSHOTS,
    TARGET_POOLS,
)

_INTERNAL = ("networking.gke.io/load-balancer-type", "cloud.google.com/load-balancer-type")
_NEG = "cloud.google.com/neg"
_DISK_DRIVER = "pd.csi.storage.gke.io"
_HEALTH_CHECKS = ("130.211.0.0/22", "35.191.0.0/16", "209.85.152.0/22", "209.85.204.0/22")
"""From where Google probes. Source: Cloud Load Balancing, "Health checks overview"."""


def leave_of_cluster(context: Context, project: str, cluster: JsonObject, api: NodeApi) -> None:
    left = _Left(context, project, cluster)
    for service in api.listed("/api/v1/services"):
        if service["spec"].get("type") == "LoadBalancer":
            left.load_balancer(service)
        left.endpoint_groups(service)
    for volume in api.listed("/api/v1/persistentvolumes"):
        left.disk(volume)
    for content in api.listed(VOLUME_SNAPSHOTS):
        left.snapshot(content)


class _Left:
    """Puts what is left on record; each can be repeated after a crash."""

    def __init__(self, context: Context, project: str, cluster: JsonObject) -> None:
        self._context = context
        self._project = project
        self._cluster = cluster
        self._region = region_of(cluster["location"])
        self._id = hashlib.sha256(cluster["id"].encode()).hexdigest()[:16]
        network = network_of(cluster)
        self._network = f"{API}/{network.network}"
        self._subnetwork = f"{API}/{network.subnetwork}"

    def load_balancer(self, service: JsonObject) -> None:
        """A pass-through one, as GKE makes it of a Service without other annotations."""
        meta = service["metadata"]
        name = f"a{meta['uid'].replace('-', '')}"[:32]
        about = json.dumps({"kubernetes.io/service-name": f"{meta['namespace']}/{meta['name']}"})
        annotations = meta.get("annotations") or {}
        rule: JsonObject = {"description": about, "IPProtocol": "TCP", "region": self._region}
        if any(annotations.get(a) == "Internal" for a in _INTERNAL):
            backend = self._put(
                BACKEND_SERVICES,
                self._region,
                name,
                {"loadBalancingScheme": "INTERNAL", "protocol": "TCP", "description": about},
            )
            rule |= {
                "loadBalancingScheme": "INTERNAL",
                "backendService": backend,
                "network": self._network,
                "subnetwork": self._subnetwork,
            }
        else:
            # It holds the address while it changes the rule, and may end before it releases it.
            # Source: kubernetes/cloud-provider-gcp, providers/gce/gce_loadbalancer_external.go.
            address = {"addressType": "EXTERNAL", "status": "RESERVED", "description": about}
            self._put(ADDRESSES, self._region, name, address)
            pool = self._put(TARGET_POOLS, self._region, name, {"description": about})
            rule |= {"loadBalancingScheme": "EXTERNAL", "target": pool}
        self._put(FORWARDING_RULES, self._region, name, rule)
        ports = [str(p["port"]) for p in service["spec"].get("ports") or ()]
        self._firewall(f"k8s-fw-{name}", ["0.0.0.0/0"], ports, about)
        of_cluster = json.dumps({"kubernetes.io/cluster-id": self._id})
        self._firewall(f"k8s-{self._id}-node-http-hc", list(_HEALTH_CHECKS), ["10256"], of_cluster)

    def _firewall(self, name: str, sources: list[str], ports: list[str], about: str) -> None:
        rule: JsonObject = {
            "description": about,
            "network": self._network,
            "direction": "INGRESS",
            "priority": 1000,
            "sourceRanges": sources,
            "allowed": [{"IPProtocol": "tcp", "ports": ports}],
            "targetTags": [f"gke-{self._cluster['name']}-{self._id[:8]}-node"],
        }
        self._put(FIREWALLS, None, name, rule)

    def endpoint_groups(self, service: JsonObject) -> None:
        """Those of container-native load balancing, one in each zone for each port.

        Source: GKE's "Container-native load balancing through standalone zonal NEGs".
        """
        meta = service["metadata"]
        until = time.time() + account_of(self._context).leftovers_s
        for port, name in _exposed(service):
            digest = hashlib.sha256(f"{self._id}/{meta['uid']}/{port}".encode()).hexdigest()[:8]
            made = f"k8s1-{self._id[:8]}-{meta['namespace']}-{meta['name']}"[:46]
            group = {
                "networkEndpointType": "GCE_VM_IP_PORT",
                "network": self._network,
                "subnetwork": self._subnetwork,
                "size": 0,
                "description": json.dumps(
                    {
                        "cluster-uid": self._id,
                        "namespace": meta["namespace"],
                        "service-name": meta["name"],
                        "port": port,
                    }
                ),
                "_until": until,
            }
            for zone in self._cluster["locations"]:
                self._put(
                    NETWORK_ENDPOINT_GROUPS, zone, name or f"{made}-{port}-{digest}", dict(group)
                )

    def disk(self, volume: JsonObject) -> None:
        source = volume["spec"].get("csi") or {}
        # projects/PROJECT/zones/ZONE/disks/NAME
        parts = str(source.get("volumeHandle", "")).split("/")
        if source.get("driver") == _DISK_DRIVER and parts[4:5] == ["disks"]:
            size = str((volume["spec"].get("capacity") or {}).get("storage", "0"))
            disk = {
                "status": "READY",
                "sizeGb": size.removesuffix("Gi"),
                "description": "Disk created by GKE-PD CSI Driver",
                "labels": {
                    "goog-gke-volume": "",
                    "goog-k8s-cluster-location": self._cluster["location"],
                    "goog-k8s-cluster-name": self._cluster["name"],
                },
            }
            self._put(DISKS, parts[3], parts[5], disk)

    def snapshot(self, content: JsonObject) -> None:
        """It has no label of its cluster, only its disk. Source: gcp-compute-persistent-disk-csi-
        driver, pkg/common/parameters.go, ExtractAndDefaultSnapshotParameters.
        """
        # projects/PROJECT/global/snapshots/NAME
        parts = str((content.get("status") or {}).get("snapshotHandle", "")).split("/")
        if content["spec"].get("driver") == _DISK_DRIVER and parts[3:4] == ["snapshots"]:
            snapshot = {
                "status": "READY",
                "description": "Snapshot created by GCE-PD CSI Driver",
                "sourceDisk": f"{API}/{content['spec']['source']['volumeHandle']}",
            }
            self._put(SNAPSHOTS, None, parts[4], snapshot)

    def _put(
        self, kind: Kind[JsonObject], location: str | None, name: str, fields: JsonObject
    ) -> str:
        """location: zone or region. Returns the resource's link."""
        collection = COLLECTIONS[kind]
        key = "/".join(filter(None, (self._project, location, name)))
        link = f"{API}/{collection.path(key)}"
        resource = {"name": name, **common(link, f"compute#{collection.parameter}"), **fields}
        if location is not None:
            where = f"{API}/projects/{self._project}/{collection.scope}s/{location}"
            resource[collection.scope] = where
        self._context.store.put(kind, key, resource)
        return link


def _exposed(service: JsonObject) -> Iterator[tuple[str, str | None]]:
    """Ports for which endpoint groups are made, and the name that the Service gives them."""
    try:
        asked = json.loads((service["metadata"].get("annotations") or {}).get(_NEG, "{}"))
    except ValueError:
        return
    if asked.get("exposed_ports"):
        for port, settings in asked["exposed_ports"].items():
            yield port, (settings or {}).get("name")
    elif asked.get("ingress"):
        for declared in service["spec"].get("ports") or ():
            yield str(declared["port"]), None

"""What a deleted GKE cluster leaves in its project: GKE deletes what it made with the cluster only.

Sources: kubernetes/ingress-gce #1195 (load balancers, their firewall rules, disks: gcloud's
reference, "container clusters delete"), kubernetes/kubernetes #39420, #39421, hashicorp/
terraform-provider-google #5948 (firewall rules that hold the network), #7637 and
pulumi/pulumi-kubernetes #1787 (network endpoint groups, removed by Google after a while). Labels of
disks: GKE documentation, "Create and manage cluster and node pool labels"; network tags of firewall
rules: the same, "Automatically created firewall rules"; descriptions of endpoint groups:
kubernetes/ingress-gce, pkg/utils/description.go; names of what an Ingress consists of: the same,
pkg/utils/namer (frontendnamer.go, namer.go).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS, NodeApi
from slicewright.rehearsal.clouds.core.store import Kind
from slicewright.rehearsal.clouds.gcp.account import account_of
from slicewright.rehearsal.clouds.gcp.claimed_disks import disk_of, snapshot_of
from slicewright.rehearsal.clouds.gcp.cluster_resources import COLLECTIONS
from slicewright.rehearsal.clouds.gcp.compute_answers import API, common
from slicewright.rehearsal.clouds.gcp.gke.defaults import region_of
from slicewright.rehearsal.clouds.gcp.gke.networks import network_of
from slicewright.rehearsal.clouds.gcp.state import (
    ADDRESSES,
    BACKEND_SERVICES,
    DISKS,
    FIREWALLS,
    FORWARDING_RULES,
    GLOBAL_ADDRESSES,
    GLOBAL_BACKEND_SERVICES,
    GLOBAL_FORWARDING_RULES,
    HEALTH_CHECKS,
    NETWORK_ENDPOINT_GROUPS,
    SNAPSHOTS,
    SSL_CERTIFICATES,
    TARGET_HTTP_PROXIES,
    TARGET_HTTPS_PROXIES,
    TARGET_POOLS,
    URL_MAPS,
)

_INTERNAL = ("networking.gke.io/load-balancer-type", "cloud.google.com/load-balancer-type")
_NEG = "cloud.google.com/neg"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_HEALTH_CHECKS = ("130.211.0.0/22", "35.191.0.0/16", "209.85.152.0/22", "209.85.204.0/22")
"""From where Google probes. Source: Cloud Load Balancing, "Health checks overview"."""


def leave_of_cluster(context: Context, project: str, cluster: JsonObject, api: NodeApi) -> None:
    leftovers = _Leftovers(context, project, cluster)
    services = api.listed("/api/v1/services")
    for service in services:
        if service["spec"].get("type") == "LoadBalancer":
            leftovers.load_balancer(service)
        leftovers.endpoint_groups(service)
    by_name = {(s["metadata"]["namespace"], s["metadata"]["name"]): s for s in services}
    for ingress in api.listed("/apis/networking.k8s.io/v1/ingresses"):
        if _is_gke_ingress(ingress):
            leftovers.ingress(ingress, by_name)
    for volume in api.listed("/api/v1/persistentvolumes"):
        leftovers.disk(volume)
    for content in api.listed(VOLUME_SNAPSHOTS):
        leftovers.snapshot(content)


class _Leftovers:
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
                    NETWORK_ENDPOINT_GROUPS,
                    zone,
                    name or self._port_group_name(meta, port),
                    dict(group),
                )

    def _port_group_name(self, meta: JsonObject, port: str) -> str:
        """The name of what is made for a port of a Service. meta: the Service's."""
        digest = hashlib.sha256(f"{self._id}/{meta['uid']}/{port}".encode()).hexdigest()[:8]
        name = f"k8s1-{self._id[:8]}-{meta['namespace']}-{meta['name']}"[:46]
        return f"{name}-{port}-{digest}"

    def ingress(self, ingress: JsonObject, services: Mapping[tuple[str, str], JsonObject]) -> None:
        """An external one, as GKE makes it today: frontends with names of the second scheme, which
        have a hash of the UID of namespace kube-system; the rest has the cluster's own UID.
        """
        meta, spec = ingress["metadata"], ingress["spec"]
        key = f"{meta['namespace']}/{meta['name']}"
        about = json.dumps({"kubernetes.io/ingress-name": key})
        of_cluster = hashlib.sha256(f"kube-system of {self._id}".encode()).hexdigest()[:8]
        digest = hashlib.sha256(f"{of_cluster};{key}".encode()).hexdigest()[:8]
        name = f"{of_cluster}-{meta['namespace']}-{meta['name']}"[:45] + f"-{digest}"
        default = {"uid": "default", "namespace": "kube-system", "name": "default-http-backend"}
        url_map: JsonObject = {"defaultService": self._backend(default, "80")}
        if routed := [
            {"paths": ["/*"], "service": self._backend(services[service_key]["metadata"], port)}
            for service, port in _behind(ingress)
            if (service_key := (meta["namespace"], service)) in services
        ]:
            url_map["pathMatchers"] = [
                {"name": "host", "defaultService": url_map["defaultService"], "pathRules": routed}
            ]
        map_ = self._put(URL_MAPS, None, f"k8s2-um-{name}", url_map)
        proxy = self._put(TARGET_HTTP_PROXIES, None, f"k8s2-tp-{name}", {"urlMap": map_})
        rule = {"description": about, "IPProtocol": "TCP", "loadBalancingScheme": "EXTERNAL"}
        http = {**rule, "portRange": "80-80", "target": proxy}
        self._put(GLOBAL_FORWARDING_RULES, None, f"k8s2-fr-{name}", http)
        if spec.get("tls"):
            # Both frontends share an address, which is therefore reserved.
            address = {"addressType": "EXTERNAL", "status": "RESERVED", "description": about}
            self._put(GLOBAL_ADDRESSES, None, f"k8s2-fr-{name}", address)
            named = f"k8s2-cr-{of_cluster}-{digest}{digest}-0123456789abcdef"
            certificate = self._put(SSL_CERTIFICATES, None, named, {"type": "SELF_MANAGED"})
            secure = {"urlMap": map_, "sslCertificates": [certificate]}
            proxy = self._put(TARGET_HTTPS_PROXIES, None, f"k8s2-ts-{name}", secure)
            https = {**rule, "portRange": "443-443", "target": proxy}
            self._put(GLOBAL_FORWARDING_RULES, None, f"k8s2-fs-{name}", https)
        self._firewall(f"k8s-fw-l7--{self._id}", list(_HEALTH_CHECKS[:2]), ["8000"], "")

    def _backend(self, meta: JsonObject, port: str) -> str:
        """The backend service for a port of a Service, and its health check. Endpoint groups that
        are there are in use by it.
        """
        name = self._port_group_name(meta, port)
        check = {"type": "HTTP", "description": "Default kubernetes L7 Loadbalancing health check"}
        link = self._put(HEALTH_CHECKS, None, name, check)
        collection = COLLECTIONS[NETWORK_ENDPOINT_GROUPS]
        groups = []
        for zone in self._cluster["locations"]:
            key = f"{self._project}/{zone}/{name}"
            if group := self._context.store.get(NETWORK_ENDPOINT_GROUPS, key):
                # Google removes only what nothing uses.
                fields = {k: v for k, v in group.items() if k != "_until"}
                self._context.store.put(NETWORK_ENDPOINT_GROUPS, key, fields)
                groups.append({"group": f"{API}/{collection.path(key)}", "balancingMode": "RATE"})
        about = {
            "kubernetes.io/service-name": f"{meta['namespace']}/{meta['name']}",
            "kubernetes.io/service-port": port,
        }
        backend = {
            "description": json.dumps(about),
            "loadBalancingScheme": "EXTERNAL",
            "protocol": "HTTP",
            "healthChecks": [link],
            "backends": groups,
        }
        return self._put(GLOBAL_BACKEND_SERVICES, None, name, backend)

    def disk(self, volume: JsonObject) -> None:
        disk_record = disk_of(self._project, volume, self._cluster)
        if disk_record is not None:
            self._keep(DISKS, *disk_record)

    def snapshot(self, content: JsonObject) -> None:
        snapshot_record = snapshot_of(self._project, content, self._cluster)
        if snapshot_record is not None:
            self._keep(SNAPSHOTS, *snapshot_record)

    def _keep(self, kind: Kind[JsonObject], key: str, resource: JsonObject) -> None:
        """One that an earlier cluster left is older, and stays as it is."""
        if self._context.store.get(kind, key) is None:
            self._context.store.put(kind, key, resource)

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


def _is_gke_ingress(ingress: JsonObject) -> bool:
    """Whether GKE makes an external load balancer for it. Source: GKE documentation, "GKE Ingress
    for Application Load Balancers".
    """
    ingress_class = (ingress["metadata"].get("annotations") or {}).get(_INGRESS_CLASS, "gce")
    return ingress_class == "gce" and not ingress["spec"].get("ingressClassName")


def _behind(ingress: JsonObject) -> Iterator[tuple[str, str]]:
    """Services that it leads to, and their ports."""
    backends = [ingress["spec"].get("defaultBackend") or {}]
    for rule in ingress["spec"].get("rules") or ():
        backends += [path["backend"] for path in (rule.get("http") or {}).get("paths") or ()]
    for backend in backends:
        if service := backend.get("service"):
            yield service["name"], str(service["port"].get("number", ""))


def _exposed(service: JsonObject) -> Iterator[tuple[str, str | None]]:
    """Ports for which endpoint groups are made, and the name that the Service gives them."""
    try:
        requested = json.loads((service["metadata"].get("annotations") or {}).get(_NEG, "{}"))
    except ValueError:
        return
    if requested.get("exposed_ports"):
        for port, settings in requested["exposed_ports"].items():
            yield port, (settings or {}).get("name")
    elif requested.get("ingress"):
        for declared in service["spec"].get("ports") or ():
            yield str(declared["port"]), None

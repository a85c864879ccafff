"""google-api-python-client drives every simulated method, and parses its answers and refusals.

A method that is added to the simulated Google Cloud needs its two cases here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes, fake_nodes
from slicewright.rehearsal.clouds.core.node_api import VOLUME_SNAPSHOTS
from slicewright.rehearsal.clouds.gcp.account import write_account
from slicewright.rehearsal.clouds.gcp.models import DOCUMENTS
from slicewright.rehearsal.clouds.service import Cloud
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

PROJECT, REGION = "acme", "us-central1"
PARENT = f"projects/{PROJECT}/locations/{REGION}"
CLUSTER = f"{PARENT}/clusters/main"
POOL = f"{CLUSTER}/nodePools/default-pool"
ACCOUNT = f"projects/{PROJECT}/serviceAccounts/gpu-nodes@{PROJECT}.iam.gserviceaccount.com"
ROLE, MEMBER = "roles/viewer", "user:a@example.com"
UID = "0a1b2c3d-0000-4000-8000-123456789abc"
BALANCER = "a0a1b2c3d000040008000123456789ab"
CONTAINER_API = f"projects/{PROJECT}/services/container.googleapis.com"


class World:
    """The simulated Google Cloud, its official clients, and what the cases need to exist."""

    def __init__(self, gcp: Gcp) -> None:
        self.gcp = gcp

    def do(self, service: str, method: str, **arguments: Any) -> JsonObject:
        answer: JsonObject = client(self.gcp.cloud.call, service).call(method, **arguments)
        return answer

    def network(self) -> None:
        body = {"name": "net", "autoCreateSubnetworks": False}
        self.do("compute", "networks.insert", project=PROJECT, body=body)

    def subnetwork(self) -> JsonObject:
        body = {"name": "sub", "network": f"projects/{PROJECT}/global/networks/net"}
        body["ipCidrRange"] = "10.0.0.0/20"
        return self.do("compute", "subnetworks.insert", project=PROJECT, region=REGION, body=body)

    def account_lists(self) -> None:
        """A reservation and a key, and no others."""
        reserved = {"name": "week", "zone": f"{REGION}-c", "machine_type": "g2-standard-4"}
        reserved |= {"count": 2, "shared_with": ["other"]}
        keys = {f"{PARENT}/keyRings/a/cryptoKeys/b": "ENABLED"}
        write_account(self.gcp.environment, {"reservations": [reserved], "keys": keys})

    def router(self) -> None:
        self.network()
        self.do("compute", "routers.insert", **_PLACE, body=_ROUTER)

    def firewall(self) -> None:
        self.network()
        self.do("compute", "firewalls.insert", project=PROJECT, body=_RULE)

    def shared_vpc(self) -> None:
        self.do("compute", "projects.enableXpnHost", **_SHARED)
        self.do("compute", "projects.enableXpnResource", **_ATTACHED)

    def cluster(self) -> None:
        self.gcp.make_cluster()

    def left_by_a_cluster(self) -> None:
        """One of each kind that a cluster leaves, and a target pool that nothing leads to."""
        write_account(self.gcp.environment, {"leftovers_s": 3600})
        self.cluster()
        nodes = fake_nodes(self.gcp.environment, "main")
        annotations = {"cloud.google.com/neg": '{"exposed_ports": {"80": {"name": "left"}}}'}
        meta = {"uid": UID, "namespace": "a", "name": "b", "annotations": annotations}
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        nodes.add_object("/api/v1/services", {"metadata": meta, "spec": spec})
        internal = {"networking.gke.io/load-balancer-type": "Internal"}
        meta = {"uid": "1", "namespace": "a", "name": "c", "annotations": internal}
        nodes.add_object("/api/v1/services", {"metadata": meta, "spec": spec})
        meta = {"uid": "2", "namespace": "a", "name": "web", "annotations": {}}
        entry = {"metadata": meta, "spec": {"tls": [{"secretName": "web"}]}}
        nodes.add_object("/apis/networking.k8s.io/v1/ingresses", entry)
        handle = f"projects/{PROJECT}/zones/{REGION}-a/disks/left"
        source = {"driver": "pd.csi.storage.gke.io", "volumeHandle": handle}
        nodes.add_object("/api/v1/persistentvolumes", {"spec": {"csi": source}})
        snapshot = {
            "spec": {"driver": source["driver"], "source": {"volumeHandle": handle}},
            "status": {"snapshotHandle": f"projects/{PROJECT}/global/snapshots/left"},
        }
        nodes.add_object(VOLUME_SNAPSHOTS, snapshot)
        self.do("container", f"{_CLUSTERS}.delete", name=CLUSTER)
        assert self.gcp.cloud.tasks.wait(120)

    def of_ingress(self, collection: str, *, unused: bool) -> str:
        """The name of one that an Ingress left. unused: nothing leads to it any more."""
        self.left_by_a_cluster()
        names = {
            name: [one["name"] for one in self._left(name)]
            for name in (*_BEFORE, "healthChecks", "globalAddresses")
        }
        for before in _BEFORE[: _BEFORE.index(collection)] if collection in _BEFORE else _BEFORE:
            for name in names[before] if unused else ():
                where = {"project": PROJECT, _OF_INGRESS[before]: name}
                self.do("compute", f"{before}.delete", **where)
        return str(names[collection][0])

    def _left(self, collection: str) -> list[JsonObject]:
        found: list[JsonObject] = self.do("compute", f"{collection}.list", project=PROJECT)["items"]
        return found

    def unused_backends(self) -> None:
        self.left_by_a_cluster()
        for name in (BALANCER, "a1"):
            where = {"project": PROJECT, "region": REGION, "forwardingRule": name}
            self.do("compute", "forwardingRules.delete", **where)

    def account(self) -> JsonObject:
        return self.do(
            "iam",
            "projects.serviceAccounts.create",
            name=f"projects/{PROJECT}",
            body={"accountId": "gpu-nodes", "serviceAccount": {"displayName": "Nodes"}},
        )


Case = Callable[[World], Any]


def _with(*needed: str) -> Callable[[str, str, dict[str, Any]], Case]:
    def case(service: str, method: str, arguments: dict[str, Any]) -> Case:
        def run(world: World) -> Any:
            for name in needed:
                getattr(world, name)()
            return world.do(service, method, **arguments)

        return run

    return case


_NET = {"project": PROJECT, "network": "net"}
_SUB = {"project": PROJECT, "region": REGION, "subnetwork": "sub"}
_NO_NET, _NO_SUB = {**_NET, "network": "none"}, {**_SUB, "subnetwork": "none"}
_CLUSTERS, _POOLS = "projects.locations.clusters", "projects.locations.clusters.nodePools"
_NO_CLUSTER = {"name": f"{PARENT}/clusters/none"}
_NO_POOL = {"name": f"{CLUSTER}/nodePools/none"}
_NEW_POOL = {"nodePool": {"name": "more", "initialNodeCount": 1}}
_SIZE = {"nodeCount": 2}
_SCALING = {"autoscaling": {"enabled": True, "minNodeCount": 1, "maxNodeCount": 2}}
_MANAGEMENT = {"management": {"autoRepair": True, "autoUpgrade": True}}
_LABELS = {"resourceLabels": {"a": "b"}}
_MAINTENANCE = {"maintenancePolicy": {"window": {"dailyMaintenanceWindow": {"startTime": "03:00"}}}}
_UPDATE = {"update": {"desiredLocations": ["us-central1-a"]}}
_TAGS = {"tags": {"tags": ["web"]}}
_SERVICE_ACCOUNTS = "projects.serviceAccounts"
_RULE = {
    "name": "inside",
    "network": f"projects/{PROJECT}/global/networks/net",
    "allowed": [{"IPProtocol": "tcp"}],
    "sourceRanges": ["10.0.0.0/8"],
}
_THE_RULE = {"project": PROJECT, "firewall": "inside"}
_PATCH = {"serviceAccount": {"displayName": "x"}, "updateMask": "displayName"}
_NO_ACCOUNT = {"name": f"projects/{PROJECT}/serviceAccounts/none@{PROJECT}.iam.gserviceaccount.com"}
_POLICY = {"policy": {"bindings": [{"role": ROLE, "members": [MEMBER]}]}}
_BAD_POLICY = {"policy": {"bindings": [{"role": "viewer", "members": [MEMBER]}]}}
_NO_API = {"name": f"projects/{PROJECT}/services/none.googleapis.com"}
_PLACE = {"project": PROJECT, "region": REGION}
_ROUTER = {"name": "router", "network": f"projects/{PROJECT}/global/networks/net"}
_THE_ROUTER = {**_PLACE, "router": "router"}
_NAT = {
    "name": "nat",
    "natIpAllocateOption": "AUTO_ONLY",
    "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
}
_SHARED = {"project": "net-host"}
_ATTACHED = {**_SHARED, "body": {"xpnResource": {"id": PROJECT, "type": "PROJECT"}}}


def _operation_of_cluster(world: World) -> Any:
    world.cluster()
    started = world.do("container", f"{_POOLS}.setSize", name=POOL, body=_SIZE)
    return world.do(
        "container",
        "projects.locations.operations.get",
        name=f"{PARENT}/operations/{started['name']}",
    )


def _operation_of_service(world: World) -> Any:
    done = world.do("serviceusage", "services.enable", name=CONTAINER_API, body={})
    return world.do("serviceusage", "operations.get", name=done["name"])


def _delete_instance(world: World) -> Any:
    world.cluster()
    node = fake_nodes(world.gcp.environment, "main").read()[0]
    zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
    return world.do("compute", "instances.delete", **_machine(zone, node["metadata"]["name"]))


def _machine(zone: str, name: str) -> dict[str, str]:
    return {"project": PROJECT, "zone": zone, "instance": name}


def _create_cluster(world: World) -> Any:
    world.network()
    world.subnetwork()
    body = {"cluster": {"name": "main", "initialNodeCount": 1, "network": "net"}}
    return world.do("container", f"{_CLUSTERS}.create", parent=PARENT, body=body)


def _with_network(world: World) -> Any:
    world.network()
    return world.subnetwork()


# Method -> needed, arguments that work; needed, arguments that are refused, HTTP code, reason.
_Arguments = dict[str, Any]
_TABLE: Mapping[str, tuple[tuple[str, ...], _Arguments, tuple[str, ...], _Arguments, int]] = {
    "compute networks.insert": (
        (), {"project": PROJECT, "body": {"name": "n"}},
        ("network",), {"project": PROJECT, "body": {"name": "net"}}, 409,
    ),
    "cloudresourcemanager projects.testIamPermissions": (
        (), {"resource": PROJECT, "body": {"permissions": ["compute.networks.create"]}},
        (), {"resource": PROJECT, "body": {"permissions": ["compute.*"]}}, 400,
    ),
    "cloudkms projects.locations.keyRings.cryptoKeys.get": (
        (), {"name": f"{PARENT}/keyRings/a/cryptoKeys/b"},
        ("account_lists",), {"name": f"{PARENT}/keyRings/a/cryptoKeys/c"}, 404,
    ),
    "orgpolicy projects.policies.getEffectivePolicy": (
        (), {"name": f"projects/{PROJECT}/policies/compute.requireShieldedVm"},
        (), {"name": f"projects/{PROJECT}/policies/compute.none"}, 404,
    ),
    "compute reservations.get": (
        ("account_lists",), {"project": PROJECT, "zone": f"{REGION}-c", "reservation": "week"},
        ("account_lists",), {"project": PROJECT, "zone": f"{REGION}-a", "reservation": "week"}, 404,
    ),
    "compute regions.get": (
        (), {"project": PROJECT, "region": REGION},
        (), {"project": PROJECT, "region": "us-nowhere1"}, 404,
    ),
    "compute machineTypes.get": (
        (), {"project": PROJECT, "zone": f"{REGION}-a", "machineType": "e2-standard-4"},
        (), {"project": PROJECT, "zone": f"{REGION}-f", "machineType": "a3-highgpu-8g"}, 404,
    ),
    "compute networks.get": (("network",), _NET, (), _NO_NET, 404),
    "compute networks.patch": (
        ("network",), {**_NET, "body": {"routingConfig": {"routingMode": "GLOBAL"}}},
        (), {**_NO_NET, "body": {}}, 404,
    ),
    "compute networks.delete": (("network",), _NET, ("network", "subnetwork"), _NET, 400),
    "compute subnetworks.get": (("network", "subnetwork"), _SUB, (), _NO_SUB, 404),
    "compute subnetworks.patch": (
        ("network", "subnetwork"), {**_SUB, "body": {"privateIpGoogleAccess": True}},
        (), {**_NO_SUB, "body": {}}, 404,
    ),
    "compute subnetworks.expandIpCidrRange": (
        ("network", "subnetwork"), {**_SUB, "body": {"ipCidrRange": "10.0.0.0/19"}},
        (), {**_NO_SUB, "body": {"ipCidrRange": "10.0.0.0/19"}}, 404,
    ),
    "compute subnetworks.delete": (("network", "subnetwork"), _SUB, (), _NO_SUB, 404),
    "compute projects.enableXpnHost": (
        (), _SHARED, ("shared_vpc",), {"project": PROJECT}, 400,
    ),
    "compute projects.enableXpnResource": (
        ("shared_vpc",), _ATTACHED, (), {**_ATTACHED, "project": "no-host"}, 400,
    ),
    "compute firewalls.insert": (
        ("network",), {"project": PROJECT, "body": _RULE},
        (), {"project": PROJECT, "body": _RULE}, 400,
    ),
    "compute firewalls.patch": (
        ("firewall",), {**_THE_RULE, "body": {"sourceRanges": ["10.0.0.0/8"]}},
        (), {**_THE_RULE, "body": {}}, 404,
    ),
    "compute routers.insert": (
        ("network",), {**_PLACE, "body": _ROUTER}, (), {**_PLACE, "body": _ROUTER}, 400,
    ),
    "compute routers.get": (("router",), _THE_ROUTER, (), _THE_ROUTER, 404),
    "compute routers.patch": (
        ("router",), {**_THE_ROUTER, "body": {"nats": [_NAT]}},
        ("router",), {**_THE_ROUTER, "body": {"nats": [_NAT, _NAT]}}, 400,
    ),
    "compute routers.delete": (("router",), _THE_ROUTER, (), _THE_ROUTER, 404),
    f"container {_CLUSTERS}.get": (("cluster",), {"name": CLUSTER}, (), _NO_CLUSTER, 404),
    f"container {_CLUSTERS}.update": (
        ("cluster",), {"name": CLUSTER, "body": _UPDATE}, (), {**_NO_CLUSTER, "body": _UPDATE}, 404,
    ),
    f"container {_CLUSTERS}.setResourceLabels": (
        ("cluster",), {"name": CLUSTER, "body": _LABELS}, (), {**_NO_CLUSTER, "body": _LABELS}, 404,
    ),
    f"container {_CLUSTERS}.setMaintenancePolicy": (
        ("cluster",), {"name": CLUSTER, "body": _MAINTENANCE},
        (), {**_NO_CLUSTER, "body": _MAINTENANCE}, 404,
    ),
    f"container {_CLUSTERS}.delete": (("cluster",), {"name": CLUSTER}, (), _NO_CLUSTER, 404),
    f"container {_POOLS}.create": (
        ("cluster",), {"parent": CLUSTER, "body": _NEW_POOL},
        (), {"parent": CLUSTER, "body": _NEW_POOL}, 404,
    ),
    f"container {_POOLS}.get": (("cluster",), {"name": POOL}, ("cluster",), _NO_POOL, 404),
    f"container {_POOLS}.update": (
        ("cluster",), {"name": POOL, "body": _TAGS}, ("cluster",), {**_NO_POOL, "body": _TAGS}, 404,
    ),
    f"container {_POOLS}.setSize": (
        ("cluster",), {"name": POOL, "body": _SIZE}, (), {**_NO_POOL, "body": _SIZE}, 404,
    ),
    f"container {_POOLS}.setManagement": (
        ("cluster",), {"name": POOL, "body": _MANAGEMENT},
        (), {**_NO_POOL, "body": _MANAGEMENT}, 404,
    ),
    f"container {_POOLS}.setAutoscaling": (
        ("cluster",), {"name": POOL, "body": _SCALING}, (), {**_NO_POOL, "body": _SCALING}, 404,
    ),
    f"container {_POOLS}.delete": (("cluster",), {"name": POOL}, (), _NO_POOL, 404),
    f"iam {_SERVICE_ACCOUNTS}.create": (
        (), {"name": f"projects/{PROJECT}", "body": {"accountId": "gpu-nodes"}},
        ("account",), {"name": f"projects/{PROJECT}", "body": {"accountId": "gpu-nodes"}}, 409,
    ),
    f"iam {_SERVICE_ACCOUNTS}.get": (("account",), {"name": ACCOUNT}, (), _NO_ACCOUNT, 404),
    f"iam {_SERVICE_ACCOUNTS}.patch": (
        ("account",), {"name": ACCOUNT, "body": _PATCH}, (), {**_NO_ACCOUNT, "body": _PATCH}, 404,
    ),
    f"iam {_SERVICE_ACCOUNTS}.delete": (("account",), {"name": ACCOUNT}, (), _NO_ACCOUNT, 404),
    "cloudresourcemanager projects.setIamPolicy": (
        (), {"resource": PROJECT, "body": _POLICY},
        (), {"resource": PROJECT, "body": _BAD_POLICY}, 400,
    ),
    "serviceusage services.get": ((), {"name": CONTAINER_API}, (), _NO_API, 403),
    "serviceusage services.batchGet": (
        (), {"parent": f"projects/{PROJECT}", "names": [CONTAINER_API, CONTAINER_API]},
        (), {"parent": f"projects/{PROJECT}", "names": [_NO_API["name"]]}, 403,
    ),
    "serviceusage services.enable": (
        (), {"name": CONTAINER_API, "body": {}}, (), {**_NO_API, "body": {}}, 403,
    ),
    "serviceusage services.batchEnable": (
        (), {"parent": f"projects/{PROJECT}", "body": {"serviceIds": ["iam.googleapis.com"]}},
        (), {"parent": f"projects/{PROJECT}", "body": {"serviceIds": []}}, 400,
    ),
    "serviceusage services.disable": (
        (), {"name": CONTAINER_API, "body": {}}, (), {**_NO_API, "body": {}}, 403,
    ),
    "serviceusage services.list": (
        (), {"parent": f"projects/{PROJECT}", "filter": "state:ENABLED", "pageSize": 3},
        (), {"parent": f"projects/{PROJECT}", "filter": "nonsense"}, 400,
    ),
}  # fmt: skip

_ZONE, _REGION = {"zone": f"{REGION}-a"}, {"region": REGION}
# Collection -> the parameter with a name, where, and the name of one.
_LEFT: Mapping[str, tuple[str, _Arguments, str]] = {
    "firewalls": ("firewall", {}, f"k8s-fw-{BALANCER}"),
    "forwardingRules": ("forwardingRule", _REGION, BALANCER),
    "targetPools": ("targetPool", _REGION, BALANCER),
    "regionBackendServices": ("backendService", _REGION, "a1"),
    "networkEndpointGroups": ("networkEndpointGroup", _ZONE, "left"),
    "disks": ("disk", _ZONE, "left"),
    "snapshots": ("snapshot", {}, "left"),
    "addresses": ("address", _REGION, BALANCER),
}
_OF_INGRESS: Mapping[str, str] = {
    "globalForwardingRules": "forwardingRule",
    "targetHttpProxies": "targetHttpProxy",
    "targetHttpsProxies": "targetHttpsProxy",
    "sslCertificates": "sslCertificate",
    "urlMaps": "urlMap",
    "backendServices": "backendService",
    "healthChecks": "healthCheck",
    "globalAddresses": "address",
}
"""Collection of global resources -> the parameter with a name."""
_BEFORE = (
    *("globalForwardingRules", "targetHttpProxies", "targetHttpsProxies"),
    *("sslCertificates", "urlMaps", "backendServices"),
)
"""Each is used by one of those before it."""
_USED = ("targetPools", "regionBackendServices")
_LISTS_OF_LEFT: Mapping[str, _Arguments] = {
    **{f"{name}.list": place for name, (_, place, _) in _LEFT.items()},
    **{
        f"{name}.aggregatedList": {}
        for name in (
            "forwardingRules",
            "targetPools",
            "backendServices",
            "networkEndpointGroups",
            "disks",
            "addresses",
            "targetHttpProxies",
            "targetHttpsProxies",
            "sslCertificates",
            "urlMaps",
            "healthChecks",
        )
    },
    **{f"{name}.list": {} for name in _OF_INGRESS},
}

_SUB_BODY = {"name": "sub", "ipCidrRange": "10.0.0.0/20"}
_NO_PARENT = {"parent": f"projects/{PROJECT}", "pageSize": -1}


def _cases() -> tuple[dict[str, Case], dict[str, tuple[Case, int]]]:
    works: dict[str, Case] = {
        "compute subnetworks.insert": _with_network,
        "compute instances.delete": _delete_instance,
        f"container {_CLUSTERS}.create": _create_cluster,
        "container projects.locations.operations.get": _operation_of_cluster,
        "serviceusage operations.get": _operation_of_service,
    }
    refused: dict[str, tuple[Case, int]] = {}
    for name, (parameter, place, existing) in _LEFT.items():
        where = {"project": PROJECT, **place}
        needed = "unused_backends" if name in _USED else "left_by_a_cluster"
        for method in ("get", "delete"):
            key = f"compute {name}.{method}"
            works[key] = _with(needed)(
                "compute", f"{name}.{method}", {**where, parameter: existing}
            )
            wrong = {**where, parameter: "none"}
            refused[key] = _with()("compute", f"{name}.{method}", wrong), 404
    for name, parameter in _OF_INGRESS.items():
        for method in ("get", "delete"):
            key = f"compute {name}.{method}"
            works[key] = _of_ingress(name, method, unused=method == "delete")
            wrong = {"project": PROJECT, parameter: "none"}
            refused[key] = _with()("compute", f"{name}.{method}", wrong), 404
    for method, where in _LISTS_OF_LEFT.items():
        arguments = {"project": PROJECT, **where}
        works[f"compute {method}"] = _with("left_by_a_cluster")("compute", method, arguments)
        refused[f"compute {method}"] = _refused_while_off("compute", method, arguments), 403
    for key, (needed, arguments, other_needed, wrong, code) in _TABLE.items():
        service, method = key.split(" ")
        works[key] = _with(*needed)(service, method, arguments)
        refused[key] = _with(*other_needed)(service, method, wrong), code
    lists = {
        "container projects.locations.getServerConfig": {"name": PARENT},
        f"container {_CLUSTERS}.list": {"parent": PARENT},
        f"container {_POOLS}.list": {"parent": CLUSTER},
        "cloudresourcemanager projects.getIamPolicy": {"resource": PROJECT, "body": {}},
        "compute projects.get": {"project": PROJECT},
        "compute projects.getXpnHost": {"project": PROJECT},
    }
    for key, arguments in lists.items():
        service, method = key.split(" ")
        works[key] = _with("cluster")(service, method, arguments)
    simple: dict[str, tuple[dict[str, Any], int]] = {
        "compute subnetworks.insert": (
            {"project": PROJECT, "region": REGION, "body": _SUB_BODY},
            400,
        ),
        "compute instances.delete": (_machine(f"{REGION}-a", "none"), 404),
        f"container {_CLUSTERS}.create": (
            {"parent": PARENT, "body": {"cluster": {"name": "main"}}},
            400,
        ),
        "container projects.locations.operations.get": (
            {"name": f"{PARENT}/operations/none"},
            404,
        ),
        "serviceusage operations.get": ({"name": "operations/none"}, 404),
    }
    for key, (arguments, code) in simple.items():
        service, method = key.split(" ")
        refused[key] = _with()(service, method, arguments), code
    # Methods that refuse nothing but what every method refuses: here, that the API is off.
    for key, arguments in lists.items():
        refused[key] = _refused_while_off(*key.split(" "), arguments), 403
    return works, refused


def _of_ingress(collection: str, method: str, *, unused: bool) -> Case:
    def run(world: World) -> Any:
        name = world.of_ingress(collection, unused=unused)
        where = {"project": PROJECT, _OF_INGRESS[collection]: name}
        return world.do("compute", f"{collection}.{method}", **where)

    return run


def _refused_while_off(service: str, method: str, arguments: dict[str, Any]) -> Case:
    def run(world: World) -> Any:
        api = f"projects/{PROJECT}/services/{service}.googleapis.com"
        world.do("serviceusage", "services.disable", name=api, body={})
        return world.do(service, method, **arguments)

    return run


WORKS, REFUSED = _cases()


def _simulated() -> list[str]:
    with tempfile.TemporaryDirectory() as directory:
        cloud = Cloud(Path(directory), FakeControlPlanes(Path(directory)))
        return [f"{s} {m}" for s in DOCUMENTS for m in cloud.methods[s]]


SIMULATED = _simulated()


@pytest.fixture
def world(gcp: Gcp) -> World:
    return World(gcp)


@pytest.mark.parametrize("method", SIMULATED)
def test_the_official_client_parses_every_answer(world: World, method: str) -> None:
    assert isinstance(WORKS[method](world), dict)


@pytest.mark.parametrize("method", SIMULATED)
def test_the_official_client_parses_every_refusal(world: World, method: str) -> None:
    run, code = REFUSED[method]
    with pytest.raises(HttpError) as caught:
        run(world)
    assert caught.value.status_code == code
    assert caught.value.reason
    assert "simulate" not in caught.value.reason
    assert isinstance(caught.value.error_details, list)
    assert all(isinstance(d, dict) for d in caught.value.error_details)


def test_no_case_is_left_of_a_method_that_is_gone() -> None:
    assert {*WORKS, *REFUSED} <= set(SIMULATED)

"""Each request of the kubelet stand-in has the rights of whoever makes it in a real cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.cluster.control_plane import files
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.kubelet.nodes.node import UNHEARD_S
from slicewright.rehearsal.cluster.kubelet.pods import provisioner
from slicewright.rehearsal.cluster.kubelet.pods.sources import ApiSources
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.kubelet.audit import STAND_IN, AuditLog, audited
from tests.rehearsal.cluster.kubelet.simulated_cluster import SimulatedCluster, running_cluster

STAYS = "import time\ntime.sleep(3600)"
KUBELET = "system:node:n1"
OTHER_KUBELET = "system:node:n2"
CONTROLLERS = "system:serviceaccount:kube-system"
WATCHED = ("nodes", "pods", "services", "persistentvolumeclaims", "apiservices")
ADMINISTRATIVE = {
    *((verb, resource) for verb in ("list", "watch") for resource in WATCHED),
    # kwok's mark of a node that is down, and the address of a Service.
    ("patch", "nodes"),
    ("patch", "services"),
    # As the driver of a network file system.
    ("create", "persistentvolumes"),
    ("delete", "persistentvolumes"),
}
"""Actions that no kubelet takes."""
OF_KUBELETS = {
    ("patch", "nodes/status"),
    ("patch", "pods/status"),
    ("delete", "pods"),
    ("create", "events"),
    ("get", "configmaps"),
    ("get", "secrets"),
    ("get", "persistentvolumeclaims"),
    ("get", "persistentvolumes"),
    ("create", "serviceaccounts/token"),
}
"""Actions that a real kubelet takes; `_live` brings each about."""
REFUSED_AT_FIRST = {action for action in OF_KUBELETS if action[0] == "get"} | {
    ("create", "serviceaccounts/token")
}
"""Until the API server has seen that the pod is bound to the node."""
NAMESPACE = "/api/v1/namespaces/default"
NODES = "/api/v1/nodes"
CLAIM = {
    "metadata": {"name": "audited"},
    "spec": {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "audited",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
STORAGE_CLASS = {"metadata": {"name": "audited"}, "provisioner": provisioner.NAME}
SERVICE = {
    "metadata": {"name": "audited"},
    "spec": {"type": "LoadBalancer", "selector": {"app": "reader"}, "ports": [{"port": 80}]},
}
REJECTED = {
    "metadata": {"name": "rejected"},
    "spec": {
        "nodeName": "n1",
        "containers": [
            {
                "name": "main",
                "image": "example.org/w:1",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[AuditLog]:
    """Of a cluster with nodes n1 and n2 in which everything has happened that kubelets act on."""
    environment = tmp_path_factory.mktemp("audited")
    with audited(environment) as written, running_cluster(environment, toolchain) as cluster:
        cluster.add_node("n1")
        cluster.add_node("n2")
        _live(cluster)
        yield written


def _live(cluster: SimulatedCluster) -> None:
    """Pods come and go, one is rejected, a claim gets a volume, and a node reboots."""
    create = cluster.client.create
    create("/apis/storage.k8s.io/v1/storageclasses", STORAGE_CLASS)
    create(f"{NAMESPACE}/persistentvolumeclaims", CLAIM)
    create(f"{NAMESPACE}/services", SERVICE)
    for name in ("environment", "registry"):
        create(
            f"{NAMESPACE}/secrets", {"metadata": {"name": name}, "stringData": {"WORD": "hidden"}}
        )
    token = {"serviceAccountToken": {"path": "token", "audience": "others"}}
    secret = {"name": "environment", "key": "WORD"}
    reader = cluster.run_python(
        "reader",
        f"import os\nprint(os.environ['WORD'], flush=True)\n{STAYS}",
        volumes=[
            {"name": "cache", "persistentVolumeClaim": {"claimName": "audited"}},
            {"name": "identity", "projected": {"sources": [token]}},
        ],
        imagePullSecrets=[{"name": "registry"}],
        container={"env": [{"name": "WORD", "valueFrom": {"secretKeyRef": secret}}]},
    )
    cluster.ready(reader)
    cluster.says(reader, lambda log: log == "hidden\n")
    cluster.until(
        f"{NAMESPACE}/services/audited", lambda s: s and s["status"]["loadBalancer"].get("ingress")
    )
    create(f"{NAMESPACE}/pods", REJECTED)
    cluster.until(
        f"{NAMESPACE}/pods/rejected", lambda pod: pod and pod["status"].get("phase") == "Failed"
    )
    reboots.request(NodeFiles(cluster.directory / "nodes" / "n1").root, UNHEARD_S + 0.5)
    for ready in ("Unknown", "True"):
        cluster.until(f"{NODES}/n1", lambda node, wanted=ready: _ready(node) == wanted)
    for path in (reader, f"{NAMESPACE}/persistentvolumeclaims/audited"):
        cluster.client.delete(path)
        cluster.gone(path)


def _ready(node: dict[str, Any] | None) -> str:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return next((str(c["status"]) for c in conditions if c["type"] == "Ready"), "none")


def test_requests_of_kubelets_are_made_by_their_nodes_and_none_by_an_administrator(
    log: AuditLog,
) -> None:
    requests = log.requests()
    assert {r.action for r in requests if r.user == STAND_IN} - ADMINISTRATIVE == set()
    assert {r.action for r in requests if r.user == KUBELET} == OF_KUBELETS
    assert {r.action for r in requests if r.user == OTHER_KUBELET} == {("patch", "nodes/status")}
    assert {r.user for r in requests if r.name in ("reader", "rejected")} == {KUBELET}
    refused = [r for r in requests if r.status in (401, 403)]
    assert [r for r in refused if r.action not in REFUSED_AT_FIRST] == []


def test_controllers_write_what_a_kubelet_never_writes(log: AuditLog) -> None:
    by_controllers = {(r.user, *r.action) for r in log.requests() if CONTROLLERS in r.user}
    assert by_controllers == {
        (f"{CONTROLLERS}:node-controller", "patch", "nodes/status"),
        (f"{CONTROLLERS}:service-controller", "patch", "services/status"),
    }


@pytest.fixture(scope="module")
def stand_in(cluster: Any) -> Iterator[Api]:
    client = Client.from_kubeconfig(files.kubeconfig(cluster.directory, "kubelet"))
    with closing(Api(client, threads=1)) as api:
        yield api


def test_a_kubelet_is_refused_whatever_belongs_to_a_pod_of_another_node(
    cluster: Any, stand_in: Api
) -> None:
    path = cluster.run_python("elsewhere", STAYS)
    pod = cluster.ready(path)
    own, other = stand_in.of_kubelet("n1"), stand_in.of_kubelet("n2")
    unchanged = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"phase": "Running"}}

    def token(api: Api) -> object:
        return ApiSources(api.client).token(pod, None, 600)

    def code(api: Api) -> object:
        return ApiSources(api.client).find("configmaps", "default", "elsewhere")

    assert asyncio.run(own.patch_status(path, unchanged))["status"]["phase"] == "Running"
    assert token(own)
    assert code(own)
    for refused in (
        lambda: asyncio.run(other.patch_status(path, unchanged)),
        lambda: asyncio.run(other.remove_pod(pod)),
        lambda: token(other),
        lambda: code(other),
    ):
        with pytest.raises(ApiError) as error:
            refused()
        assert error.value.status == 403
    assert asyncio.run(own.remove_pod(pod))
    cluster.gone(path)
    assert not asyncio.run(own.remove_pod(pod)), "it is gone already"

"""Authentication and authorization: the rehearsal's API server is as strict as a cloud's."""

from __future__ import annotations

import asyncio
import base64
import http.server
import json
import re
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import Credentials, JsonObject, credentials_of
from slicewright.rehearsal.cluster.control_plane import egress, files
from slicewright.rehearsal.cluster.kubelet.services import tunnels
from slicewright.rehearsal.host import processes

Cluster = Any
"""conftest's, which cannot be imported."""


def anonymous(cluster: Cluster) -> Credentials:
    return Credentials(server=cluster.endpoint.server, ca_data=cluster.endpoint.ca_pem)


def refused(client: Client, path: str = "/api/v1/nodes") -> int:
    with pytest.raises(ApiError) as error:
        client.get(path)
    return error.value.status


def test_anonymous_requests_are_refused(cluster: Cluster) -> None:
    client = Client(anonymous(cluster))
    assert [refused(client, path) for path in ("/api/v1/nodes", "/readyz", "/version")] == [
        401,
        401,
        401,
    ]


def test_a_made_up_token_is_refused(cluster: Cluster) -> None:
    assert refused(Client(replace(anonymous(cluster), token="made.up.token"))) == 401


def test_one_clusters_administrator_has_no_access_to_another(
    clusters: tuple[Cluster, Cluster],
) -> None:
    first, second = clusters
    kubeconfig = credentials_of(json.loads(first.endpoint.kubeconfig.read_text()))
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        Client(replace(kubeconfig, server=second.endpoint.server)).get("/version")
    assert refused(Client(replace(anonymous(second), client_cert=kubeconfig.client_cert))) == 401


def test_a_service_account_may_do_only_what_its_role_allows(
    cluster: Cluster, namespace: str, until: Callable[..., None]
) -> None:
    admin = cluster.admin
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    token = admin.create(f"{account}/token", {"spec": {"expirationSeconds": 600}})["status"][
        "token"
    ]
    client = Client(replace(anonymous(cluster), token=token))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert refused(client, pods) == 403

    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    admin.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    binding: JsonObject = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    }
    admin.create(f"{rbac}/rolebindings", binding)
    until(lambda: client.get(pods)["items"] == [])  # the authorizer learns of it from a watch
    assert refused(client, f"/api/v1/namespaces/{namespace}/secrets") == 403


def test_kwok_may_report_on_nodes_and_pods_and_nothing_more(cluster: Cluster) -> None:
    kwok = Client.from_kubeconfig(files.kubeconfig(cluster.directory, "kwok"))
    assert kwok.get("/api/v1/nodes")["kind"] == "NodeList"
    assert refused(kwok, "/api/v1/secrets") == 403
    assert refused(kwok, "/api/v1/services") == 403
    with pytest.raises(ApiError) as error:
        kwok.patch("/api/v1/nodes/n", {"metadata": {"labels": {"a": "b"}}})
    assert error.value.status == 403


def test_the_api_server_is_the_only_thing_that_listens_and_on_loopback_only(
    cluster: Cluster,
) -> None:
    listening = {}
    for line in (
        Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    ).splitlines():
        fields = line.split()
        if fields[3] == "0A":
            listening[f"socket:[{fields[9]}]"] = fields[1]
    ports = {}
    for name, pid in cluster.pids().items():
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since it was listed
                if (port := listening.get(str(descriptor.readlink()))) is not None:
                    ports[name] = port
    assert ports == {"kube-apiserver-alpha": f"0100007F:{cluster.endpoint.port:04X}"}


def test_keys_and_kubeconfigs_are_for_their_owner_only(cluster: Cluster) -> None:
    assert stat.S_IMODE(cluster.directory.stat().st_mode) == 0o700  # etcd's sockets are in it
    files = [
        path for path in cluster.directory.rglob("*") if re.search(r"\.(key|json|yaml)$", path.name)
    ]
    assert len(files) > 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_no_secret_is_in_a_command_line_or_a_log(cluster: Cluster) -> None:
    lines = [
        line
        for key in (cluster.directory / "pki").glob("*.key")
        for line in key.read_text().splitlines()[1:-1]
    ]
    secrets = lines + [
        base64.b64encode(key.read_bytes()).decode()
        for key in (cluster.directory / "pki").glob("*.key")
    ]
    texts = [Path(f"/proc/{pid}/cmdline").read_text() for pid in cluster.pids().values()]
    texts += [log.read_text(errors="replace") for log in (cluster.environment / "log").iterdir()]
    assert len(secrets) > 20
    assert [secret for secret in secrets if any(secret in text for text in texts)] == []


def test_every_process_has_a_record(cluster: Cluster) -> None:
    kinds = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
    assert sorted(cluster.pids()) == [f"{kind}-alpha" for kind in kinds]
    assert all(processes.is_alive(record) for record in processes.recorded(cluster.environment))


@pytest.fixture
def kubelet_port(cluster: Cluster) -> Iterator[int]:
    """A log endpoint with the cluster's kubelet certificate, for its API server only."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            subject = dict(pair[0] for pair in self.connection.getpeercert()["subject"])  # type: ignore[attr-defined]
            text = f"{subject['commonName']} asks for {self.path}\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - library's name
            pass

    pki = cluster.directory / "pki"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "kubelet-serving.crt", pki / "kubelet-serving.key")
    context.load_verify_locations(pki / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def tunnels_to(cluster: Cluster) -> Iterator[list[tuple[str, int]]]:
    """Takes the API server's connections into the cluster, as the kubelet stand-in does; yields
    where they went.
    """
    asked: list[tuple[str, int]] = []

    def leads(host: str, port: int) -> None:
        asked.append((host, port))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(tunnels.serve(cluster.directory / egress.SOCKET, leads))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield asked
    loop.call_soon_threadsafe(server.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=60)


def test_a_pods_log_comes_from_its_nodes_kubelet(
    cluster: Cluster, namespace: str, kubelet_port: int, tunnels_to: list[tuple[str, int]]
) -> None:
    node = {
        "metadata": {"name": "with-kubelet"},
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": "with-kubelet"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        },
    }
    cluster.admin.create("/api/v1/nodes", node)
    try:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        spec = {"nodeName": "with-kubelet", "containers": [{"name": "main", "image": "python:3"}]}
        cluster.admin.create(pods, {"metadata": {"name": "talker"}, "spec": spec})
        log = cluster.admin.text(f"{pods}/talker/log")
        assert (
            log
            == f"kube-apiserver-kubelet-client asks for /containerLogs/{namespace}/talker/main\n"
        )
        assert tunnels_to == [("127.0.0.1", kubelet_port)]
    finally:
        cluster.admin.delete("/api/v1/nodes/with-kubelet")

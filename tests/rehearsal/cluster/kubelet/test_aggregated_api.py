"""An API that a pod serves behind the API server: the way there, and who the pod is told asks."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

GROUP = "made-up.example.com"
NAME = f"v1.{GROUP}"
API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/{NAME}"
SERVER = """
import http.server, json, os, ssl
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "resources": []}
        listed["groupVersion"] = GROUP + "/v1"
        shown = dict(pair[0] for pair in self.connection.getpeercert()["subject"])
        told = {"user": self.headers["X-Remote-User"], "by": shown["commonName"]}
        body = json.dumps(told if self.path.endswith("/who") else listed).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
context.load_verify_locations("/front-proxy/requestheader-client-ca-file")
context.verify_mode = ssl.CERT_REQUIRED
server = http.server.ThreadingHTTPServer((os.environ["POD_IP"], 6443), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def certificate(host: str) -> tuple[str, str]:
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def condition(found: dict[str, Any] | None) -> tuple[str, str]:
    for one in ((found or {}).get("status") or {}).get("conditions") or ():
        if one["type"] == "Available":
            return one["status"], one["reason"]
    return "", ""


@pytest.fixture(scope="module")
def served(cluster: Any) -> str:
    """A pod, its Service and its APIService; the pod's API path."""
    public, private = certificate("api-server.default.svc")
    known = cluster.client.get(
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    )
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "front-proxy", "namespace": "default"},
            "data": known["data"],
        }
    )
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "api-server", "namespace": "default"},
            "stringData": {"tls.crt": public, "tls.key": private},
        }
    )
    path: str = cluster.run_python(
        "api-server",
        f"GROUP = {GROUP!r}\n{SERVER}",
        volumes=(
            {"name": "tls", "secret": {"secretName": "api-server"}},
            {"name": "front-proxy", "configMap": {"name": "front-proxy"}},
        ),
        container={
            "readinessProbe": {"tcpSocket": {"port": 6443}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "code", "mountPath": "/code"},
                {"name": "tls", "mountPath": "/tls"},
                {"name": "front-proxy", "mountPath": "/front-proxy"},
            ],
        },
    )
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "api-server", "namespace": "default"},
            "spec": {
                "selector": {"app": "api-server"},
                "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
            },
        }
    )
    cluster.client.create(
        API_SERVICE.rpartition("/")[0],
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": NAME},
            "spec": {
                "group": GROUP,
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": base64.b64encode(public.encode()).decode(),
                "service": {"namespace": "default", "name": "api-server", "port": 443},
            },
        },
    )
    return path


def test_a_pod_serves_it_and_learns_who_asks_from_the_api_server(cluster: Any, served: str) -> None:
    cluster.until(API_SERVICE, lambda found: condition(found) == ("True", "Passed"))
    told = cluster.client.get(f"/apis/{GROUP}/v1/who")
    assert told == {"user": "rehearsal-admin", "by": "front-proxy-client"}


def test_it_is_not_available_without_a_ready_pod(cluster: Any, served: str) -> None:
    cluster.until(API_SERVICE, lambda found: condition(found) == ("True", "Passed"))
    cluster.client.delete(served)
    try:
        cluster.until(API_SERVICE, lambda found: condition(found) == ("False", "MissingEndpoints"))
    finally:
        # Else the API server's list of all APIs is incomplete, and namespaces would not go.
        cluster.client.delete(API_SERVICE)

"""The credentials of a pod as they change in its life: rotated, missing for a moment, IPv6."""

from __future__ import annotations

import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from slicewright.kubeapi import Client, Unreachable, client, list_and_watch

NOW = datetime.datetime.now(datetime.UTC)


@dataclass
class Authority:
    """A CA, and a server's certificate of it for both loopback addresses."""

    ca_pem: bytes
    server_pem: bytes


def _authority() -> Authority:
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a cluster's CA")])

    def builder(subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> Any:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - datetime.timedelta(days=1))
            .not_valid_after(NOW + datetime.timedelta(days=1))
        )

    ca = (
        builder(ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    addresses = [x509.IPAddress(ipaddress.ip_address(a)) for a in ("127.0.0.1", "::1")]
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kube-apiserver")])
    certificate = (
        builder(name, key.public_key())
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Authority(ca.public_bytes(pem), certificate.public_bytes(pem) + private)


@pytest.fixture(scope="module")
def authorities() -> tuple[Authority, Authority]:
    return _authority(), _authority()


class _ApiServer(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


class _ApiServer6(_ApiServer):
    address_family = socket.AF_INET6


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"token": self.headers["Authorization"], "host": self.headers["Host"]})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        # Each request shows anew whom the client trusts.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Pod:
    """The files that the kubelet keeps current, and the API server that the pod asks."""

    directory: Path
    setenv: Callable[[str, str], None]
    server: _ApiServer | None = None

    def serve(self, authority: Authority, address: str = "127.0.0.1", port: int = 0) -> int:
        """Starts the API server, or starts it again, with a certificate of that authority."""
        self.stop()
        self.server = (_ApiServer6 if ":" in address else _ApiServer)((address, port), _Answers)
        pem = self.directory / "server.pem"
        pem.write_bytes(authority.server_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.setenv("KUBERNETES_SERVICE_HOST", address)
        self.setenv("KUBERNETES_SERVICE_PORT", str(self.server.server_port))
        return self.server.server_port

    def trusts(self, authority: Authority) -> None:
        """As the kubelet does it: a new file in place of the old one."""
        self.put("ca.crt", authority.ca_pem)

    def put(self, name: str, content: bytes) -> None:
        new = self.directory / f"{name}.new"
        new.write_bytes(content)
        new.replace(self.directory / name)

    def stop(self) -> None:
        if self.server:
            self.server.shutdown()
            self.server.server_close()


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pod]:
    monkeypatch.setattr(client, "SERVICE_ACCOUNT", tmp_path)
    made = Pod(tmp_path, monkeypatch.setenv)
    made.put("token", b"first\n")
    yield made
    made.stop()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_in_cluster_client_reaches_the_api_server_by_ipv4_and_ipv6(
    address: str, pod: Pod, authorities: tuple[Authority, Authority]
) -> None:
    port = pod.serve(authorities[0], address)
    pod.trusts(authorities[0])
    asked = Client.in_cluster(timeout_s=30)
    host = f"[{address}]" if ":" in address else address
    assert asked.get("/x") == {"token": "Bearer first", "host": f"{host}:{port}"}
    assert asked.server == f"https://{host}:{port}"


def test_a_rotated_ca_is_trusted_at_once_and_the_old_one_no_more(
    pod: Pod, authorities: tuple[Authority, Authority]
) -> None:
    old, new = authorities
    port = pod.serve(old)
    pod.trusts(old)
    asked = Client.in_cluster(timeout_s=30)
    asked.get("/x")
    pod.serve(new, port=port)
    with pytest.raises(Unreachable, match="certificate"):
        asked.get("/x")
    pod.trusts(new)
    pod.put("token", b"second\n")
    assert asked.get("/x")["token"] == "Bearer second"
    pod.serve(old, port=port)
    with pytest.raises(Unreachable, match="certificate"):
        asked.get("/x")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("token", None, "token: No such file or directory"),
        ("token", b"\xff\xfe", "token: "),
        ("token", b"", "token: is empty"),
        ("ca.crt", None, "ca.crt: No such file or directory"),
        ("ca.crt", b"", "ca.crt: contains no certificate"),
        ("ca.crt", b"no certificate", "ca.crt: contains no certificate"),
        ("ca.crt", b"-----BEGIN CERTIFICATE-----\nMII", "ca.crt: contains no certificate"),
    ],
)
def test_credentials_that_cannot_be_read_are_no_answer_and_no_crash(
    name: str,
    content: bytes | None,
    says: str,
    pod: Pod,
    authorities: tuple[Authority, Authority],
) -> None:
    pod.serve(authorities[0])
    pod.trusts(authorities[0])
    asked = Client.in_cluster(timeout_s=30)
    asked.get("/x")
    was = (pod.directory / name).read_bytes()
    if content is None:
        (pod.directory / name).unlink()
    else:
        pod.put(name, content)
    for attempt in (lambda: asked.get("/x"), lambda: list(asked.stream("/x", timeout_s=1))):
        with pytest.raises(Unreachable) as error:
            attempt()
        assert says in str(error.value)
    pod.put(name, was)
    assert asked.get("/x")["token"] == "Bearer first"


def test_a_watch_outlives_credentials_that_are_gone_for_a_while(
    server: Any, answer: Any, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    server.answers = [
        answer(body={"metadata": {"resourceVersion": "1"}, "items": []}),
        answer(body=b""),
    ]
    errors: list[str] = []

    def failed(error: Exception) -> None:
        errors.append(str(error))
        if len(errors) == 3:
            token.write_text("back")

    events = list_and_watch(
        Client(client.Credentials(server=server.url, token_file=token)),
        "/x",
        stop=threading.Event(),
        backoff_max_s=0.01,
        on_error=failed,
    )
    assert next(events).type == "LISTED"
    assert len(errors) == 3
    assert "token: No such file" in errors[0]


def test_an_answer_that_is_not_json_is_no_answer(server: Any, answer: Any) -> None:
    server.answers = [answer(body=b"<html>a proxy's page</html>")]
    with pytest.raises(Unreachable, match="not JSON"):
        server.client().get("/x")

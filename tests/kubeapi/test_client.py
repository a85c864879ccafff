from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import Any

import pytest
from urllib3.connection import HTTPConnection

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import Credentials, credentials_of, path_of


def test_an_answer_is_parsed(server: Any, answer: Any) -> None:
    server.answers = [answer(body={"kind": "Node"})]
    assert server.client().get("/api/v1/nodes/n1", resourceVersion="0") == {"kind": "Node"}
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/nodes/n1?resourceVersion=0")
    assert asked.headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
def test_every_kind_of_patch_has_its_content_type(
    kind: Any, content_type: str, server: Any, answer: Any
) -> None:
    server.answers = [answer(body={})]
    server.client().patch("/x", {"a": 1}, kind=kind)
    (asked,) = server.asked
    assert (asked.method, asked.headers["Content-Type"], asked.body) == (
        "PATCH",
        content_type,
        {"a": 1},
    )


def test_the_kernel_asks_whether_a_silent_server_is_still_there(
    server: Any, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch is silent for minutes, also where its connection was dropped without a word."""
    asked: list[tuple[int, int]] = []
    connect = HTTPConnection.connect

    def connected(connection: HTTPConnection) -> None:
        connect(connection)
        assert connection.sock is not None
        idle = connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        asked.append((connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), idle))

    monkeypatch.setattr(HTTPConnection, "connect", connected)
    server.answers = [answer(body={})]
    server.client().get("/x")
    assert asked == [(1, 30)]


def test_an_error_carries_status_reason_and_message(server: Any, answer: Any) -> None:
    status = {"kind": "Status", "reason": "Conflict", "message": "the object has been modified"}
    server.answers = [answer(status=409, body=status)]
    with pytest.raises(ApiError) as error:
        server.client().get("/x")
    assert (error.value.status, error.value.reason, str(error.value)) == (
        409,
        "Conflict",
        "the object has been modified",
    )
    assert error.value.retry_after_s is None


def test_retry_after_is_read(server: Any, answer: Any) -> None:
    server.answers = [
        answer(status=429, body={"message": "slow down"}, headers={"Retry-After": "7"})
    ]
    with pytest.raises(ApiError) as error:
        server.client().get("/x")
    assert error.value.retry_after_s == 7.0


def test_an_error_that_is_no_json_is_shown_as_it_is(server: Any, answer: Any) -> None:
    server.answers = [answer(status=502, body=b"bad gateway\n")]
    with pytest.raises(ApiError, match="bad gateway"):
        server.client().get("/x")


def test_a_truncated_answer_is_unreachable(server: Any, answer: Any) -> None:
    server.answers = [answer(body={"kind": "Node"}, cut=True)]
    with pytest.raises(Unreachable):
        server.client().get("/x")


def test_a_refused_connection_is_unreachable() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
        Client(Credentials(server="http://127.0.0.1:9"), timeout_s=1).get("/x")


def test_a_rotated_token_is_used_at_once(server: Any, answer: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    server.answers = [answer(body={})]
    client = Client(Credentials(server=server.url, token_file=token))
    client.get("/x")
    token.write_text("second\n")
    client.get("/x")
    assert [a.headers["Authorization"] for a in server.asked] == ["Bearer first", "Bearer second"]


def test_a_stream_gives_whole_lines(server: Any, answer: Any) -> None:
    server.answers = [answer(body=b'{"a": 1}\n{"b": 2}\n{"c"')]
    assert list(server.client().stream("/x", timeout_s=2)) == [b'{"a": 1}', b'{"b": 2}', b'{"c"']


def test_a_path_is_built_from_its_parts() -> None:
    assert path_of("v1", "nodes") == "/api/v1/nodes"
    assert path_of("v1", "pods", "p", "ns") == "/api/v1/namespaces/ns/pods/p"
    assert (
        path_of("slicewright.io/v1alpha1", "gpupools", "p")
        == "/apis/slicewright.io/v1alpha1/gpupools/p"
    )


def test_outside_a_pod_it_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(Unreachable, match="not in a pod"):
        Client.in_cluster()


def test_a_kubeconfigs_current_context_is_used() -> None:
    ca = base64.b64encode(b"PEM").decode()
    config = {
        "current-context": "b",
        "contexts": [{"name": n, "context": {"cluster": f"c-{n}", "user": f"u-{n}"}} for n in "ab"],
        "clusters": [
            {
                "name": f"c-{n}",
                "cluster": {"server": f"https://{n}", "certificate-authority-data": ca},
            }
            for n in "ab"
        ],
        "users": [{"name": f"u-{n}", "user": {"token": f"t-{n}"}} for n in "ab"],
    }
    found = credentials_of(config)
    assert (found.server, found.token, found.ca_data) == ("https://b", "t-b", b"PEM")
    with pytest.raises(ValueError, match="no context 'c'"):
        credentials_of({**config, "current-context": "c"})


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"[" * 100_000, "nested too deeply"), (b"[]", "not an object"), (b"7", "not an object")],
)
def test_an_answer_that_is_no_object_is_no_answer(
    server: Any, answer: Any, body: bytes, said: str
) -> None:
    server.answers = [answer(body=body)]
    with pytest.raises(Unreachable, match=said):
        server.client().get("/x")


@pytest.mark.parametrize("header", ["\u00b2", "soon", "-1", "9" * 500, "1e9"])
def test_an_odd_retry_after_is_none(server: Any, answer: Any, header: str) -> None:
    server.answers = [answer(429, {"message": "busy"}, headers={"Retry-After": header})]
    with pytest.raises(ApiError) as error:
        server.client().get("/x")
    assert error.value.retry_after_s is None


def test_an_error_whose_body_is_nested_without_end_is_an_error(server: Any, answer: Any) -> None:
    server.answers = [answer(500, b"[" * 100_000)]
    with pytest.raises(ApiError) as error:
        server.client().get("/x")
    assert len(error.value.message) == 500

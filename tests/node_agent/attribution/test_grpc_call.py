"""The gRPC call against gRPC's own server on a unix socket, and against servers that are none."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.node_agent.attribution import grpc_call, pod_resources
from slicewright.node_agent.attribution.grpc_call import CallFailed
from slicewright.rehearsal.cluster.kubelet.podresources import messages
from tests.properties import examples

LIST = f"/{messages.LISTER}/List"


@pytest.fixture
def path() -> Iterator[str]:
    # Not tmp_path: the name of a unix socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="sw-") as directory:
        yield f"{directory}/kubelet.sock"


@contextmanager
def kubelet(path: str, answer: Callable[[Any, Any], bytes]) -> Iterator[None]:
    """gRPC's own server with `List`, which gives the bytes that `answer` returns."""
    server = grpc.server(ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(messages.LISTER, {"List": handler}),)
    )
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()


@contextmanager
def listener(path: str, talk: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server that accepts one connection and does with it what `talk` does."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    talk(connection)
                except OSError:
                    pass  # the caller has heard enough

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join(120)
    Path(path).unlink(missing_ok=True)


def h2_server(path: str, answer: Callable[[H2Connection, int], None]) -> Any:
    """An HTTP/2 server on which `answer` says anything at all to the first request."""

    def talk(connection: socket.socket) -> None:
        http = H2Connection(H2Configuration(client_side=False))
        http.initiate_connection()
        while True:
            connection.sendall(http.data_to_send())
            for event in http.receive_data(connection.recv(65536)):
                if isinstance(event, StreamEnded):
                    answer(http, event.stream_id)
                    connection.sendall(http.data_to_send())
                    return

    return listener(path, talk)


def pods(count: int) -> Any:
    return messages.ListPodResourcesResponse(
        pod_resources=[
            messages.PodResources(
                name=f"pod-{i}",
                namespace="team",
                containers=[
                    messages.ContainerResources(
                        name="main",
                        devices=[
                            messages.ContainerDevices(
                                resource_name="nvidia.com/mig-1g.5gb", device_ids=[f"MIG-{i:036d}"]
                            )
                        ],
                    )
                ],
            )
            for i in range(count)
        ]
    )


def refused(path: str, message: str, deadline_s: float = 60.0) -> None:
    with pytest.raises(CallFailed, match=message) as caught:
        grpc_call.call(path, LIST, deadline_s=deadline_s)
    assert str(caught.value).startswith(path), "the message does not say which socket"


def test_the_answer_of_a_grpc_server_is_read(path: str) -> None:
    with kubelet(path, lambda request, context: pods(2).SerializeToString()):
        held = pod_resources.read(path, deadline_s=60)
    assert [(h.namespace, h.pod, h.container, h.resource, h.devices) for h in held] == [
        ("team", f"pod-{i}", "main", "nvidia.com/mig-1g.5gb", (f"MIG-{i:036d}",)) for i in range(2)
    ]


def test_the_request_is_the_empty_message(path: str) -> None:
    asked: list[bytes] = []
    with kubelet(path, lambda request, context: (asked.append(request), b"")[1]):
        assert pod_resources.read(path, deadline_s=60) == ()
    assert asked == [b""]


def test_an_answer_larger_than_any_frame_and_window_comes_whole(path: str) -> None:
    """2,000 pods are 180 KiB: eleven frames of 16 KiB, more than two windows of 64 KiB."""
    answer = pods(2000).SerializeToString()
    assert len(answer) > 2 * 65535
    with kubelet(path, lambda request, context: answer):
        assert grpc_call.call(path, LIST, deadline_s=60) == answer
        assert len(pod_resources.read(path, deadline_s=60)) == 2000


def test_an_endless_answer_is_refused(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_call, "MAX_BYTES", 100_000)
    with kubelet(path, lambda request, context: bytes(100_001)):
        refused(path, "larger than 100000 bytes")
    with kubelet(path, lambda request, context: bytes(100_000)):
        assert grpc_call.call(path, LIST, deadline_s=60) == bytes(100_000)


def test_call_of_a_slow_server_ends_at_the_deadline(path: str) -> None:
    leave = threading.Event()
    with kubelet(path, lambda request, context: (leave.wait(120), b"")[1]):
        refused(path, "no answer within 0.3 s", deadline_s=0.3)
        leave.set()


def test_a_server_that_drips_does_not_stretch_the_deadline(path: str) -> None:
    def drip(connection: socket.socket) -> None:
        # The beginning of a SETTINGS frame, a byte at a time; as a whole it takes longer than a
        # test may.
        for byte in b"\x00\x40\x00\x04\x00\x00\x00\x00\x00" + bytes(100_000):
            connection.sendall(bytes([byte]))
            time.sleep(0.02)

    with listener(path, drip):
        refused(path, "no answer within 0.5 s", deadline_s=0.5)


def test_a_grpc_error_is_named_with_its_message(path: str) -> None:
    def fail(request: bytes, context: Any) -> bytes:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit: 100 %, später")

    with kubelet(path, fail):
        refused(path, "gRPC status RESOURCE_EXHAUSTED: rejected by rate limit: 100 %, später")


def test_a_restarted_kubelet_is_heard_on_its_new_socket(path: str) -> None:
    for count in (1, 2):
        with kubelet(path, lambda request, context, count=count: pods(count).SerializeToString()):  # type: ignore[misc]
            assert len(pod_resources.read(path, deadline_s=60)) == count
        refused(path, "No such file|Connection refused")


def test_a_kubelet_without_this_api_is_a_failed_call(path: str) -> None:
    with (
        kubelet(path, lambda request, context: b""),
        pytest.raises(CallFailed, match="gRPC status UNIMPLEMENTED"),
    ):
        grpc_call.call(path, "/v2.PodResourcesLister/List", deadline_s=60)


def test_a_missing_or_unserved_socket_is_a_failed_call(path: str) -> None:
    refused(path, "No such file or directory")
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(path)
    refused(path, "Connection refused")
    refused(path + "x" * 120, "too long")


def test_a_server_without_http2_is_a_failed_call(path: str) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"\0\0\1\0\0\0\0\0\0x")  # a DATA frame that belongs to no stream

    with listener(path, talk):
        refused(path, "the answer is not HTTP/2: ")


def answered(
    *, status: str = "200", content: bytes = b"", trailers: list[tuple[str, str]] | None = None
) -> Callable[[H2Connection, int], None]:
    def answer(http: H2Connection, stream: int) -> None:
        http.send_headers(stream, [(":status", status), ("content-type", "application/grpc")])
        if content:
            http.send_data(stream, content)
        if trailers is None:
            http.end_stream(stream)
        else:
            http.send_headers(stream, trailers, end_stream=True)

    return answer


OK = [("grpc-status", "0")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (answered(status="404"), "HTTP status 404 without a gRPC status"),
        (answered(content=bytes(5)), "HTTP status 200 without a gRPC status"),
        (answered(trailers=OK), "0 bytes is not one plain message"),
        (answered(content=b"\x01\0\0\0\x01x", trailers=OK), "not one plain message"),
        (answered(content=b"\0\0\0\0\x02x", trailers=OK), "not one plain message"),
        (answered(content=bytes(10), trailers=OK), "not one plain message"),
        (answered(trailers=[("grpc-status", "99")]), "gRPC status 99"),
        (answered(trailers=[("grpc-status", "²")]), "without a gRPC status"),
        (lambda http, stream: http.reset_stream(stream, 2), "cut off, HTTP/2 error 2"),
        (lambda http, stream: http.close_connection(), "cut off, HTTP/2 error 0"),
        (
            lambda http, stream: http.send_headers(stream, [(":status", "200")]),
            "closed in the middle of the answer",
        ),
    ],
)
def test_an_invalid_answer_is_a_failed_call(
    path: str, answer: Callable[[H2Connection, int], None], message: str
) -> None:
    with h2_server(path, answer):
        refused(path, message)


def test_an_answer_of_a_server_that_closes_at_once_is_still_read(path: str) -> None:
    with h2_server(path, answered(content=b"\0\0\0\0\x02ok", trailers=OK)):
        assert grpc_call.call(path, LIST, deadline_s=60) == b"ok"


def test_call_fails_if_the_answer_is_not_a_list(path: str) -> None:
    with (
        kubelet(path, lambda request, context: b"\x0a\x01\x0a"),
        pytest.raises(CallFailed, match=r"List is not valid: no number"),
    ):
        pod_resources.read(path, deadline_s=60)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(st.binary(max_size=200), st.booleans())
def test_junk_is_one_clear_error_and_nothing_else(
    path: str, junk: bytes, after_settings: bool
) -> None:
    hello = H2Connection(H2Configuration(client_side=False))
    hello.initiate_connection()
    said = (hello.data_to_send() if after_settings else b"") + junk
    with listener(path, lambda connection: connection.sendall(said)), pytest.raises(CallFailed):
        grpc_call.call(path, LIST, deadline_s=60)


def test_no_descriptor_is_left_behind(path: str) -> None:
    held = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        refused(path, "No such file")
    # An earlier test's server may close some of its own meanwhile.
    assert len(list(Path("/proc/self/fd").iterdir())) <= held

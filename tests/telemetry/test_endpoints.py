from __future__ import annotations

import socketserver
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from functools import partialmethod

import pytest

from slicewright.telemetry.endpoints import serve

_SERVE = socketserver.BaseServer.serve_forever


@pytest.fixture(autouse=True)
def _ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of within half a second after `shutdown`."""
    quick = partialmethod(_SERVE, poll_interval=0.01)
    monkeypatch.setattr(socketserver.BaseServer, "serve_forever", quick)


@pytest.mark.parametrize(
    ("path", "alive", "ready", "status", "text"),
    [
        ("/healthz", None, "not yet", 200, "ok\n"),
        ("/healthz", "stuck for 9 s", None, 503, "stuck for 9 s\n"),
        ("/readyz", None, None, 200, "ok\n"),
        ("/readyz?verbose", None, "not yet", 503, "not yet\n"),
        ("/metrics", None, None, 200, "a_total 1\n"),
        ("/", None, None, 404, "not found; try /healthz, /readyz or /metrics\n"),
    ],
)
def test_answers(path: str, alive: str | None, ready: str | None, status: int, text: str) -> None:
    server = serve(
        "127.0.0.1", 0, alive=lambda: alive, ready=lambda: ready, metrics=lambda: "a_total 1\n"
    )
    try:
        url = f"http://127.0.0.1:{server.server_port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                found = answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            found = e.code, e.read().decode()
        assert found == (status, text)
    finally:
        server.shutdown()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_it_listens_on_ipv4_and_on_ipv6(address: str) -> None:
    server = serve(address, 0, alive=lambda: None, ready=lambda: None, metrics=str)
    try:
        where = server.host_and_port
        host = f"[{address}]" if ":" in address else address
        assert where == f"{host}:{server.server_port}"
        with urllib.request.urlopen(f"http://{where}/healthz", timeout=60) as answer:
            assert answer.read() == b"ok\n"
    finally:
        server.shutdown()


def test_every_address_means_those_of_both_kinds() -> None:
    server = serve("::", 0, alive=lambda: None, ready=lambda: None, metrics=str)
    try:
        for host in ("127.0.0.1", "[::1]"):
            url = f"http://{host}:{server.server_port}/healthz"
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.read() == b"ok\n"
    finally:
        server.shutdown()


def test_a_taken_port_is_an_error() -> None:
    server = serve("127.0.0.1", 0, alive=lambda: None, ready=lambda: None, metrics=str)
    try:
        with pytest.raises(OSError, match="in use"):
            serve(
                "127.0.0.1", server.server_port, alive=lambda: None, ready=lambda: None, metrics=str
            )
    finally:
        server.shutdown()


def test_who_asks_too_early_waits_for_the_answer() -> None:
    begin = threading.Event()
    server = serve("127.0.0.1", 0, alive=lambda: None, ready=lambda: None, metrics=str, begin=begin)
    try:
        url = f"http://{server.host_and_port}/readyz"
        answers: list[bytes] = []

        def ask() -> None:
            with urllib.request.urlopen(url, timeout=30) as answer:
                answers.append(answer.read())

        asking = threading.Thread(target=ask)
        asking.start()
        begin.set()
        asking.join(timeout=120)
        assert answers == [b"ok\n"]
    finally:
        server.shutdown()


def test_no_request_waits_for_a_beginning_that_does_not_come() -> None:
    never = threading.Event()
    server = serve("127.0.0.1", 0, alive=lambda: None, ready=lambda: None, metrics=str, begin=never)
    try:
        with urllib.request.urlopen(f"http://{server.host_and_port}/healthz", timeout=30) as answer:
            assert answer.read() == b"ok\n"
        assert not never.is_set()
    finally:
        server.shutdown()


def test_what_is_shut_down_before_it_began_frees_its_port() -> None:
    others = set(threading.enumerate())
    server = serve(
        "127.0.0.1", 0, alive=lambda: None, ready=lambda: None, metrics=str, begin=threading.Event()
    )
    server.shutdown()
    for thread in set(threading.enumerate()) - others:
        thread.join(timeout=120)
    again = serve("127.0.0.1", server.server_port, alive=str, ready=str, metrics=str)
    again.shutdown()


def test_listening_loads_no_http_server() -> None:
    """Nor what belongs to it, such as ssl and email: it would delay an agent's first verdict."""
    code = (
        "import sys, slicewright.telemetry.endpoints; "
        "print(sorted({'http', 'ssl', 'email'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

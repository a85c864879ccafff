"""What NFD's own chart probes."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from slicewright.rehearsal.cluster.feature_discovery import health


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> int:
    """A free one, of the pod's address."""
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL_POD_ADDRESS", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        number: int = free.getsockname()[1]
    return number


def status(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
        code: int = answer.status
    return code


def test_healthz_is_answered_on_the_port_of_the_flag_and_without_it_nothing_listens(
    port: int,
) -> None:
    health.answer(["-enable-leader-election"])
    with pytest.raises(urllib.error.URLError, match="refused"):
        status(port)
    health.answer(["-enable-leader-election", f"-port={port}"])
    assert status(port) == 200

"""The memory limit of a control plane's processes, as Go's own metrics tell it."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.control_plane import parts
from slicewright.rehearsal.host.toolchain import Toolchain


def test_limit_is_raised_if_most_of_it_is_live(
    tmp_path: Path, toolchain: Toolchain, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A unix socket's address holds 107 bytes.
    monkeypatch.chdir(tmp_path)
    etcd = parts.etcd(toolchain)
    with subprocess.Popen(
        etcd.argv, cwd=tmp_path, env={**etcd.env, "GOMEMLIMIT": "2MiB"}, stderr=subprocess.DEVNULL
    ) as process:

        def is_raised() -> bool:
            assert process.poll() is None, "etcd has ended"
            return _memory_limit() > 2 * 1024 * 1024

        try:
            until(is_raised)
        finally:
            process.terminate()


def _memory_limit() -> float:
    """Bytes; 0 while nothing answers."""
    name = "go_gc_gomemlimit_bytes"
    connection = http.client.HTTPConnection("localhost")
    with socket.socket(socket.AF_UNIX) as connected:
        try:
            connected.connect(parts.ETCD_SOCKET)
        except OSError:
            return 0
        connection.sock = connected
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
    found = re.search(rf"(?m)^{name} (\S+)$", page)
    assert found is not None, f"{name} is not among etcd's metrics"
    return float(found[1])

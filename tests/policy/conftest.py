"""The pack as the server that the engine talks to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import analyzer_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
PACK = ROOT / "policy"


@pytest.fixture(scope="module")
def analyzer(policy_environment: Path) -> Iterator[Any]:
    """A client of the pack's server, started as Pulumi's language host starts it."""
    process = subprocess.Popen(
        # The first argument is the engine's address, which a pack calls to log.
        [str(policy_environment), "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(PACK)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port.isdecimal(), f"the pack said {port!r} instead of its port"
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield analyzer_pb2_grpc.AnalyzerStub(channel)
    finally:
        process.kill()
        process.wait()

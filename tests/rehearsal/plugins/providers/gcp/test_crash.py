"""The simulated cloud is killed and restarted while a provider waits for it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.plugins.engine.requests import (
    CheckRequest,
    ConfigureRequest,
    CreateRequest,
)
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider
from slicewright.rehearsal.scenario import cloud_variables
from tests.rehearsal.clouds.services import Start, services

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"


@pytest.fixture
def start(
    clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    with services(tmp_path) as start:

        def started() -> subprocess.Popen[bytes]:
            process = start()
            found = access.load(tmp_path)
            assert found is not None
            for name, value in cloud_variables.of(found, tmp_path).items():
                monkeypatch.setenv(name, value)
            return process

        yield started


def test_a_create_survives_a_restart_of_the_cloud(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloud").mkdir(exist_ok=True)
    delays = tmp_path / "cloud" / "delays.json"
    delays.write_text(json.dumps({"container.clusters.create": 600}))
    service = start()
    provider = GcpProvider()
    waiting = threading.Event()
    # Before its first answer, a create that meets no cloud is an error.
    monkeypatch.setattr(provider, "log", lambda *_, **__: waiting.set())
    settings = {"project": "acme", "region": "us-central1"}
    provider.configure(ConfigureRequest(inputs=settings))

    def make(kind: str, **asked: object) -> str:
        checked = provider.check(
            CheckRequest(
                urn="urn", type=kind, name="x", old_inputs={}, new_inputs=asked, random_seed=b"s"
            )
        )
        return provider.create(
            CreateRequest(urn="urn", type=kind, name="x", inputs=checked.inputs)
        ).id

    make(NETWORK, name="net")
    make(SUBNETWORK, name="sub", network="net", ipCidrRange="10.0.0.0/20")
    with ThreadPoolExecutor(1) as thread:
        cluster = thread.submit(make, CLUSTER, name="main", network="net", initialNodeCount=1)
        assert waiting.wait(180)
        service.kill()
        service.wait()
        delays.unlink()
        start()
        assert cluster.result(timeout=180) == "projects/acme/locations/us-central1/clusters/main"

"""Two real control planes, started in parallel, for the tests that leave them unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.control_plane import Endpoint
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain

Until = Callable[..., None]


@dataclass(frozen=True)
class Cluster:
    """One running cluster of an environment."""

    environment: Path
    name: str
    endpoint: Endpoint

    @property
    def directory(self) -> Path:
        return self.environment / "clusters" / self.name

    @property
    def admin(self) -> Client:
        return Client.from_kubeconfig(self.endpoint.kubeconfig)

    def pids(self) -> dict[str, int]:
        return {record.name: record.pid for record in processes.recorded(self.environment)}


@pytest.fixture(scope="session")
def until() -> Until:
    """Waits for a condition; an ApiError counts as not yet."""

    def wait(condition: Callable[[], object], *, timeout_s: float = 180.0) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                if condition():
                    return
            except ApiError as e:
                if time.monotonic() > deadline:
                    raise AssertionError(f"it did not happen in {timeout_s} s: {e}") from e
            assert time.monotonic() < deadline, f"it did not happen in {timeout_s} s"
            time.sleep(0.02)

    return wait


@pytest.fixture(scope="session")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[tuple[Cluster, Cluster]]:
    """Started at the same moment, at paths with spaces, a comma and more than 107 bytes.

    107 bytes is the limit of a unix socket's address.
    """
    base = tmp_path_factory.mktemp("side by side, " + "deep " * 20)

    def start(name: str) -> Cluster:
        return Cluster(base / name, "alpha", control_plane.start(base / name, "alpha", toolchain))

    try:
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(start, ("first", "second"))
        yield first, second
    finally:
        for name in ("first", "second"):
            processes.end_leftovers(base / name)


@pytest.fixture(scope="session")
def cluster(clusters: tuple[Cluster, Cluster]) -> Cluster:
    return clusters[0]


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest, until: Until) -> Iterator[str]:
    """A namespace of the test's own, in which pods can be created."""
    made: JsonObject = cluster.admin.create(
        "/api/v1/namespaces", {"metadata": {"generateName": "test-"}}
    )
    name = made["metadata"]["name"]
    until(lambda: cluster.admin.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"))
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}")

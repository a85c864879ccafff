"""A control plane starts, is repaired after its processes are killed, and ends completely."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.control_plane import (
    ControlPlaneError,
    Endpoint,
    lifecycle,
    ports,
)
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.processes.marks import marked
from slicewright.rehearsal.host.toolchain import Toolchain

Until = Callable[..., None]
Cluster = Any
"""conftest's, which cannot be imported."""


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    processes.end_leftovers(tmp_path)


def config_map(endpoint: Endpoint, name: str) -> None:
    client = Client.from_kubeconfig(endpoint.kubeconfig)
    client.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})


def config_maps(endpoint: Endpoint) -> list[str]:
    listed = Client.from_kubeconfig(endpoint.kubeconfig).get(
        "/api/v1/namespaces/default/configmaps"
    )
    return [item["metadata"]["name"] for item in listed["items"]]


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def pids(environment: Path) -> dict[str, int]:
    return {
        r.name.removesuffix("-alpha"): r.pid
        for r in processes.recorded(environment)
        if processes.is_alive(r)
    }


def test_two_environments_come_up_side_by_side(clusters: tuple[Cluster, Cluster]) -> None:
    first, second = clusters
    assert first.endpoint.port != second.endpoint.port
    config_map(first.endpoint, "only-in-the-first")
    assert "only-in-the-first" in config_maps(first.endpoint)
    assert "only-in-the-first" not in config_maps(second.endpoint)


def test_a_second_start_changes_nothing(cluster: Cluster, toolchain: Toolchain) -> None:
    before = cluster.pids()
    assert control_plane.start(cluster.environment, cluster.name, toolchain) == cluster.endpoint
    assert cluster.pids() == before


def test_the_life_of_a_cluster(
    environment: Path, toolchain: Toolchain, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start, repair, stop, restart, removal: on one cluster, because a start takes seconds."""
    # Two starts at once give the same cluster.
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(
            lambda _: control_plane.start(environment, "alpha", toolchain), range(2)
        )
    assert one == other
    before = pids(environment)
    assert len(before) == 5
    config_map(one, "kept")

    # A killed etcd is started again on its data; the others stay.
    os.kill(before["etcd"], signal.SIGKILL)
    until(lambda: "etcd" not in pids(environment))
    assert control_plane.start(environment, "alpha", toolchain) == one
    after = pids(environment)
    assert {kind for kind in after if after[kind] != before[kind]} == {"etcd"}
    assert "kept" in config_maps(one)

    # Stopping waits neither for watches nor for SIGKILL, and leaves no process and no listener.
    monkeypatch.setattr(lifecycle, "_STOP_S", 600.0)
    watching = threading.Thread(target=watch_until_the_end, args=(one,))
    watching.start()
    began = time.monotonic()
    control_plane.stop(environment, "alpha")
    assert time.monotonic() - began < 500
    watching.join(120)
    assert not watching.is_alive()
    assert marked(environment) == []
    assert processes.recorded(environment) == []
    assert not accepts(one.port)

    # The next start is at the same address, with the same data and CA.
    assert control_plane.start(environment, "alpha", toolchain) == one
    assert "kept" in config_maps(one)

    # A start on a port that is taken meanwhile moves, and its kubeconfig with it.
    control_plane.stop(environment, "alpha")
    with socket.socket() as stranger:
        stranger.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # despite closed connections in TIME_WAIT
        stranger.bind(("127.0.0.1", one.port))
        stranger.listen()
        moved = control_plane.start(environment, "alpha", toolchain)
    assert moved.port != one.port
    assert moved.ca_pem == one.ca_pem
    assert "kept" in config_maps(moved)

    control_plane.remove(environment, "alpha")
    assert not (environment / "clusters/alpha").exists()
    assert marked(environment) == []
    assert not accepts(moved.port)
    control_plane.remove(environment, "alpha")


def watch_until_the_end(endpoint: Endpoint) -> None:
    client = Client.from_kubeconfig(endpoint.kubeconfig)
    try:
        for _ in client.stream("/api/v1/namespaces", timeout_s=60, watch="true"):
            pass
    except Exception as e:  # how it ends does not matter here
        print("watch ended:", e)


STARTER = """
import sys; from pathlib import Path
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
control_plane.start(Path(sys.argv[1]), "alpha", Toolchain.load(Path(sys.argv[2])))
print("up", flush=True); sys.stdin.read()
"""


@pytest.fixture
def starter(environment: Path, toolchain: Toolchain) -> Iterator[subprocess.Popen[str]]:
    toolchain.dump(environment / "toolchain.json")
    argv = [sys.executable, "-c", STARTER, str(environment), str(environment / "toolchain.json")]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    ) as process:
        yield process
        process.kill()


def test_after_kill_9_during_a_start_everything_is_found_and_ended(
    environment: Path, starter: subprocess.Popen[str], until: Until
) -> None:
    until(lambda: "kube-apiserver" in pids(environment))
    starter.kill()
    starter.wait()
    # Both at least: it may have come further before it was killed.
    assert {"etcd", "kube-apiserver"} <= set(pids(environment))
    assert processes.end_leftovers(environment)[-2:] == ["kube-apiserver-alpha", "etcd-alpha"]
    assert marked(environment) == []


def test_a_cluster_outlives_its_starter_until_it_is_ended(
    environment: Path, starter: subprocess.Popen[str]
) -> None:
    assert starter.stdout is not None
    assert starter.stdout.readline() == "up\n"
    starter.kill()
    starter.wait()
    endpoint = Endpoint(
        server="", ca_pem=b"", kubeconfig=environment / "clusters/alpha/kubeconfig.json"
    )
    config_map(endpoint, "still-there")
    names = ["kwok", "kube-controller-manager", "kube-scheduler", "kube-apiserver", "etcd"]
    assert processes.end_leftovers(environment) == [f"{name}-alpha" for name in names]
    assert marked(environment) == []


def test_ctrl_c_during_a_start_leaves_nothing(
    environment: Path, starter: subprocess.Popen[str], until: Until
) -> None:
    until(lambda: "kube-apiserver" in pids(environment))
    starter.send_signal(signal.SIGINT)
    starter.wait(180)
    assert marked(environment) == []
    assert processes.recorded(environment) == []


def test_a_process_that_does_not_start_is_named_with_the_end_of_its_log(
    environment: Path, toolchain: Toolchain
) -> None:
    broken = environment / "broken"
    broken.write_text('#!/bin/sh\necho "cannot do $1 today" >&2\nexit 3\n')
    broken.chmod(0o755)
    with pytest.raises(
        ControlPlaneError, match=r"etcd-alpha ended .*etcd-alpha\.log:\n +cannot do etcd today"
    ):
        control_plane.start(environment, "alpha", replace(toolchain, control_plane=broken))
    assert marked(environment) == []


def test_a_missing_binary_is_named(environment: Path, toolchain: Toolchain) -> None:
    with pytest.raises(ControlPlaneError, match="/no/such/etcd"):
        control_plane.start(
            environment, "alpha", replace(toolchain, control_plane=Path("/no/such/etcd"))
        )


@pytest.mark.parametrize("name", ["", "Alpha", "a/b", "..", "-a", "a" * 64])
def test_a_name_that_gke_or_eks_would_refuse_is_refused(
    environment: Path, toolchain: Toolchain, name: str
) -> None:
    with pytest.raises(ControlPlaneError, match="cluster name"):
        control_plane.start(environment, name, toolchain)
    assert list(environment.iterdir()) == []


def test_ports_chosen_at_once_are_different() -> None:
    with ThreadPoolExecutor(8) as threads:
        held = list(threads.map(lambda _: ports.hold_port(), range(200)))
    try:
        assert len({port.number for port in held}) == 200
    finally:
        for port in held:
            port.release()


def test_a_held_port_is_refused_to_others_and_open_to_the_server() -> None:
    held = ports.hold_port()
    try:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", held.number))
        assert ports.hold_port(held.number).number != held.number
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("127.0.0.1", held.number))
            server.listen()
            assert accepts(held.number)
    finally:
        held.release()

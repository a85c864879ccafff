"""Prometheus as its operator makes it, from monitors of pods that serve metrics."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with
from tests.rehearsal.cluster.monitoring.installed import Prometheus, Source


@pytest.fixture(scope="module")
def source(cluster: Any, prometheus: Prometheus) -> Source:
    return Source(cluster, "measured", 3)


def test_a_pod_that_a_monitor_selects_is_scraped_and_a_query_answers(
    prometheus: Prometheus, source: Source
) -> None:
    prometheus.until("demand{pod='measured'}", {"measured": 3})
    source.set(8)
    prometheus.until("demand{pod='measured'}", {"measured": 8})


def test_a_monitor_that_comes_later_reaches_prometheus_without_a_restart(
    cluster: Any, prometheus: Prometheus, source: Source
) -> None:
    path = f"/api/v1/namespaces/monitoring/pods/prometheus-{prometheus.name}-0"
    Source(cluster, "later", 1)
    prometheus.until("demand{pod='later'}", {"later": 1})
    statuses = cluster.client.get(path)["status"]["containerStatuses"]
    assert {s["name"]: s["restartCount"] for s in statuses} == {
        "prometheus": 0,
        "config-reloader": 0,
    }


def test_its_programs_listen_on_addresses_of_this_machine_only(
    cluster: Any, prometheus: Prometheus
) -> None:
    path = f"/api/v1/namespaces/monitoring/pods/prometheus-{prometheus.name}-0"
    address = cluster.client.get(path)["status"]["podIP"]
    pids = pids_with(f"SLICEWRIGHT_REHEARSAL_POD_ADDRESS={address}")
    assert len(pids) >= 2
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    assert {host for host, inode in _listening() if inode in inodes} == {address}
    service = f"/api/v1/namespaces/monitoring/services/{prometheus.name}"
    assert cluster.client.get(service)["metadata"]["annotations"][ADDRESS].startswith("127.")


def _sockets(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = str(link.readlink())
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found


def _listening() -> list[tuple[str, str]]:
    """Address and inode of each TCP socket of this machine that listens."""
    found = []
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                raw = bytes.fromhex(words[1].partition(":")[0])
                host = socket.inet_ntoa(raw[::-1]) if len(raw) == 4 else "IPv6"
                found.append((host, words[9]))
    return found

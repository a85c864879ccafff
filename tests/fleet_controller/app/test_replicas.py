"""Two replicas as they ship, on a real API server: one acts, whoever is killed, and a layout change
goes on as if nothing had been. mig-manager and the agents are played by the test.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from slicewright.apis import names
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.kubeapi import ApiError, Client, list_and_watch
from slicewright.kubeapi.client import path_of
from slicewright.kubeapi.election import Record
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.kubernetes_objects import POOLS, REPORTS

_ROOT = Path(__file__).parents[3]
_LEASE = path_of("coordination.k8s.io/v1", "leases", names.CONTROLLER_LEASE, names.NAMESPACE)
_POOL = "replicated"
_NAMES = ("r0", "r1", "r2")
_KILLS = 4


class Replicas:
    """Processes by the name that their pods would have, each with its own log."""

    def __init__(self, api_server: Any, directory: Path) -> None:
        self._admin: Client = api_server.admin
        self._directory = directory
        account = directory / "account"
        account.mkdir()
        (account / "token").write_text(api_server.token(names.CONTROLLER_SERVICE_ACCOUNT))
        (account / "ca.crt").write_bytes(api_server.endpoint.ca_pem)
        server = urlsplit(api_server.endpoint.server)
        self._arguments = [str(server.hostname), str(server.port), str(account)]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._made = 0

    def start(self) -> None:
        self._made += 1
        name = f"replica-{self._made}"
        command = [sys.executable, "-m", "tests.fleet_controller.replica", *self._arguments, name]
        with (self._directory / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(command, cwd=_ROOT, stdout=log, stderr=log)

    def holder(self) -> str:
        """The replica that holds the lease; empty: none."""
        try:
            return Record.from_lease(self._admin.get(_LEASE)).holder.partition("_")[0]
        except ApiError as e:
            if e.status != 404:
                raise
            return ""

    def acts(self) -> bool:
        holder = self._running.get(self.holder())
        return holder is not None and holder.poll() is None

    def kill_the_one_that_acts(self) -> str:
        name = self.holder()
        process = self._running.pop(name)
        process.kill()
        process.wait()
        return name

    def stop(self, name: str) -> None:
        """It does nothing until `go_on`, and does not know: as where its machine is paused."""
        self._running[name].send_signal(signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def end(self, name: str) -> int:
        """Exit code after SIGTERM."""
        process = self._running.pop(name)
        process.terminate()
        return process.wait(timeout=120)

    def end_all(self) -> None:
        for name in list(self._running):
            self._running[name].kill()
            self._running.pop(name).wait()

    def log(self, name: str) -> str:
        return (self._directory / f"{name}.log").read_text()


@dataclass
class Watcher:
    """Sees every version of every node of the pool, from outside; plays mig-manager and agents."""

    admin: Client
    stop: threading.Event = field(default_factory=threading.Event)
    nodes: dict[str, Node] = field(default_factory=dict)
    most_out: int = 0
    phases: list[tuple[str, str]] = field(default_factory=list)
    """(node, phase) as they came, each once in a row."""
    wrong: list[str] = field(default_factory=list)

    def follow(self) -> None:
        for event in list_and_watch(self.admin, "/api/v1/nodes", stop=self.stop, window_s=20):
            for raw in event.items or ((event.object,) if event.object else ()):
                if raw.get("metadata", {}).get("name") in _NAMES:
                    self._see(read_node(raw))

    def _see(self, node: Node) -> None:
        self.nodes[node.name] = node
        change = change_of(node)
        phase = (node.name, change.phase if change else "")
        if phase not in self.phases[-1:] and (change or self.phases):
            self.phases.append(phase)
        out = sum(bool(one.change) or one.unschedulable for one in self.nodes.values())
        self.most_out = max(self.most_out, out)
        if node.unschedulable and not change:
            self.wrong.append(f"{node.name} is cordoned, and nothing says why")
        if node.mig_config == "new-2" and node.mig_state is None:
            if not node.held:
                self.wrong.append(f"{node.name} is cut and open to pods")
            done = {"metadata": {"labels": {names.MIG_STATE_LABEL: "success"}}}
            self.admin.patch(f"/api/v1/nodes/{node.name}", done, kind="merge")
            owner = {"metadata": {"name": node.name, "uid": node.uid}}
            written = objects.later_report(owner, _POOL)
            self.admin.patch(
                f"{REPORTS}/{node.name}", written, kind="apply", fieldManager="test", force="true"
            )


@pytest.fixture
def replicas(api_server: Any, tmp_path: Path) -> Iterator[Replicas]:
    made = Replicas(api_server, tmp_path)
    yield made
    made.end_all()


@pytest.fixture
def pool(api_server: Any) -> Iterator[str]:
    """Three nodes in service with the layout `old-1`."""
    admin = api_server.admin
    admin.create(POOLS, objects.pool(_POOL, migConfig="old-1"))
    done = {names.MIG_CONFIG_LABEL: "old-1", names.MIG_STATE_LABEL: "success"}
    for name in _NAMES:
        node = api_server.make_node(name, _POOL)
        admin.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": done}}, kind="merge")
        api_server.apply(REPORTS, objects.report(node, _POOL))
    yield f"{POOLS}/{_POOL}"
    admin.delete(f"{POOLS}/{_POOL}")
    for name in _NAMES:
        admin.delete(f"{REPORTS}/{name}")
        admin.delete(f"/api/v1/nodes/{name}")


def _in_service(api_server: Any, layout: str) -> bool:
    nodes = [api_server.node(name) for name in _NAMES]
    return all(
        (node.mig_config, node.held, node.unschedulable, node.change) == (layout, False, False, "")
        for node in nodes
    )


def test_one_acts_and_the_other_takes_over_at_once_when_it_ends(
    api_server: Any, replicas: Replicas, pool: str
) -> None:
    for _ in range(2):
        replicas.start()
    api_server.wait(lambda: _in_service(api_server, "old-1"), "the nodes are released")
    first = replicas.holder()
    assert replicas.end(first) == 0
    assert "this replica stands by" in replicas.log(first)
    # Given up, not expired: the other one asks every two seconds.
    api_server.wait(replicas.acts, "the other acts")
    lease = Record.from_lease(api_server.admin.get(_LEASE))
    assert lease.holder.partition("_")[0] != first
    assert lease.transitions >= 1


@contextmanager
def _two_replicas(api_server: Any, replicas: Replicas) -> Iterator[Watcher]:
    """They have released the nodes, which are watched until the end."""
    for _ in range(2):
        replicas.start()
    api_server.wait(lambda: _in_service(api_server, "old-1"), "the nodes are released")
    watcher = Watcher(api_server.admin)
    watching = threading.Thread(target=watcher.follow)
    watching.start()
    try:
        api_server.wait(lambda: len(watcher.nodes) == len(_NAMES), "the nodes are watched")
        yield watcher
    finally:
        watcher.stop.set()
        watching.join()


def _require_one_after_the_other(watcher: Watcher) -> None:
    assert watcher.wrong == []
    assert watcher.most_out == 1
    changed = [name for name, phase in watcher.phases if phase == "Applying"]
    assert sorted(changed) == list(_NAMES), "each node is changed once"


def test_a_layout_change_survives_the_death_of_whoever_makes_it(
    api_server: Any, replicas: Replicas, pool: str
) -> None:
    admin, wait = api_server.admin, api_server.wait
    with _two_replicas(api_server, replicas) as watcher:
        admin.patch(pool, {"spec": {"migConfig": "new-2"}}, kind="merge")
        killed = []
        for _ in range(_KILLS):
            seen = len(watcher.phases)
            wait(
                lambda seen=seen: len(watcher.phases) > seen or _in_service(api_server, "new-2"),
                "a step of the change",
            )
            wait(replicas.acts, "somebody acts")
            killed.append(replicas.kill_the_one_that_acts())
            replicas.start()
        wait(lambda: _in_service(api_server, "new-2"), "the change is complete", timeout_s=600)
    assert len(set(killed)) == _KILLS
    _require_one_after_the_other(watcher)


@pytest.mark.long("by histories of two elections: tests/kubeapi/test_election.py")
def test_whoever_is_stopped_for_longer_than_its_lease_stands_by_when_it_goes_on(
    api_server: Any, replicas: Replicas, pool: str
) -> None:
    """And leads again when the other one has ended, from what there is by then."""
    admin, wait = api_server.admin, api_server.wait
    with _two_replicas(api_server, replicas) as watcher:
        first = replicas.holder()
        admin.patch(pool, {"spec": {"migConfig": "new-2"}}, kind="merge")
        wait(lambda: watcher.phases, "the change begins")
        replicas.stop(first)
        wait(lambda: replicas.holder() not in ("", first), "the other takes over", timeout_s=120)
        second, stood_by = replicas.holder(), replicas.log(first).count("this replica stands by")
        replicas.go_on(first)
        wait(lambda: replicas.log(first).count("this replica stands by") > stood_by, "it stands by")
        replicas.stop(first)
        wait(lambda: len(watcher.phases) > 3 or _in_service(api_server, "new-2"), "another step")
        assert replicas.end(second) == 0
        replicas.go_on(first)
        wait(lambda: _in_service(api_server, "new-2"), "the change is complete", timeout_s=600)
        assert replicas.holder() == first
    _require_one_after_the_other(watcher)

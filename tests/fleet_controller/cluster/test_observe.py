"""What the controller knows stays current, or its readiness says why not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from slicewright.fleet_controller.cluster import collection
from slicewright.fleet_controller.cluster.collection import Collection
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.nodes.absent_operands import OPERAND_SELECTOR
from slicewright.kubeapi import Client, Event, Unreachable

LISTED = {"metadata": {"resourceVersion": "1"}, "items": []}


@dataclass
class Api:
    """Answers lists; a watch stays open, without an event, until the test ends it."""

    broken: Callable[[], None] = lambda: None
    """Raises what the next requests meet."""
    ended: threading.Event = field(default_factory=threading.Event)
    watching: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.broken()
        return LISTED

    def stream(self, path: str, *, timeout_s: float, **query: str) -> Iterator[bytes]:
        self.broken()
        return self._silence()

    def _silence(self) -> Iterator[bytes]:
        self.watching.release()
        self.ended.wait(30)
        yield from ()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_BACKOFF_MAX_S", 0.01)


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.ended.set()


@pytest.fixture
def cluster(api: Api) -> Iterator[Cluster]:
    stop = threading.Event()
    made = Cluster.for_client(cast(Client, api))
    made.follow(stop)
    for _ in range(4):
        assert api.watching.acquire(timeout=30)
    yield made
    stop.set()


def _until(holds: Callable[[], object]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if holds():
            return
        pause.wait(0.01)
    pytest.fail("it does not come to hold")


def _raising(error: Exception) -> Callable[[], None]:
    def broken() -> None:
        raise error

    return broken


def test_open_watches_in_which_nothing_happens_are_current(cluster: Cluster) -> None:
    assert (cluster.incomplete(), cluster.outdated()) == (None, None)


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("/var/run/secrets/token: No such file or directory"),
        OSError("too many open files"),
        RuntimeError("a bug"),
    ],
)
def test_what_cannot_be_followed_is_reported_until_it_is_followed_again(
    error: Exception, cluster: Cluster, api: Api
) -> None:
    api.broken = _raising(error)
    ended, api.ended = api.ended, threading.Event()
    ended.set()
    _until(lambda: str(error) in (cluster.pools.error or ""))
    assert (
        cluster.outdated()
        == f"/apis/slicewright.io/v1alpha1/gpupools is not followed: {cluster.pools.error}"
    )
    api.broken = lambda: None
    _until(lambda: cluster.outdated() is None)
    assert all(c.thread and c.thread.is_alive() for c in (cluster.nodes, cluster.pools))


def test_a_thread_that_has_ended_is_reported(cluster: Cluster) -> None:
    dead = threading.Thread(target=lambda: None)
    dead.start()
    dead.join()
    cluster.nodes.thread = dead
    assert cluster.outdated() == "the thread that follows /api/v1/nodes has ended"


def _node(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def test_a_late_answer_does_not_bring_back_what_has_been_deleted() -> None:
    nodes = Cluster.for_client(cast(Client, Api())).nodes
    nodes.put(_node("n", 104))
    nodes._apply(Event("DELETED", _node("n", 106)))
    nodes.put(_node("n", 105))
    assert nodes.all() == {}
    nodes._take(
        Event("LISTED", {"metadata": {"resourceVersion": "105"}}, (nodes._parsed(_node("n", 105)),))
    )
    assert nodes.all() == {}, "a list from before its end"
    nodes.put(_node("n", 107))
    assert nodes.all()["n"].version == "107", "another node of its name"


def test_a_late_answer_does_not_bring_back_what_a_list_no_longer_had() -> None:
    """Its end was in no watch: that was lost."""
    nodes = Cluster.for_client(cast(Client, Api())).nodes
    nodes.put(_node("n", 104))
    nodes._apply(Event("LISTED", {"metadata": {"resourceVersion": "120"}}, ()))
    nodes.put(_node("n", 105))
    assert nodes.all() == {}
    nodes.put(_node("n", 121))
    assert nodes.all()["n"].version == "121", "another node of its name"


def test_the_news_of_a_write_is_not_read_once_more() -> None:
    """It is as much work as the answer was, and where nodes join most news is that."""
    read: list[int] = []

    def version(raw: Mapping[str, Any]) -> int:
        read.append(int(raw["metadata"]["resourceVersion"]))
        return read[-1]

    versions = Collection("/x", version, threading.Event())
    for each in (5, 5, 4, 7, 6, 7, 8):
        versions.put({"metadata": {"name": "n", "resourceVersion": str(each)}})
    assert (read, versions.all()) == ([5, 7, 8], {"n": 8})


def test_few_deleted_objects_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_TOMBSTONES", 2)
    nodes = Cluster.for_client(cast(Client, Api())).nodes
    for version in range(5, 9):
        nodes._apply(Event("DELETED", _node(f"n{version}", version)))
    assert list(nodes._deleted) == ["n7", "n8"]


def test_a_list_that_is_older_than_what_is_known_takes_nothing_back() -> None:
    nodes = Cluster.for_client(cast(Client, Api())).nodes
    nodes.put(_node("n", 20))
    old = Event("LISTED", {"metadata": {"resourceVersion": "10"}}, ())
    nodes._apply(old)
    assert [node.version for node in nodes.all().values()] == ["20"]


@dataclass
class Listing:
    """Answers lists in pages of two, and remembers what was asked."""

    items: list[dict[str, Any]]
    asked: list[dict[str, Any]] = field(default_factory=list)

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        self.asked.append({"path": path, **query})
        begin = int(query.get("continue", 0))
        last = begin + 2 >= len(self.items) or "limit" not in query
        more = {} if last else {"continue": str(begin + 2)}
        there = self.items[begin : begin + 2] if "limit" in query else self.items
        return {"metadata": {"resourceVersion": "1", **more}, "items": there}


def _operand(name: str, *, waits: bool) -> dict[str, Any]:
    state = {"waiting": {"reason": "CrashLoopBackOff"}} if waits else {"running": {}}
    return {
        "metadata": {"name": name, "labels": {"large": "x"}},
        "spec": {"nodeName": "n1", "containers": ["large"]},
        "status": {"containerStatuses": [{"name": "c", "state": state}]},
    }


def test_operands_of_many_nodes_are_one_list_in_pages() -> None:
    """Not one list for each node: a hundred pools that join would be two hundred."""
    api = Listing([_operand(f"p{i}", waits=i == 2) for i in range(5)])
    found = Cluster.for_client(cast(Client, api)).waiting_operands({f"n{i}" for i in range(11)})
    assert [pod["metadata"] for pod in found] == [{"name": "p2"}]
    assert "containers" not in found[0]["spec"], "next to nothing of it is kept"
    assert len(api.asked) == 3
    assert {one["labelSelector"] for one in api.asked} == {OPERAND_SELECTOR}
    assert not any("fieldSelector" in one for one in api.asked)


def test_operands_of_a_few_nodes_come_from_the_api_servers_index() -> None:
    api = Listing([_operand("p0", waits=False), _operand("p1", waits=True)])
    found = Cluster.for_client(cast(Client, api)).waiting_operands({"n1", "n2"})
    assert {pod["metadata"]["name"] for pod in found} == {"p1"}
    selected = sorted(one["fieldSelector"] for one in api.asked)
    assert selected == ["spec.nodeName=", "spec.nodeName=n1", "spec.nodeName=n2"]


def test_warnings_are_listed_in_pages() -> None:
    names = [f"halves.{i:016x}" for i in range(5)]
    api = Listing([_event(name) for name in names])
    found = Cluster.for_client(cast(Client, api)).warnings()
    assert sorted(found) == names
    assert len(api.asked) == 3


def _event(name: str, time: str = "2026-11-25T12:00:00Z") -> dict[str, Any]:
    about = {"kind": "GPUPool", "name": "halves"}
    return {"metadata": {"name": name}, "involvedObject": about, "lastTimestamp": time}


def test_an_event_that_cannot_be_read_hides_no_warning() -> None:
    """Whoever may create Events in the namespace can write the controller's name into one."""
    mine = f"halves.{'0' * 16}"
    odd = [
        _event(f"halves.{'1' * 16}", "10000-01-01T23:58:59Z"),
        _event("tenant.1"),
        {"metadata": {"name": f"halves.{'2' * 16}"}},
    ]
    api = Listing([*odd, _event(mine)])
    assert set(Cluster.for_client(cast(Client, api)).warnings()) == {mine}

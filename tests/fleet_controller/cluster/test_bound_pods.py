"""Pods are known from one watch, and where it may be behind, the node is listed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.cluster.bound_pods import BOUND
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.objects.bounds import seconds
from slicewright.fleet_controller.objects.layout_change import Change, Phase
from slicewright.fleet_controller.objects.node import Node
from slicewright.kubeapi import Client, Event

_LIVING = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass
class Api:
    """Answers lists of pods, and remembers by which selector it was asked."""

    asked: list[str] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)

    def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(query.get("fieldSelector", ""))
        return {"metadata": {"resourceVersion": "100"}, "items": self.items}


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def cluster(api: Api) -> Cluster:
    return Cluster.of(cast(Client, api))


def _pod(
    name: str, node: str, version: int, *, gpus: int = 1, owner: str = "", **metadata: Any
) -> dict[str, Any]:
    owners = [{"kind": owner, "name": owner, "controller": True}] if owner else []
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ai",
            "uid": name,
            "resourceVersion": str(version),
            "ownerReferences": owners,
            **metadata,
        },
        "spec": {"nodeName": node, "containers": [{"resources": resources}]},
    }


def _node(name: str, version: int, *, held: bool) -> dict[str, Any]:
    taints = [{"key": TAINT, "effect": "NoSchedule"}] if held else []
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"taints": taints}}


def _names(cluster: Cluster, node: str) -> list[str]:
    return sorted(pod.name for pod in cluster.bound.on(node))


class TestByNode:
    def test_one_watch_has_every_pod_that_is_bound_and_has_not_ended(
        self, cluster: Cluster, api: Api
    ) -> None:
        api.items = [_pod("a", "n1", 5), _pod("b", "n2", 6), _pod("c", "n1", 7)]
        cluster.bound.list_again(cast(Client, api))
        assert api.asked == [f"spec.nodeName!=,{_LIVING}"] == [BOUND]
        assert (_names(cluster, "n1"), _names(cluster, "n2")) == (["a", "c"], ["b"])
        assert _names(cluster, "n3") == []

    def test_a_pod_that_goes_is_gone_and_another_of_its_name_is_where_it_is(
        self, cluster: Cluster
    ) -> None:
        bound = cluster.bound
        bound._apply(Event("ADDED", _pod("a", "n1", 5)))
        bound._apply(Event("DELETED", _pod("a", "n1", 6)))
        assert _names(cluster, "n1") == []
        assert bound._on == {}, "nothing is kept of a node without pods"
        bound._apply(Event("ADDED", _pod("a", "n2", 7)))
        assert (_names(cluster, "n1"), _names(cluster, "n2")) == ([], ["a"])

    def test_pods_of_one_name_in_two_namespaces_are_two(self, cluster: Cluster) -> None:
        for namespace in ("ai", "web"):
            cluster.bound._apply(Event("ADDED", _pod("a", "n1", 5, namespace=namespace)))
        assert [pod.path for pod in cluster.bound.on("n1")] == ["ai/a", "web/a"]

    def test_a_list_replaces_what_was_known(self, cluster: Cluster, api: Api) -> None:
        cluster.bound._apply(Event("ADDED", _pod("a", "n1", 5)))
        cluster.bound._apply(Event("ADDED", _pod("young", "n1", 101)))
        api.items = [_pod("b", "n1", 6)]
        cluster.bound.list_again(cast(Client, api))
        assert _names(cluster, "n1") == ["b", "young"]

    def test_daemon_set_and_static_pods_are_kept_only_with_gpus_or_driver(
        self, cluster: Cluster
    ) -> None:
        mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
        driver = _pod("driver", "n1", 4, gpus=0, owner="DaemonSet")
        driver["metadata"]["labels"] = {"app.kubernetes.io/component": "nvidia-driver"}
        driver["spec"]["containers"] = [{"name": "nvidia-driver-ctr", "image": "driver:580.95.05"}]
        for raw in (
            driver,
            _pod("plugin", "n1", 5, gpus=0, owner="DaemonSet"),
            _pod("trainer", "n1", 6, owner="DaemonSet"),
            _pod("proxy", "n1", 7, gpus=0, **mirror),
            _pod("server", "n1", 8, gpus=0, owner="ReplicaSet"),
        ):
            cluster.bound._apply(Event("ADDED", raw))
        assert _names(cluster, "n1") == ["driver", "server", "trainer"]

    def test_only_pods_of_inspected_nodes_wake_the_controller(self, cluster: Cluster) -> None:
        cluster.bound.ask_about(["n1"])
        wakes = []
        for raw in (_pod("a", "n1", 5), _pod("b", "n2", 6)):
            for kind in ("ADDED", "DELETED"):
                cluster.changed.clear()
                version = {**raw["metadata"], "resourceVersion": f"{len(wakes) + 10}"}
                cluster.bound._apply(Event(kind, {**raw, "metadata": version}))  # type: ignore[arg-type]
                wakes.append(cluster.changed.is_set())
        assert wakes == [True, True, False, False]

    def test_a_start_of_volcanos_scheduler_wakes_the_controller(self, cluster: Cluster) -> None:
        def scheduler(version: int, started: str) -> dict[str, Any]:
            raw = _pod("volcano-scheduler-1", "system", version, gpus=0, owner="ReplicaSet")
            raw["metadata"]["labels"] = {"app": "volcano-scheduler"}
            raw["status"] = {"containerStatuses": [{"state": {"running": {"startedAt": started}}}]}
            return raw

        cluster.bound.ask_about([])
        for version, started in ((5, "2026-11-23T09:00:00Z"), (6, "2026-11-23T10:00:00Z")):
            cluster.changed.clear()
            cluster.bound._apply(Event("ADDED", scheduler(version, started)))
            assert cluster.changed.is_set()
        (pod,) = cluster.bound.schedulers()
        assert pod.scheduler_started == seconds("2026-11-23T10:00:00Z")
        cluster.bound._apply(Event("DELETED", scheduler(7, "2026-11-23T10:00:00Z")))
        assert cluster.bound.schedulers() == ()

    def test_a_change_of_what_is_not_kept_of_a_pod_does_not_wake_the_controller(
        self, cluster: Cluster
    ) -> None:
        cluster.bound.ask_about(["n1"])
        cluster.bound._apply(Event("ADDED", _pod("a", "n1", 5)))
        cluster.changed.clear()
        cluster.bound._apply(Event("MODIFIED", _pod("a", "n1", 6, labels={"seen": "twice"})))
        assert not cluster.changed.is_set()
        leaving = {"deletionTimestamp": "2026-11-23T09:00:00Z"}
        cluster.bound._apply(Event("MODIFIED", _pod("a", "n1", 7, **leaving)))
        assert cluster.changed.is_set()


def test_a_heartbeat_of_a_node_does_not_wake_the_controller(cluster: Cluster) -> None:
    assert cluster.nodes.path == "/api/v1/nodes"
    cluster.nodes.put(_node("n1", 5, held=True))
    cluster.changed.clear()
    cluster.nodes.put(_node("n1", 6, held=True))
    assert not cluster.changed.is_set()
    assert cluster.nodes.all()["n1"].version == "6", "it is kept all the same"
    cluster.nodes.put(_node("n1", 7, held=False))
    assert cluster.changed.is_set()


@pytest.fixture
def held(node: Node) -> Node:
    return replace(node, uid="uid-n1", taint_keys=(TAINT,))


class TestWhereTheWatchMayBeBehind:
    def test_a_node_that_came_with_its_taint_is_never_listed(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        cluster.nodes.put(_node("n1", 5, held=True))
        assert cluster.pods(held) == ()
        assert api.asked == []

    def test_a_node_that_was_open_is_listed_before_it_counts_as_empty(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        cluster.nodes.put(_node("n1", 5, held=False))
        cluster.nodes.put(_node("n1", 6, held=True))
        api.items = [_pod("late", "n1", 90)]
        assert [pod.name for pod in cluster.pods(held)] == ["late"]
        assert api.asked == [f"spec.nodeName=n1,{_LIVING}"]

    def test_a_node_that_was_verified_has_been_open(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        """Before this process began, and it knows nothing of it."""
        cluster.pods(replace(held, verified_boot="b0"))
        assert api.asked == [f"spec.nodeName=n1,{_LIVING}"]

    def test_an_open_node_is_not_listed_while_pods_may_come(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        cluster.nodes.put(_node("n1", 5, held=False))
        assert cluster.pods(replace(held, taint_keys=())) == ()
        assert api.asked == []

    def test_no_list_is_needed_if_the_watch_shows_a_pod(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        cluster.nodes.put(_node("n1", 5, held=False))
        cluster.bound._apply(Event("ADDED", _pod("job", "n1", 6)))
        assert [pod.name for pod in cluster.pods(held)] == ["job"]
        assert api.asked == []

    def test_pods_without_gpus_prove_nothing_about_those_with(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        cluster.nodes.put(_node("n1", 5, held=False))
        cluster.bound._apply(Event("ADDED", _pod("web", "n1", 6, gpus=0, owner="ReplicaSet")))
        cluster.pods(held)
        assert len(api.asked) == 1

    def test_the_operands_of_a_stuck_node_are_listed(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        api.items = [_pod("nvidia-mig-manager", "n1", 9, gpus=0, owner="DaemonSet")]
        assert [p.name for p in cluster.pods(replace(held, stuck="{}"))] == ["nvidia-mig-manager"]

    @pytest.mark.parametrize(
        ("phase", "lists"), [("Upgrading", True), ("Draining", False), ("Applying", False)]
    )
    def test_the_operands_of_a_node_are_listed_while_its_driver_is_replaced(
        self, phase: Phase, lists: bool, cluster: Cluster, api: Api, held: Node
    ) -> None:
        """Some of them are restarted with it."""
        note = Change(
            node_uid=held.uid, target="new", phase=phase, since=0.0, started=0.0, cordoned=True
        )
        cluster.pods(replace(held, change=note.dump()))
        assert bool(api.asked) is lists

    @pytest.mark.parametrize("relisted", [False, True])
    def test_another_node_of_the_name_has_not_been_open(
        self, relisted: bool, cluster: Cluster, api: Api, held: Node
    ) -> None:
        cluster.nodes.put(_node("n1", 5, held=False))
        another = _node("n1", 7, held=True)
        another["metadata"]["uid"] = "uid-another"
        if relisted:
            api.items = [another]
            cluster.nodes.list_again(cast(Client, api))
        else:
            cluster.nodes._apply(Event("DELETED", _node("n1", 6, held=False)))
            cluster.nodes.put(another)
        assert not cluster.nodes.was_open(replace(held, uid="uid-another"))
        assert not cluster.nodes.was_open(held), "it is gone, and forgotten"

    def test_a_list_of_nodes_shows_those_that_are_open(
        self, cluster: Cluster, api: Api, held: Node
    ) -> None:
        api.items = [_node("n1", 5, held=False)]
        cluster.nodes.list_again(cast(Client, api))
        assert cluster.nodes.was_open(held)


def test_pods_are_followed_like_the_rest(cluster: Cluster) -> None:
    for each in cluster.followed():
        each.listed.set()
    cluster.bound.listed.clear()
    assert cluster.incomplete() == "/api/v1/pods not listed yet"
    dead = threading.Thread(target=lambda: None)
    dead.start()
    dead.join()
    cluster.bound.thread = dead
    assert cluster.ended() == "the thread that follows /api/v1/pods has ended"

"""The loop, its lists and its watches, with an API server that answers some of its requests with
errors and drops watches: it ends where it ends without them.
"""

from __future__ import annotations

import json
import threading
import time
from hashlib import sha256
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.fleet_controller.app import loop as loop_module
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster import collection
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.cluster.status_pace import StatusPace
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import read_node
from slicewright.fleet_controller.objects.pool import read_pool
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.api_edge import NODES, PODS, POOLS, REPORTS, Object
from tests.fleet_controller.faulty_api import FaultyApi
from tests.properties import examples

START = 1_800_000_000.0
POOL = "p"
NAMES = ("n0", "n1", "n2")
FAULTS = {
    *(f"{verb} {kind}" for verb in ("GET", "PATCH", "WATCH") for kind in ("429", "500")),
    "PATCH 409",
    "PATCH lost answer",
    "WATCH 410",
    "WATCH 410 later",
    "WATCH dropped",
}
"""That a run of the test must have drawn."""
_PATIENCE_S = 120.0
"""For a machine that is busy with other things: it takes about one."""


def _spec(layout: str) -> dict[str, Any]:
    desired = json.dumps({"pool": POOL, "gpus": layout})
    digest = sha256(desired.encode()).hexdigest()
    return {"migConfig": layout, "layoutHash": digest, "desiredState": desired}


class Fleet:
    """Three nodes in service with `old`, each with a pod, of which `new` is wanted."""

    def __init__(self, seed: int | None) -> None:
        self.now = START
        self.api = FaultyApi(seed)
        self.out: set[frozenset[str]] = set()
        """The sets of nodes that were out at the same time."""
        pool = objects.pool(POOL, fewest=len(NAMES), **_spec("old"))
        created = {"uid": "pool", "generation": 1, "creationTimestamp": stamp(START)}
        pool["metadata"] |= created
        self.api.put(POOLS, pool)
        for name in NAMES:
            self.api.put(NODES, _node(name))
        self.cluster = Cluster.for_client(self.api.as_client())
        self.loop = Loop(self.cluster, clock=lambda: self.now)
        self.loop._statuses = StatusPace(clock=lambda: self.now)

    def run(self) -> Object:
        """Until the change is complete. Returns what there is then."""
        stop = threading.Event()
        running = threading.Thread(target=self.loop.run, args=(stop,))
        self.cluster.follow(stop)
        running.start()
        try:
            self._until("old")
            for name in NAMES:
                self.api.put(PODS, _pod(name))
            spec = {"spec": _spec("new"), "metadata": {"generation": 2}}
            self.api.change(POOLS, POOL, spec)
            self._until("new")
            self.api.healthy = True
            self._turns(5)
            return self._end()
        finally:
            stop.set()
            self.cluster.changed.set()
            running.join()
            for each in self.cluster.followed():
                assert each.thread is not None
                each.thread.join()

    def _until(self, layout: str) -> None:
        """Plays mig-manager and the agents until all nodes are in service with the layout. Time
        passes with the turns of the loop, so that no deadline depends on the speed of a machine.
        """
        end = time.monotonic() + _PATIENCE_S
        while not self._verified(layout):
            assert time.monotonic() < end, (self._end(), self.loop.progress, self.api.drawn)
            self._turns(1)

    def _turns(self, count: int) -> None:
        end = time.monotonic() + _PATIENCE_S
        for _ in range(count):
            for name, raw in self.api.there(NODES).items():
                self._plays_its_part(name, raw)
            turn = self.loop.progress.last_turn
            while self.loop.progress.last_turn == turn:
                assert time.monotonic() < end, self.loop.progress
                time.sleep(0.001)
            self.now += 1.0

    def _plays_its_part(self, name: str, raw: Object) -> None:
        node = read_node(raw)
        labels = {names.MIG_STATE_LABEL: "success"}
        if node.mig_config and node.mig_state is None:
            assert node.held
            assert not [p for p in self.api.there(PODS).values() if p["spec"]["nodeName"] == name]
            self.api.change(NODES, name, {"metadata": {"labels": labels}})
        elif node.mig_config:
            known = self.api.there(REPORTS).get(name, {}).get("report", {})
            digest, time_of = _spec(node.mig_config)["layoutHash"], stamp(self.now)
            if known.get("time") != time_of:
                report = objects.report(raw, POOL, observedHash=digest, time=time_of)
                self.api.put(REPORTS, report)

    def _verified(self, layout: str) -> bool:
        nodes = [read_node(raw) for raw in self.api.there(NODES).values()]
        changing = frozenset(node.name for node in nodes if change_of(node) or node.unschedulable)
        self.out.add(changing)
        pool = read_pool(self.api.there(POOLS)[POOL])
        said = pool.condition(names.VERIFIED)
        return (
            said is not None
            and (said.status, said.generation) == ("True", pool.generation)
            and not changing
            and all((n.mig_config, n.held) == (layout, False) for n in nodes)
        )

    def _end(self) -> Object:
        """What is there, without times and versions."""
        nodes = [read_node(raw) for raw in self.api.there(NODES).values()]
        pool = self.api.there(POOLS)[POOL]
        return {
            "nodes": {
                node.name: (
                    dict(node.labels),
                    node.taint_keys,
                    node.unschedulable,
                    node.change,
                    node.verified_layout,
                    node.condition and (node.condition.status, node.condition.reason),
                )
                for node in nodes
            },
            "pods": sorted(self.api.there(PODS)),
            "pool": sorted(
                (one["type"], one["status"], one["reason"])
                for one in pool.get("status", {}).get("conditions", ())
            ),
        }


def _node(name: str) -> Object:
    labels = {names.POOL_LABEL: POOL}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(START),
            "labels": labels,
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu"}, dict(names.STARTUP_TAINT)]},
        "status": {
            "nodeInfo": {"bootID": f"boot-of-{name}"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(node: str) -> Object:
    owner = {"kind": "ReplicaSet", "name": "llm", "uid": "llm", "controller": True}
    return {
        "metadata": {
            "namespace": "ai",
            "name": f"llm-{node}",
            "uid": f"uid-llm-{node}",
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        },
    }


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short."""
    for name, pause_s in (("DEBOUNCE_S", 0.0), ("RESYNC_S", 0.02), ("_STANDBY_S", 0.01)):
        monkeypatch.setattr(loop_module, name, pause_s)
    monkeypatch.setattr(loop_module, "_BACKOFF_MAX_S", 0.02)
    monkeypatch.setattr(collection, "_BACKOFF_MAX_S", 0.02)


@pytest.mark.usefixtures("soon")
def test_a_change_ends_as_without_errors_whatever_the_api_server_answers() -> None:
    without = Fleet(None).run()
    assert without["pods"] == []
    assert {condition for *_, condition in without["nodes"].values()} == {
        ("True", "PartitionsMatch")
    }
    for seed in range(examples(3)):
        fleet = Fleet(seed)
        assert fleet.run() == without, seed
        assert fleet.api.drawn.keys() >= FAULTS, seed
        assert max(map(len, fleet.out)) == 1, "one node at a time"

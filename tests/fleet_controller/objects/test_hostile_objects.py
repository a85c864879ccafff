"""One odd object ends nothing, and changes nothing that is decided for other nodes."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis import names
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster.lanes import Outcome
from slicewright.fleet_controller.cluster.observe import EVENT_SOURCE, Cluster
from slicewright.fleet_controller.decision.actions import Action
from slicewright.fleet_controller.objects.bounds import stamp
from tests import odd_values
from tests.fleet_controller import hostile
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.api_edge import EVENTS, NODES, PODS, POOLS, REPORTS, ApiEdge
from tests.properties import cases, examples

NOW = 1_800_000_000.0
LAYOUT = "all-1g.10gb-1234"
POOL, HOSTILE, GOOD = "halves", "n-hostile", ("n1", "n2", "n3")
LARGEST_REQUEST = 64 * 1024
"""Bytes; etcd takes 1.5 MB."""
_SET_BY_THE_SERVER = (
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "uid"),
    ("metadata", "resourceVersion"),
    ("metadata", "creationTimestamp"),
    ("metadata", "labels"),
    ("metadata", "ownerReferences"),
    ("metadata", "generation"),
    ("involvedObject", "kind"),
    ("spec", "nodeName"),
    ("spec", "taints"),
    ("apiVersion",),
    ("kind",),
)


def _node(name: str, **annotations: str) -> dict[str, Any]:
    """A node on which mig-manager is done, still held."""
    labels = {
        names.POOL_LABEL: POOL,
        names.MIG_CONFIG_LABEL: LAYOUT,
        names.MIG_STATE_LABEL: "success",
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(NOW - 100),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu"}, dict(names.STARTUP_TAINT)]},
        "status": {
            "nodeInfo": {"bootID": f"boot-of-{name}"},
            "conditions": [
                {"type": "Ready", "status": "True"},
                {
                    "type": names.NODE_CONDITION,
                    "status": "Unknown",
                    "reason": "NoReport",
                    "message": "the node's agent has not reported",
                    "lastTransitionTime": stamp(NOW - 90),
                    "lastHeartbeatTime": stamp(NOW - 80),
                },
            ],
        },
    }


def _hostile_node(name: str = HOSTILE) -> dict[str, Any]:
    """One that carries every note, each of them valid."""
    uid = f"uid-{name}"
    change = {
        "nodeUid": uid,
        "target": LAYOUT,
        "driver": "",
        "phase": "Failed",
        "since": stamp(NOW - 50),
        "started": stamp(NOW - 60),
        "cordoned": True,
        "reason": "ChangeFailed",
        "message": "it failed",
    }
    stuck = {
        "nodeUid": uid,
        "layout": LAYOUT,
        "what": "StaleSuccess",
        "since": stamp(NOW - 900),
        "next": stamp(NOW - 10),
        "tries": 1,
        "heldBy": "ai/pod",
    }
    joined = {"pool": POOL, "labels": {"team": {"value": "a", "before": None}}}
    return _node(
        name,
        **{
            names.CHANGE_ANNOTATION: json.dumps(change),
            names.STUCK_ANNOTATION: json.dumps(stuck),
            names.JOINED_ANNOTATION: json.dumps(joined),
            names.VERIFIED_BOOT_ANNOTATION: f"boot-of-{name}",
            names.VERIFIED_LAYOUT_ANNOTATION: LAYOUT,
            names.REPORTS_AFTER_ANNOTATION: stamp(NOW - 40),
            names.CHANGED_ANNOTATION: stamp(NOW - 30),
            names.DESIRED_ANNOTATION: "{}",
        },
    )


def _report(node: dict[str, Any], **report: Any) -> dict[str, Any]:
    return objects.report(node, POOL, time=stamp(NOW - 5), driver="580.95.05", **report)


def _pod(node: str = HOSTILE) -> dict[str, Any]:
    resources = {"requests": {"nvidia.com/mig-1g.10gb": "1"}}
    return {
        "metadata": {
            "namespace": "ai",
            "name": f"on-{node}",
            "uid": f"uid-of-the-pod-on-{node}",
            "creationTimestamp": stamp(NOW - 50),
            "labels": {"app": "nvidia-mig-manager"},
            "annotations": {},
            "ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "volumes": [{"name": "v", "emptyDir": {"medium": ""}}],
            "containers": [{"name": "c", "image": "a/b:c", "resources": resources}],
        },
        "status": {"phase": "Running"},
    }


def _event(of: str = HOSTILE) -> dict[str, Any]:
    digest = hashlib.sha256(of.encode()).hexdigest()[:16]
    return {
        "metadata": {"name": f"{POOL}.{digest}", "namespace": names.EVENTS_NAMESPACE},
        "involvedObject": {"kind": names.POOL_KIND, "name": POOL, "uid": "uid-halves"},
        "source": {"component": EVENT_SOURCE},
        "type": "Warning",
        "reason": "NoReport",
        "message": "old news",
        "firstTimestamp": stamp(NOW - 900),
        "lastTimestamp": stamp(NOW - 800),
        "count": 1,
    }


def _pool(name: str) -> dict[str, Any]:
    body = objects.pool(name, fewest=3, migConfig=LAYOUT)
    body["metadata"] |= {
        "uid": f"uid-{name}",
        "generation": 1,
        "creationTimestamp": stamp(NOW),
        "annotations": {names.ROLLOUT_ANNOTATION: "paused"},
    }
    condition = {
        "type": names.VERIFIED,
        "status": "True",
        "reason": "AllNodesProven",
        "message": "3 nodes verified",
        "lastTransitionTime": stamp(NOW - 70),
        "observedGeneration": 1,
    }
    body["status"] = {
        "observedGeneration": 1,
        "waitingSince": stamp(NOW - 60),
        "tooFewSince": stamp(NOW - 60),
        "layout": LAYOUT,
        "nodes": {"total": 3, "verified": 3},
        "failingNodes": [{"name": "n1", "reason": "NoReport", "message": "late"}],
        "provenLayouts": [{"migConfig": "a", "layoutHash": "b", "desiredState": "{}"}],
        "conditions": [condition],
    }
    return body


def _as_id(value: str | odd_values.Path) -> str:
    return value.rpartition("/")[2] if isinstance(value, str) else "/".join(map(str, value))


class World:
    """A pool of three nodes in order, and what an attacker has put beside them."""

    def __init__(self, **odd: dict[str, Any]) -> None:
        self.edge = ApiEdge()
        plain_pool = objects.pool(POOL, fewest=3, migConfig=LAYOUT)
        plain_pool["metadata"] |= {"uid": "uid-halves", "generation": 1}
        self.edge.put(POOLS, plain_pool)
        for name in GOOD:
            self.edge.put(NODES, _node(name))
            self.edge.put(REPORTS, _report(self.edge.objects[NODES][name]))
        for path, body in odd.items():
            self.edge.put(path, body)
        self.now = NOW
        self.cluster = Cluster.for_client(self.edge.as_client())
        self.loop = Loop(self.cluster, clock=lambda: self.now)

    def add_hostile(self, name: str, changes: dict[str, tuple[odd_values.Path, Any]]) -> None:
        """A node with every note, its report, its pod and an Event; one value of them replaced."""
        bodies = {NODES: _hostile_node(name), REPORTS: _odd_report(name), PODS: _pod(name)}
        bodies[EVENTS] = _event(name)
        for path, body in bodies.items():
            place, value = changes.get(path, ((), None))
            self.edge.put(path, odd_values.replaced(body, place, value) if place else body)

    def passes(self, count: int) -> None:
        for _ in range(count):
            self.edge.shown_to(self.cluster)
            self.loop.turn()
            self.now += 2.0

    def check(self) -> None:
        """The three are released, and nothing had to be caught. Ends the loop's threads."""
        self.loop._lanes.close()
        faults = {part: n for part, n in self.loop.progress.faults.items() if n}
        assert not faults, faults
        for name in GOOD:
            node = self.cluster.nodes.all()[name]
            assert not node.held
            assert node.condition
            assert node.condition.status == "True"
        assert self.edge.largest_request < LARGEST_REQUEST


def _texts(valid: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """What the API server takes: text stays text, in fields that others may write."""
    return hostile.odd_texts(valid, _SET_BY_THE_SERVER)


def _odd_report(name: str = HOSTILE) -> dict[str, Any]:
    node = {"metadata": {"name": name, "uid": f"uid-{name}"}}
    return _report(node, verdict="Mismatch", reason="WrongLayout")


_TAKEN_BY_THE_SERVER = [
    (kind, place)
    for kind, valid in (
        (NODES, _hostile_node()),
        (REPORTS, _odd_report()),
        (PODS, _pod()),
        (EVENTS, _event()),
    )
    for place in hostile.text_places(valid, _SET_BY_THE_SERVER)
]


@pytest.mark.parametrize(("kind", "place"), list(cases(_TAKEN_BY_THE_SERVER)), ids=_as_id)
def test_no_text_at_any_place_keeps_other_nodes_from_being_released(
    kind: str, place: odd_values.Path
) -> None:
    """Each text on a node, a report, a pod or an Event of its own, in one fleet."""
    world = World()
    for index, value in enumerate(odd_values.TEXTS.values()):
        world.add_hostile(f"n-hostile-{index}", {kind: (place, value)})
    world.passes(3)
    world.now += 400
    world.passes(3)
    before = world.edge.requests.copy()
    world.now -= 2.0
    world.passes(2)
    world.check()
    writes = {k: n for k, n in (world.edge.requests - before).items() if not k.startswith("GET")}
    assert not writes, f"written in every pass: {writes}"


@settings(max_examples=examples(60), deadline=None)
@given(
    node=_texts(_hostile_node()),
    report=_texts(_odd_report()),
    pod=_texts(_pod()),
    event=_texts(_event()),
)
def test_hostile_texts_together_keep_no_other_node_from_being_released(
    node: dict[str, Any], report: dict[str, Any], pod: dict[str, Any], event: dict[str, Any]
) -> None:
    world = World(**{NODES: node, REPORTS: report, PODS: pod, EVENTS: event})
    world.passes(3)
    world.now += 400
    world.passes(3)
    world.check()


_VALID = {
    NODES: _hostile_node(),
    REPORTS: _odd_report(),
    PODS: _pod(),
    EVENTS: _event(),
    POOLS: _pool("other"),
}


@pytest.mark.parametrize(
    ("kind", "place"),
    list(
        cases((kind, place) for kind, valid in _VALID.items() for place in odd_values.paths(valid))
    ),
    ids=_as_id,
)
def test_a_value_of_the_wrong_type_is_refused_at_the_door(
    kind: str, place: odd_values.Path
) -> None:
    world = World()
    for index, value in enumerate((*odd_values.WRONG_TYPES, *odd_values.TEXTS.values())):
        body = copy.deepcopy(_VALID[kind])
        body["metadata"] |= {"name": f"odd-{index}", "resourceVersion": "1"}
        world.edge.objects[kind][f"odd-{index}"] = odd_values.replaced(body, place, value)
    world.edge.shown_to(world.cluster)
    world.loop._lanes = _NothingIsCarriedOut()  # type: ignore[assignment]
    world.loop.turn()
    assert not any(world.loop.progress.faults.values()), world.loop.progress
    assert world.loop.progress.error is None
    assert set(GOOD) <= set(world.cluster.nodes.all())


class _NothingIsCarriedOut:
    def carry_out(self, actions: Sequence[Action], *, slice_s: float) -> Outcome:
        assert all(action.subject for action in actions)
        return Outcome(failed={}, postponed=0)

"""Whole runs in which the order of events on each node is chosen, by holds that are let go."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

from slicewright.apis.names import POOL_LABEL
from slicewright.kubeapi import ApiError, Client, Unreachable, list_and_watch
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds, holds_of
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.scenario import faults, proof
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment

_REPORTS = "/apis/slicewright.io/v1alpha1/gpunodereports"
_PODS = "/api/v1/namespaces/slicewright-system/pods"
AGENT = "node-agent"
"""What the names of the agents' pods begin with."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One node at one moment."""

    node: Mapping[str, Any]
    reasons: tuple[str, ...]
    """Of its reports so far, each once in a row."""
    agent: Mapping[str, Any] | None
    """Status of the agent's container; None before its pod has one."""
    cut: tuple[int, ...]
    """Number of MIG devices of each GPU."""
    driver_loaded: bool

    @property
    def allocatable(self) -> Mapping[str, int]:
        found = self.node["status"].get("allocatable") or {}
        return {k: int(v) for k, v in found.items() if k.startswith("nvidia.com/") and v != "0"}

    @property
    def cut_up_to_gpu_4(self) -> bool:
        return all(self.cut[:4]) and not any(self.cut[4:]) and bool(self.cut)

    @property
    def agent_runs(self) -> bool:
        return self.agent is not None and "running" in self.agent["state"]

    @property
    def joined_s_ago(self) -> float:
        made = time.strptime(self.node["metadata"]["creationTimestamp"], "%Y-%m-%dT%H:%M:%SZ")
        return time.mktime(time.gmtime()) - time.mktime(made)


Damage = Callable[[Path], object]
"""Breaks the GPUs of a node, given their state file."""
WRONG_DEVICES: Final = "wrong devices"
"""In place of a hold: the device plugin hands out others than it is asked for."""
Held = Holds | Literal["wrong devices"] | None
Step = tuple[Callable[[Seen], bool], Held] | tuple[Callable[[Seen], bool], Held, Damage]
"""When it is time, what is held from then on, and what is broken before."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of events on one node: what is held first, and what instead, and when."""

    pool: str
    node: int
    first: Holds
    then: Sequence[Step]


@dataclass
class Conductor:
    """Lets go what is held, step by step, while `up` runs in the thread of the test."""

    environment: Environment
    orders: Mapping[str, Order]
    nodes: dict[str, str] = field(default_factory=dict)
    """Names of the orders' nodes."""
    reasons: dict[str, list[str]] = field(default_factory=dict)
    """By node: of its reports, each once in a row."""
    _left: dict[str, list[Step]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _failed: Exception | None = None

    def __enter__(self) -> Conductor:
        for order in self.orders.values():
            faults.inject(
                self.environment, faults.Hold(pool=order.pool, node=order.node, held=order.first)
            )
        self._left = {name: list(order.then) for name, order in self.orders.items()}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=120)
        if self._failed and error is None:
            raise self._failed

    @property
    def undone(self) -> Mapping[str, int]:
        """How many steps of each order did not come to pass."""
        return {name: len(steps) for name, steps in self._left.items() if steps}

    @property
    def client(self) -> Client:
        return Client.from_kubeconfig(next(iter(self.environment.kubeconfigs().values())))

    def agent(self, name: str) -> Mapping[str, Any]:
        """The status of the agent's container on the order's node."""
        found = self._agents()[self.nodes[name]]
        (status,) = (s for s in found["status"]["containerStatuses"] if s["name"] == AGENT)
        return dict(status)

    def own_ends(self, name: str) -> int:
        """How often the agent ended by itself since its node booted, as it notes itself."""
        uid = self._agents()[self.nodes[name]]["metadata"]["uid"]
        pod = self._files(self.nodes[name]).directory / "pods" / uid
        notes = list(pod.rglob("restarts.json"))
        return sum(len(json.loads(note.read_text())["ends"]) for note in notes)

    def silicon(self, name: str) -> Path:
        """The state file of the GPUs of the order's node."""
        return self._files(self.nodes[name]).silicon

    def reasons_of(self, name: str) -> list[str]:
        return self.reasons.get(self.nodes[name], [])

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.1) and not self.environment.kubeconfigs():
                pass
            watching = threading.Thread(target=self._watch, daemon=True)
            watching.start()
            while not self._stop.wait(0.2):
                try:
                    self._look()
                except (ApiError, Unreachable, ValueError, OSError):
                    continue  # it is being set up
        except Exception as e:
            self._failed = e

    def _watch(self) -> None:
        events = list_and_watch(
            self.client, _REPORTS, stop=self._stop, window_s=5, backoff_max_s=0.3
        )
        for event in events:
            for report in event.items or ((event.object,) if "report" in event.object else ()):
                said = self.reasons.setdefault(report["metadata"]["name"], [])
                if said[-1:] != [report["report"]["reason"]]:
                    said.append(report["report"]["reason"])

    def _look(self) -> None:
        client = self.client
        agents = self._agents()
        for node in client.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]:
            name = node["metadata"]["name"]
            order = self._order_of(node)
            if order is None:
                continue
            pod = agents.get(name, {})
            statuses = pod.get("status", {}).get("containerStatuses") or ()
            files = self._files(name)
            silicon = files.silicon
            seen = Seen(
                node=node,
                driver_loaded=files.driver_loaded,
                reasons=tuple(self.reasons.get(name, ())),
                agent=next((s for s in statuses if s["name"] == AGENT), None),
                cut=tuple(
                    sum(len(gi.compute_instances) for gi in gpu.instances)
                    for gpu in (state.load(silicon).gpus if silicon.exists() else ())
                ),
            )
            steps = self._left[order]
            if steps and steps[0][0](seen):
                _, held, *damages = steps[0]
                for damage in damages:
                    damage(silicon)
                if held == WRONG_DEVICES:
                    faults.hand_out_wrong_devices(client, name)
                else:
                    faults.hold(client, name, held)
                del steps[0]

    def _order_of(self, node: Mapping[str, Any]) -> str | None:
        known = {node_name: order for order, node_name in self.nodes.items()}
        name, pool = node["metadata"]["name"], node["metadata"]["labels"][POOL_LABEL]
        if name not in known:
            for order_name, order in self.orders.items():
                if (order.pool, order.first) == (pool, holds_of(dict(node))):
                    self.nodes[order_name] = name
                    return order_name
        return known.get(name)

    def _agents(self) -> Mapping[str, Mapping[str, Any]]:
        """The agents' pods by node."""
        found = self.client.get(_PODS, labelSelector="app.kubernetes.io/name=node-agent")["items"]
        return {pod["spec"]["nodeName"]: pod for pod in found if pod["spec"].get("nodeName")}

    def _files(self, node: str) -> NodeFiles:
        found: list[Path] = list(self.environment.root.glob(f"clusters/*/nodes/{node}"))
        return NodeFiles(found[0]) if found else NodeFiles(Path("/nonexistent"))


def bring_up(environment: Environment, stack: str) -> Outcome:
    engine = Engine(environment, stack, print)
    assert engine.init().code == 0
    return engine.up()


def check_all_verified(stack: str, up: Outcome, conductor: Conductor, *, nodes: int) -> None:
    assert conductor.undone == {}, conductor.reasons
    assert up.code == 0, up.output
    fleet = proof.read_released_fleet(conductor.client)
    assert len(fleet) == nodes
    checks = proof.of_fleet(stack, fleet)
    assert all(check.holds for check in checks), checks


def check_said(conductor: Conductor, order: str, reasons: Sequence[str]) -> None:
    """That the agent's first report has the first of these reasons, and its last one none."""
    # Another watch than the controller's, which may have been first.
    deadline = time.monotonic() + 120
    while (said := conductor.reasons_of(order))[-1:] != ["PartitionsMatch"]:
        assert time.monotonic() < deadline, said
        time.sleep(0.2)
    assert said[0] == [*reasons, "PartitionsMatch"][0]
    assert set(reasons) <= set(said)


def check_ended(conductor: Conductor, order: str, own_ends: int, *, reboots: int = 0) -> None:
    """How often the agent ended by itself, and how often with its node.

    The kubelet writes how often it has started a container a moment after the start.
    """
    deadline = time.monotonic() + 120
    while (status := conductor.agent(order))["restartCount"] < own_ends + reboots:
        assert time.monotonic() < deadline, status
        time.sleep(0.2)
    assert status["restartCount"] == own_ends + reboots
    assert conductor.own_ends(order) == own_ends
    assert status["lastState"].get("terminated", {"exitCode": 0})["exitCode"] == 0

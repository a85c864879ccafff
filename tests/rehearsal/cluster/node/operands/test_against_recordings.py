"""The simulation does what NVIDIA's programs did when they were recorded (test_recording.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.gpu_operator.labels import DEPLOY, MIG_MANAGER
from slicewright.rehearsal.cluster.node.operands import (
    clients,
    device_plugin,
    feature_discovery,
    mig_parted,
    sharing,
)
from slicewright.rehearsal.cluster.node.operands.clients import FEATURE_DISCOVERY, PLUGIN, Clients
from slicewright.rehearsal.cluster.node.operands.device_plugin import Refused
from slicewright.rehearsal.cluster.node.operands.mig_manager import (
    CONFIG,
    STATE,
    ClientsGone,
    Label,
    MigManager,
    Node,
    Partition,
    Reboot,
    Step,
)
from slicewright.rehearsal.cluster.silicon import state
from tests.rehearsal.cluster.node.operands import scenes
from tests.rehearsal.cluster.node.operands.scenes import SCENES, Act, Case, Scene, Seen

HERE = Path(__file__).parent
FIRMWARE = "Amazon EC2"
LAYOUTS = mig_parted.parse(scenes.LAYOUTS)
TOLD = clients.Settings(strategy=scenes.MIG_STRATEGY, sharing={}, machine=FIRMWARE)


class SimulatedNode:
    """A node that keeps each of its states. Its operands run by its labels, as its DaemonSets'
    pods do.
    """

    def __init__(self, scene: Scene) -> None:
        machine = scene.machine
        self.silicon = state.new(
            machine["gpu_model"], machine["gpu_count"], machine["driver_version"], "seed"
        )
        self._labels = {**dict.fromkeys((*DEPLOY, MIG_MANAGER), "true"), CONFIG: "all-disabled"}
        self._allocatable: dict[str, str] = {}
        self._boots = 0
        self._clients = Clients()
        self._manager = MigManager(with_reboot=True)
        self.states: list[Seen] = []
        self.label({})
        self.settle()

    def label(self, changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self._labels.pop(key, None)
            else:
                self._labels[key] = value
        self._keep()
        self._run_clients()

    def play(self, act: Act) -> None:
        if act.in_use is not None:
            used = (scenes.holder(self.silicon, act.in_use),)
            self.silicon = replace(self.silicon, processes=used)
        self.label({CONFIG: act.layout, STATE: None})
        self.settle()
        self.silicon = replace(self.silicon, processes=())

    def settle(self) -> None:
        """Runs mig-manager until it has nothing left to do."""
        while self._manager.reacts(self._labels):
            node = Node(labels=dict(self._labels), silicon=self.silicon)
            steps = self._manager.reconfigure(node, LAYOUTS)
            step: Step | None = next(steps)
            while step is not None:
                applied = self._carry_out(step)
                now = Node(labels=dict(self._labels), silicon=self.silicon, applied=applied)
                try:
                    step = steps.send(now)
                except StopIteration:
                    step = None

    def _carry_out(self, step: Step) -> bool:
        """Whether it went without an error."""
        match step:
            case Label():
                self.label(step.labels)
            case ClientsGone():
                assert not self._clients.devices
            case Partition():
                self.silicon, applied = step.of(self.silicon)
                return applied
            case Reboot():
                self._boots += 1
                self.silicon = state.rebooted(self.silicon)
                self._manager = MigManager(with_reboot=True)
        return True

    def _run_clients(self) -> None:
        running = {
            name: f"{name} of boot {self._boots}"
            for name in (PLUGIN, FEATURE_DISCOVERY)
            if self._labels[f"nvidia.com/gpu.deploy.{name}"] == "true"
        }
        before, self._clients = (
            self._clients,
            clients.after(self._clients, running, self.silicon, TOLD),
        )
        now = self._clients
        if now.devices != before.devices:
            gone = dict.fromkeys(self._allocatable, "0")
            counts = {key: str(len(ids)) for key, ids in now.devices.items()}
            self._allocatable = {**gone, **counts}
            self._keep()
        if now.features != before.features:
            for key in scenes.features(self._labels):
                del self._labels[key]
            self._labels.update(now.features)
            self._keep()

    def _keep(self) -> None:
        labels, allocatable = dict(self._labels), dict(self._allocatable)
        self.states.append(Seen(labels=labels, allocatable=allocatable, silicon=self.silicon))


def simulated(scene: Scene) -> list[dict[str, Any]]:
    node = SimulatedNode(scene)
    rows = [{"act": "boot", **scenes.trace(node.states)}]
    for act in scene.acts:
        del node.states[:-1]
        node.play(act)
        rows.append({"act": act.title, **scenes.trace(node.states)})
    return rows


@pytest.mark.parametrize("name", SCENES)
def test_a_node_goes_through_the_states_that_were_recorded(name: str) -> None:
    now = json.loads(json.dumps(simulated(SCENES[name])))
    was = json.loads((HERE / "mig-manager.json").read_text())["scenes"][name]
    assert [row["act"] for row in now] == [row["act"] for row in was]
    for simulated_row, recorded_row in zip(now, was, strict=True):
        assert simulated_row == recorded_row


def made_of(case: Case) -> dict[str, Any]:
    silicon = state.new(case.model, 2, "580.95.05", "seed")
    for gpu, profiles in scenes.cut_of(case).items():
        silicon = state.partitioned(silicon, gpu, profiles)
    shared = sharing.parse(scenes.config_of(case))
    try:
        offered, refused = device_plugin.devices(silicon, case.strategy, shared), False
    except Refused:
        offered, refused = {}, True
    found = feature_discovery.labels(silicon, case.strategy, shared, machine=FIRMWARE)
    return {
        "refused": refused,
        "devices": {resource: len(ids) for resource, ids in offered.items()},
        "features": dict(sorted(found.items())),
    }


@pytest.mark.parametrize("name", scenes.CASES)
def test_objects_of_a_node_equal_the_recording(name: str) -> None:
    was = json.loads((HERE / "clients.json").read_text())["cases"][name]
    assert made_of(scenes.CASES[name]) == was

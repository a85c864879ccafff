"""Faults of nodes that run: what they do to a node's GPUs and to the cloud, and their repair.

The nodes are directories as the kubelet stand-in makes them; nothing runs. Whole runs break nodes
that do: whole_run/test_gke_fleet and test_existing_cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slicewright.commands import rehearse
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS
from slicewright.rehearsal.clouds.core.fault_file import SpotPreemption
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.scenario import broken_nodes, faults
from slicewright.rehearsal.scenario.broken_nodes import Broken
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import NoSuchFault, RehearsalError


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.setattr(Environment, "require_running", lambda self: None)
    whole = tmp_path / "clusters/c/nodes/whole-1"
    (whole / "root").mkdir(parents=True)
    (whole / "node.json").write_text("{}")
    state.create(whole / "silicon/state", "H100-80", 8, "580.95.05", "whole-1")
    for name, gpus in (("worker-1", 2), ("system-1", 0)):
        directory = tmp_path / "clusters/c/nodes" / name
        (directory / "root").mkdir(parents=True)
        (directory / "node.json").write_text("{}")
        if gpus:
            state.create(directory / "silicon/state", "A100-40", gpus, "580.95.05", name)
            state.repartition(directory / "silicon/state", 1, ["3g.20gb", "3g.20gb"])
    return Environment(tmp_path)


def silicon(environment: Environment, node: str = "worker-1") -> Path:
    return environment.root / f"clusters/c/nodes/{node}/silicon/state"


def broken(fault: str, *, node: str = "worker-1", gpu: int = 1, profile: str = "1g.5gb") -> Broken:
    return Broken(fault=fault, node=node, gpu=gpu, profile=profile)


def test_after_an_xid_the_driver_asks_for_a_reset(environment: Environment) -> None:
    assert "Xid 48" in broken_nodes.inject(environment, broken("xid"))
    found = state.load(silicon(environment))
    assert [(event.gpu, event.data) for event in found.events] == [(1, 48)]
    assert [gpu.health.get("recovery_action") for gpu in found.gpus] == [None, 1]


def test_a_lost_gpu_is_lost_and_the_others_are_not(environment: Environment) -> None:
    broken_nodes.inject(environment, broken("lost-gpu"))
    assert [gpu.lost for gpu in state.load(silicon(environment)).gpus] == [False, True]


def test_a_gpu_is_cut_into_as_many_instances_of_the_profile_as_fit(
    environment: Environment,
) -> None:
    said = broken_nodes.inject(environment, broken("repartition", profile="2g.10gb"))
    assert "3 2g.10gb instances" in said
    _, gpu = state.load(silicon(environment)).gpus
    assert [one.slice.name for one in gpu.instances] == ["2g.10gb"] * 3


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (broken("xid", node=""), "--node is missing: name one of whole-1, worker-1"),
        (broken("lost-gpu", node="worker-9"), "--node worker-9: there is no such node"),
        (broken("reboot", node="worker-9"), "there are whole-1, worker-1"),
        (broken("xid", node="system-1"), "--node system-1: it has no GPUs"),
        (broken("lost-gpu", gpu=2), "--gpu 2: worker-1 has GPUs 0 to 1"),
        (broken("repartition", profile="9g.5gb"), "--profile 9g.5gb: NVIDIA A100"),
        (broken("repartition", profile="3g.20gb"), "has just these partitions"),
        (broken("fabric"), "--node worker-1: the driver reports an NVLink fabric only on"),
        (broken("compute-mode"), "--gpu 1: a GPU in MIG mode has the default compute mode"),
        (broken("spot-preemption"), "in no node pool of the simulated cloud"),
    ],
)
def test_a_fault_that_could_have_no_effect_is_refused(
    environment: Environment, wrong: Broken, says: str
) -> None:
    before = state.load(silicon(environment))
    with pytest.raises(NoSuchFault) as refused:
        broken_nodes.inject(environment, wrong)
    assert says in str(refused.value)
    assert state.load(silicon(environment)) == before
    assert broken_nodes.repair(environment) == []


def test_a_fabric_that_is_not_set_up_is_that_of_every_gpu_until_the_repair(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = silicon(environment, "whole-1")
    broken_nodes.inject(environment, broken("fabric", node="whole-1"))
    assert [gpu.health["fabric_state"] for gpu in state.load(whole).gpus] == [2] * 8
    monkeypatch.setattr(faults, "reboot", lambda _, node: state.reboot(whole))
    assert broken_nodes.repair(environment) == ["whole-1"]
    assert not any(gpu.health for gpu in state.load(whole).gpus)


def test_a_fabric_of_gpus_in_mig_mode_is_not_broken(environment: Environment) -> None:
    state.repartition(silicon(environment, "whole-1"), 7, ["3g.40gb"])
    with pytest.raises(NoSuchFault, match="in MIG mode changes no verdict"):
        broken_nodes.inject(environment, broken("fabric", node="whole-1"))


def test_a_gpu_is_left_in_exclusive_process_mode_and_the_others_are_not(
    environment: Environment,
) -> None:
    broken_nodes.inject(environment, broken("compute-mode", node="whole-1"))
    modes = [
        gpu.health.get("compute_mode", 0)
        for gpu in state.load(silicon(environment, "whole-1")).gpus
    ]
    assert modes == [0, 3, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("fault", ["xid", "lost-gpu", "repartition"])
def test_repair_heals_the_gpus_and_reboots_the_node_once(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    rebooted = []
    monkeypatch.setattr(faults, "reboot", lambda _, node: rebooted.append(node))
    broken_nodes.inject(environment, broken(fault))
    assert broken_nodes.repair(environment) == ["worker-1"]
    assert not any(gpu.lost or gpu.health for gpu in state.load(silicon(environment)).gpus)
    assert broken_nodes.repair(environment) == []
    assert rebooted == ["worker-1"]


def test_a_node_that_does_not_run_stays_to_be_repaired(environment: Environment) -> None:
    broken_nodes.inject(environment, broken("lost-gpu"))
    for _ in range(2):
        with pytest.raises(RehearsalError, match="node worker-1 does not run"):
            broken_nodes.repair(environment)


def test_a_node_may_be_preempted_again(environment: Environment) -> None:
    """The cloud makes an event of its file happen once, so the second one must differ."""
    node = {"name": "worker-1", "index": 4, "arguments": {}}
    group: Any = {"nodegroup": {"nodegroupName": "a100"}, "nodes": [node]}
    Store(environment.root / "cloud").put(NODE_GROUPS, "key", group)
    for _ in range(2):
        broken_nodes.inject(environment, broken("spot-preemption"))
    events = faults.injected(environment)
    assert [(e.pool, e.node) for e in events if isinstance(e, SpotPreemption)] == [("a100", 4)] * 2
    assert len(set(events)) == 2


def test_the_command_offers_exactly_these_faults() -> None:
    assert list(rehearse._FAULTS) == list(broken_nodes.FAULTS)

"""Every situation that a node can be in: what the agent calls it, and how it gets out of it.

docs/reference/agent.md has the same list, for people.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from slicewright import node_agent
from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import REASONS
from slicewright.kubeapi import ApiError
from slicewright.node_agent.watch import Pace
from slicewright.rehearsal.cluster.node.container_runtime import Container
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.clocks import Clocks
from tests.node_agent.one_node import EKS, GKE, STATE, Agent, Api, Node

Change = Callable[[Node], None]
Ends = Literal["by itself", "new container", "reboot"]
"""`new container`: the agent ends its process once, and the kubelet creates another container."""

NO_TOOLKIT = replace(EKS, nvidia_runtime=False)
ADVERTISED = {"nvidia.com/gpu": "4"}


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A change of a node on which all was well, or (`first`) what the first container meets."""

    is_: Change
    reason: str
    says: str
    """In the message of the report."""
    passes: Change
    ends: Ends = "by itself"
    first: bool = False
    kind: Container = EKS
    partitioner: Literal["mig-manager", "gke"] = "mig-manager"


def _inject(call: str, code: int) -> Change:
    return lambda n: state.inject(n.silicon.path, state.Injection(call=call, code=code)) and None


def _health(**values: int) -> Change:
    return lambda n: state.set_health(n.silicon.path, 0, **values) and None


def _all(*changes: Change) -> Change:
    def change(n: Node) -> None:
        for one in changes:
            one(n)

    return change


def _heal(n: Node) -> None:
    state.heal(n.silicon.path)


def _no_driver(n: Node) -> None:
    n.driver_loaded = False


def _driver(n: Node) -> None:
    n.driver_loaded = True
    _heal(n)


def _label(value: str) -> Change:
    def change(n: Node) -> None:
        n.api.labels = {STATE: value}

    return change


def _advertise(**counts: str) -> Change:
    def change(n: Node) -> None:
        n.api.resources = {f"nvidia.com/{name.replace('_', '-')}": c for name, c in counts.items()}

    return change


def _partition(n: Node) -> None:
    n.partition()
    n.api.resources = dict(ADVERTISED)


def _mode(*, on: bool) -> Change:
    def change(n: Node) -> None:
        for index in range(2):
            state.set_mig_mode(n.silicon.path, index, on)
        n.api.resources = {}

    return change


def _pending_mode(n: Node) -> None:
    """As on an A100 that a process uses."""
    _mode(on=False)(n)
    state.change(
        n.silicon.path,
        lambda s: replace(s, gpus=tuple(replace(g, mig_pending=True) for g in s.gpus)),
    )


def _reboot(n: Node) -> None:
    state.heal(n.silicon.path)
    state.reboot(n.silicon.path)
    n.api.boot = "b2"
    _partition(n)


def _second_gpu(*, there: bool) -> Change:
    def change(n: Node) -> None:
        now = state.load(n.silicon.path)
        if not there:
            n.second = now.gpus[1]
            state.change(n.silicon.path, lambda s: replace(s, gpus=s.gpus[:1]))
        else:
            state.change(n.silicon.path, lambda s: replace(s, gpus=(s.gpus[0], n.second)))

    return change


def _lose(n: Node) -> None:
    state.lose(n.silicon.path, 0)


def _recut(*profiles: str) -> Change:
    return lambda n: state.repartition(n.silicon.path, 1, profiles) and None


def _api(error: ApiError | None) -> Change:
    def change(n: Node) -> None:
        n.api.error = error

    return change


def _nothing(n: Node) -> None:
    """What passes passes with the new container alone."""


SITUATIONS: dict[str, Situation] = {
    "before the driver is installed": Situation(
        first=True,
        kind=GKE,
        partitioner="gke",
        is_=_all(_no_driver, _inject("nvmlInit", 12)),
        reason="DriverLibraryMissing",
        says="NVML Shared Library Not Found",
        passes=_all(_driver, _partition),
        ends="new container",
    ),
    "before the driver's kernel module is loaded": Situation(
        first=True,
        kind=GKE,
        partitioner="gke",
        is_=_all(_no_driver, _inject("nvmlInit", 9)),
        reason="DriverNotLoaded",
        says="Driver Not Loaded",
        passes=_all(_driver, _partition),
        ends="new container",
    ),
    "before the container toolkit, driver loaded": Situation(
        first=True,
        kind=NO_TOOLKIT,
        is_=_nothing,
        reason="DeviceNodesOutdated",
        says="found 0 (Driver Not Loaded) in this container and 0 advertised",
        passes=_all(_driver, _partition),
        ends="new container",
    ),
    "before partitioning": Situation(
        first=True,
        is_=_nothing,
        reason="NotPartitioned",
        says="found no MIG",
        passes=_partition,
        ends="new container",
    ),
    "MIG on, not partitioned yet": Situation(
        first=True,
        is_=_mode(on=True),
        reason="NotPartitioned",
        says="found MIG on without any partition",
        passes=_partition,
        ends="new container",
    ),
    "partitioned while the agent runs, and its container cannot see the partitions": Situation(
        first=True,
        is_=_all(_mode(on=True), _advertise(gpu="4")),
        reason="DeviceNodesOutdated",
        says="found 0 in this container and 4 advertised by the kubelet",
        passes=_partition,
        ends="new container",
    ),
    "mig-manager is at work": Situation(
        is_=_all(_label("pending"), _mode(on=False)),
        reason="PartitioningUnderWay",
        says="nvidia.com/mig.config.state pending",
        passes=_all(_partition, _label("success")),
    ),
    "mig-manager reboots the node": Situation(
        is_=_all(_label("rebooting"), _mode(on=False)),
        reason="PartitioningUnderWay",
        says="nvidia.com/mig.config.state rebooting",
        passes=_all(_reboot, _label("success")),
        ends="reboot",
    ),
    "GKE may be partitioning": Situation(
        first=True,
        kind=GKE,
        partitioner="gke",
        is_=_mode(on=False),
        reason="PartitioningUnderWay",
        says="found a driver, and no GPU advertised yet: GKE may still be partitioning the GPUs",
        passes=_partition,
        ends="new container",
    ),
    "partitioned back to whole GPUs, or MIG turned off": Situation(
        is_=_all(_mode(on=False), _advertise(gpu="2")),
        reason="NotPartitioned",
        says="found no MIG",
        passes=_partition,
    ),
    "some partitions are missing": Situation(
        is_=_all(_recut("3g.40gb"), _advertise(gpu="3")),
        reason="LayoutIncomplete",
        says="GPU 1 wanted 3g.40gb x2, found 3g.40gb x1",
        passes=_partition,
    ),
    "partitioned for another layout": Situation(
        first=True,
        is_=_all(_partition, _recut("7g.80gb"), _advertise(gpu="3")),
        reason="WrongLayout",
        says="GPU 1 wanted 3g.40gb x2, found 7g.80gb x1",
        passes=_partition,
        ends="new container",
    ),
    "a change of MIG mode waits for a reset or a reboot": Situation(
        is_=_pending_mode,
        reason="MigModePending",
        says="found MIG off until the next reset, then on",
        passes=_reboot,
        ends="reboot",
    ),
    "a GPU is lost": Situation(
        is_=_lose,
        reason="GpuLost",
        says="GPU 0 wanted",
        passes=_reboot,
        ends="reboot",
    ),
    "a GPU has disappeared from the bus": Situation(
        is_=_second_gpu(there=False),
        reason="WrongGpuCount",
        says="node wanted 2 GPUs, found 1 GPU",
        passes=_all(_second_gpu(there=True), _reboot),
        ends="reboot",
    ),
    "a GPU was added while the agent runs": Situation(
        first=True,
        is_=_all(_partition, _second_gpu(there=False), _advertise(gpu="2")),
        reason="WrongGpuCount",
        says="node wanted 2 GPUs, found 1 GPU",
        passes=_all(_second_gpu(there=True), _partition),
        ends="new container",
    ),
    "a GPU needs a reset": Situation(
        is_=_inject("nvmlDeviceGetMigMode", 16),
        reason="GpuResetRequired",
        says="GPUs 0-1 wanted 3g.40gb x2",
        passes=_heal,
    ),
    "the driver asks for a reset": Situation(
        is_=_health(recovery_action=1),
        reason="GpuResetRequested",
        says="the driver asks to reset the GPU",
        passes=_heal,
    ),
    "a bad memory row cannot be remapped": Situation(
        is_=_health(remap_failed=1),
        reason="RowRemapFailed",
        says="a bad memory row without a spare row",
        passes=_heal,
    ),
    "a reset has removed the partitions": Situation(
        is_=_mode(on=True),
        reason="NotPartitioned",
        says="found MIG on without any partition",
        passes=_partition,
    ),
    "the driver was upgraded while the agent runs": Situation(
        is_=_inject("nvmlInit", 18),
        reason="DeviceNodesOutdated",
        says="version mismatch) in this container and 4 advertised",
        passes=_nothing,
        ends="new container",
    ),
    "the agent's container has lost its devices": Situation(
        is_=Node.reload_daemons,
        reason="DeviceNodesOutdated",
        says="found 0 (Unknown Error) in this container and 4 advertised by the kubelet",
        passes=_nothing,
        ends="new container",
    ),
    "a call of the driver fails for one GPU only": Situation(
        is_=lambda n: (
            state.inject(n.silicon.path, state.Injection(call="nvmlDeviceGetUUID", gpu=1, code=999))
            and None
        ),
        reason="DeviceNodesOutdated",
        says="found 2 (Unknown Error) in this container and 4 advertised by the kubelet",
        passes=_nothing,
        ends="new container",
    ),
    "the driver hangs": Situation(
        is_=_inject("nvmlInit", 10),
        reason="DriverHung",
        says="silent since",
        passes=_heal,
    ),
    "the device plugin does not run": Situation(
        is_=_advertise(),
        reason="ResourcesNotAdvertised",
        says="nvidia.com/gpu wanted 4, found 0",
        passes=_partition,
    ),
    "the device plugin advertises another quantity": Situation(
        is_=_advertise(gpu="2"),
        reason="WrongResources",
        says="nvidia.com/gpu wanted 4, found 2",
        passes=_partition,
    ),
    "the device plugin advertises resources of another layout": Situation(
        is_=_advertise(gpu="4", mig_1g_10gb="7"),
        reason="UnexpectedResources",
        says="nvidia.com/mig-1g-10gb wanted 0, found 7",
        passes=_partition,
    ),
    "the API server does not answer": Situation(
        first=True,
        is_=_all(_partition, _api(ApiError(503, {"message": "no"}))),
        reason="NodeUnreadable",
        says="",
        passes=_api(None),
    ),
}


@pytest.fixture
def node(
    silicon: Callable[..., Any], desired: Desired, clocks: Clocks, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Node:  # fmt: skip
    """Two whole GPUs, and turns far enough apart that the tests need few of them."""
    pace = Pace(quick_s=5, node_every_s=20)
    made = silicon("H100-80", 2)
    return Node(made, Api(), clocks, desired, tmp_path, monkeypatch.setenv, pace=pace)


def _finds(agent: Agent, reason: str, *, turns: int) -> bool:
    """Whether so many turns, at most, come to a reason."""
    for _ in range(turns):
        agent.turns(1)
        if f'slicewright_mismatch{{reason="{reason}"}} 1' in agent.metrics.text:
            return True
    return False


def _matches(agent: Agent, *, turns: int) -> bool:
    for _ in range(turns):
        agent.turns(1)
        if 'slicewright_verdict{verdict="Match"} 1' in agent.metrics.text:
            return True
    return False


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_reported_and_left(name: str, node: Node) -> None:
    it = SITUATIONS[name]
    node.desired = replace(node.desired, partitioner=it.partitioner)
    if it.first:
        it.is_(node)
    else:
        _partition(node)
    with node.container(it.kind, "legacy") as agent:
        if not it.first:
            assert _matches(agent, turns=1)
            it.is_(node)
        assert _finds(agent, it.reason, turns=2), node.api.reports
        assert it.says in node.api.message
        if it.ends != "reboot":
            it.passes(node)
        if it.ends == "by itself":
            # The longest pause after an error of the API server is `node_every_s`.
            assert _matches(agent, turns=6), (node.api.reports, node.api.message)
            assert not agent.stop.is_set()
            return
        if it.ends == "new container":
            agent.turns(20)
            assert node.api.reports[-1] == "DeviceNodesOutdated"
            assert agent.stop.is_set()
        else:
            agent.turns(20)
            assert not agent.stop.is_set(), "no new container sees more before the reboot"
    (it.passes if it.ends == "reboot" else _heal)(node)
    with node.container(EKS if it.kind is NO_TOOLKIT else it.kind, "legacy") as agent:
        assert _matches(agent, turns=2), (node.api.reports, node.api.message)
        agent.turns(30)
        assert not agent.stop.is_set()
        assert node.api.reports[-1] == "PartitionsMatch"


@pytest.mark.parametrize(
    ("is_", "reason"),
    [
        (_all(_partition, _inject("nvmlInit", 18)), "DriverVersionMismatch"),
        (_all(_mode(on=True), _label("failed")), "NotPartitioned"),
    ],
    ids=["the driver was upgraded and the node must reboot", "mig-manager failed"],
)
def test_problem_that_a_new_container_does_not_change_keeps_its_reason(
    is_: Change, reason: str, node: Node
) -> None:
    node.desired = replace(node.desired, partitioner="mig-manager")
    is_(node)
    with node.container(EKS, "legacy") as agent:
        agent.turns(20)
        assert agent.stop.is_set()
    with node.container(EKS, "legacy") as agent:
        agent.turns(30)
        assert not agent.stop.is_set(), "in vain: not again at once"
    assert node.api.reports[-2:] == ["DeviceNodesOutdated", reason]


def test_the_page_has_every_situation_with_its_reason() -> None:
    page = (Path(node_agent.__file__).resolve().parents[1] / "docs/reference/agent.md").read_text()
    section = page.partition("## Situations")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| `(\w+)` \| (.+?) \|", section, re.MULTILINE)
    assert {(name, reason) for name, reason, _ in rows} == {
        (name, it.reason) for name, it in SITUATIONS.items()
    }
    assert {reason for _, reason, _ in rows} <= REASONS.keys()
    for name, _, how in rows:
        assert SITUATIONS[name].ends in how, name

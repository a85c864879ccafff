"""Nodes whose partitions are listed and cannot be used: each is held with a reason of its own, and
released when it is mended; nodes that only look broken are released at once. On GKE and on EKS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.names import NODE_CONDITION
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.silicon import device_rules, fabric, state
from slicewright.rehearsal.cluster.silicon.node_silicon import Injection
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.orders import (
    AGENT,
    WRONG_DEVICES,
    Conductor,
    Damage,
    Order,
    Seen,
    bring_up,
)
from tests.rehearsal.scenario.whole_run.waiting import is_held, until, until_serving_again

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(1500),
    pytest.mark.long(
        "the same faults of one node, with the agent's loop alone: "
        "tests/node_agent/test_unusable_partitions.py"
    ),
]
NO_FABRIC, ONE_OF_MANY = "no Fabric Manager", "a partition that lists and does not compute"
WRONG_DEVICE = "a plugin that hands out other devices"
COLD, LOST = "GPUs that start for 24 s", "a container that loses its devices"
BROKEN = 11
"""Number of the partition that does not compute."""


def break_partition(silicon: Path) -> None:
    gpus = state.load(silicon).gpus
    uuids = [ci.uuid for gpu in gpus for gi in gpu.instances for ci in gi.compute_instances]
    state.inject(silicon, Injection(call="cuCtxSynchronize", code=719, uuid=uuids[BROKEN]))


def make_cold(silicon: Path) -> None:
    for gpu in state.load(silicon).gpus:
        state.set_health(silicon, gpu.index, persistence=0, start_ms=3000)


def agents_of(order: str) -> Holds:
    """Agents, and pods of no name: by its holds a node is known as that of its order."""
    return Holds(pods=(AGENT, f"none: {order}"))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stack and the faults of its nodes."""

    stack: str
    pool: str
    offered: Mapping[str, int]
    late: tuple[str, Damage, tuple[str, ...]]
    """The fault of a node that is released in the end, without a repair: its name, and when it is
    there the names of pods that are held until it is.
    """

    def orders(self) -> Mapping[str, Order]:
        def is_offered(seen: Seen) -> bool:
            return seen.allocatable == self.offered

        name, damage, held = self.late
        if held:
            first = Holds(pods=(*held, AGENT))
            then = [(lambda seen: seen.driver_loaded, None, damage)]
        else:
            first = agents_of(name)
            then = [
                (is_offered, None),
                (lambda seen: seen.reasons[-1:] == ("PartitionsMatch",), None, damage),
            ]
        return {
            NO_FABRIC: Order(
                pool=self.pool,
                node=0,
                first=agents_of(NO_FABRIC),
                then=[(is_offered, None, fabric.stop_fabric_manager)],
            ),
            ONE_OF_MANY: Order(
                pool=self.pool,
                node=1,
                first=agents_of(ONE_OF_MANY),
                then=[(is_offered, None, break_partition)],
            ),
            name: Order(pool=self.pool, node=2, first=first, then=then),
            WRONG_DEVICE: Order(
                pool=self.pool,
                node=3,
                first=agents_of(WRONG_DEVICE),
                then=[(is_offered, WRONG_DEVICES)],
            ),
        }


CASES = [
    Case(
        stack="gke-h100",
        pool="h100-partition-3g",
        offered={"nvidia.com/gpu": 16},
        late=(COLD, make_cold, ("nvidia-gpu-device-plugin",)),
    ),
    Case(
        stack="eks-a100",
        pool="demo-gpu-workers",
        offered={"nvidia.com/mig-1g.5gb": 56},
        late=(LOST, device_rules.reload_daemon, ()),
    ),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.stack)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def environment(case: Case, make_environment: Callable[[str], Environment]) -> Environment:
    environment = make_environment(f"unusable-{case.stack}")
    with edited_fleet(environment.stack_file(case.stack)) as fleet:
        (pool,) = fleet["node_pools"]
        pool["nodes"] = {"count": 4}
        fleet["verification"] = {"pod": True}
        fleet["verify_timeout_minutes"] = 5
    return environment


@pytest.fixture(scope="module")
def conductor(case: Case, environment: Environment) -> Iterator[Conductor]:
    with Conductor(environment, case.orders()) as conductor:
        yield conductor


@pytest.fixture(scope="module")
def up(case: Case, environment: Environment, conductor: Conductor) -> Outcome:
    return bring_up(environment, case.stack)


def node_of(conductor: Conductor, order: str) -> dict[str, Any]:
    return dict(conductor.client.get(f"/api/v1/nodes/{conductor.nodes[order]}"))


def condition_of(node: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = node["status"].get("conditions") or ()
    return next((c for c in conditions if c["type"] == NODE_CONDITION), {})


def test_up_fails_and_names_the_nodes_that_cannot_be_used(
    up: Outcome, conductor: Conductor
) -> None:
    assert conductor.undone == {}, conductor.reasons
    assert up.code != 0
    for order in (NO_FABRIC, ONE_OF_MANY, WRONG_DEVICE):
        assert conductor.nodes[order] in up.output, up.output


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (NO_FABRIC, "FabricNotReady"),
        (ONE_OF_MANY, "PartitionDoesNotCompute"),
        (WRONG_DEVICE, "WrongDeviceAllotted"),
    ],
)
def test_a_node_that_cannot_be_used_is_held_with_its_own_reason(
    order: str, reason: str, up: Outcome, conductor: Conductor
) -> None:
    node = node_of(conductor, order)
    assert is_held(node)
    assert condition_of(node)["reason"] == reason


def test_only_the_pod_finds_a_wrong_device(up: Outcome, conductor: Conductor) -> None:
    reasons = {order: conductor.reasons_of(order) for order in conductor.nodes}
    assert reasons[WRONG_DEVICE][-1] == "PartitionsMatch"
    assert "PartitionsMatch" not in reasons[NO_FABRIC] + reasons[ONE_OF_MANY]


def test_the_message_names_the_partition(up: Outcome, conductor: Conductor) -> None:
    gpus = state.load(conductor.silicon(ONE_OF_MANY)).gpus
    uuids = [ci.uuid for gpu in gpus for gi in gpu.instances for ci in gi.compute_instances]
    message = condition_of(node_of(conductor, ONE_OF_MANY))["message"]
    assert uuids[BROKEN] in message
    assert "CUDA_ERROR_LAUNCH_FAILED (719)" in message


def test_a_node_that_only_looks_broken_is_released(
    case: Case, up: Outcome, conductor: Conductor
) -> None:
    name = case.late[0]
    until(lambda: not is_held(node_of(conductor, name)), f"{name}: released")
    assert "DriverHung" not in conductor.reasons_of(name)


def test_a_container_without_devices_ends_once_and_the_next_one_matches(
    case: Case, up: Outcome, conductor: Conductor
) -> None:
    if LOST not in conductor.nodes:
        assert case.stack == "gke-h100", "there the agent is privileged, and keeps its devices"
        return
    until(
        lambda: conductor.reasons_of(LOST)[-2:] == ["DeviceNodesOutdated", "PartitionsMatch"],
        "the next container matches",
    )
    assert conductor.own_ends(LOST) == conductor.agent(LOST)["restartCount"] == 1


def test_a_mended_node_is_released(
    case: Case, environment: Environment, up: Outcome, conductor: Conductor
) -> None:
    mends: Mapping[str, Callable[[Path], object]] = {
        NO_FABRIC: fabric.start_fabric_manager,
        ONE_OF_MANY: state.heal,
        WRONG_DEVICE: lambda _: None,
    }
    faults.hold(conductor.client, conductor.nodes[WRONG_DEVICE], None)
    boots = {}
    for order, mend in mends.items():
        node = node_of(conductor, order)
        boots[node["metadata"]["name"]] = node["status"]["nodeInfo"]["bootID"]
        mend(conductor.silicon(order))
        # A proof is tried again after five minutes, or after a reboot.
        faults.reboot(environment, node["metadata"]["name"])
    for name, boot in boots.items():
        until_serving_again(conductor.client, name, boot)

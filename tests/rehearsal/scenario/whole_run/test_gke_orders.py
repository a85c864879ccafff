"""gke-h100 with four nodes, on each of which driver, partitioning and agent come in another
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.whole_run.orders import (
    AGENT,
    Conductor,
    Order,
    bring_up,
    check_all_verified,
    check_ended,
    check_said,
)

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "gke-h100 in the usual order; the others, with agents alone: "
        "tests/rehearsal/scenario/whole_run/test_gke_fleet.py and "
        "tests/node_agent/test_watch_renewal.py"
    ),
]
POOL = "h100-partition-3g"
_WAITED = ["PartitioningUnderWay", "DeviceNodesOutdated"]
PLUGIN = "nvidia-gpu-device-plugin"
"""It partitions, then advertises."""
ORDERS = {
    "the driver comes a minute late": Order(
        pool=POOL,
        node=0,
        first=Holds(driver=True),
        then=[
            (
                lambda seen: (
                    seen.reasons[-1:] == ("DriverLibraryMissing",) and seen.joined_s_ago >= 60
                ),
                None,
            )
        ],
    ),
    "the agent reports before the partitioning": Order(
        pool=POOL,
        node=1,
        # An agent that starts before GKE's driver is there has another story: the first one.
        first=Holds(pods=(PLUGIN, AGENT)),
        then=[
            (lambda seen: seen.driver_loaded, Holds(pods=(PLUGIN,))),
            (lambda seen: seen.reasons[-1:] == ("PartitioningUnderWay",), None),
        ],
    ),
    "the agent starts during the partitioning": Order(
        pool=POOL,
        node=2,
        first=Holds(pods=(AGENT,), partitioning_from=4),
        then=[
            (lambda seen: seen.cut_up_to_gpu_4, Holds(partitioning_from=4)),
            (lambda seen: seen.reasons[-1:] == ("PartitioningUnderWay",), None),
        ],
    ),
    "the agent starts after the partitioning": Order(
        pool=POOL,
        node=3,
        first=Holds(pods=(AGENT,)),
        then=[(lambda seen: seen.allocatable == {"nvidia.com/gpu": 16}, None)],
    ),
}


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Environment]) -> Environment:
    environment = make_environment("s0-orders")
    stack_file = environment.stack_file("gke-h100")
    text = stack_file.read_text()
    assert text.count("nodes: { count: 1 }") == 1
    text = text.replace("nodes: { count: 1 }", "nodes: { count: 4 }")
    # So that a node that hangs ends the run with a message.
    stack_file.write_text(
        text.replace("    cloud: gke\n", "    cloud: gke\n    verify_timeout_minutes: 5\n")
    )
    return environment


@pytest.fixture(scope="module")
def conductor(environment: Environment) -> Iterator[Conductor]:
    with Conductor(environment, ORDERS) as conductor:
        yield conductor


@pytest.fixture(scope="module")
def up(environment: Environment, conductor: Conductor) -> Outcome:
    return bring_up(environment, "gke-h100")


def test_every_node_is_verified_without_a_human(up: Outcome, conductor: Conductor) -> None:
    check_all_verified("gke-h100", up, conductor, nodes=4)


@pytest.mark.parametrize(
    ("order", "own_ends"),
    [
        ("the driver comes a minute late", 1),
        ("the agent reports before the partitioning", 1),
        ("the agent starts during the partitioning", 1),
        ("the agent starts after the partitioning", 0),
    ],
)
def test_the_agent_ended_by_itself_once_per_event(
    up: Outcome, conductor: Conductor, order: str, own_ends: int
) -> None:
    check_ended(conductor, order, own_ends)


@pytest.mark.parametrize(
    ("order", "reasons"),
    [
        ("the driver comes a minute late", ["DriverLibraryMissing", "DeviceNodesOutdated"]),
        ("the agent reports before the partitioning", _WAITED),
        ("the agent starts during the partitioning", _WAITED),
        ("the agent starts after the partitioning", []),
    ],
)
def test_agent_reported_the_situation(
    up: Outcome, conductor: Conductor, order: str, reasons: list[str]
) -> None:
    check_said(conductor, order, reasons)

"""eks-a100 and a pool of H100, under both modes of NVIDIA's container runtime: on each node
mig-manager and the agent come in another order.

An A100 takes its MIG mode by a reboot, which restarts the agent too; an H100 does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.node import container_runtime
from slicewright.rehearsal.scenario.engine_runs import Outcome
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
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
        "eks-a100 in the usual order; the others, with agents alone: "
        "tests/rehearsal/scenario/whole_run/test_eks_fleet.py and "
        "tests/node_agent/test_watch_renewal.py"
    ),
]
A100, H100 = "demo-gpu-workers", "h100-workers"
MIG_MANAGER = "nvidia-mig-manager"
BEFORE_A100 = "A100: the agent reports before mig-manager starts, and starts again during its work"
AFTER_A100 = "A100: the agent starts after the partitioning"
BEFORE_H100 = "H100: the agent reports before mig-manager starts"
DURING_H100 = "H100: the agent starts during the partitioning, the toolkit late"
ORDERS = {
    BEFORE_A100: Order(
        pool=A100,
        node=0,
        first=Holds(pods=(MIG_MANAGER,)),
        then=[
            (lambda seen: seen.reasons[-1:] == ("NotPartitioned",), Holds(partitioning_from=4)),
            (
                lambda seen: (
                    seen.cut_up_to_gpu_4
                    and seen.agent_runs
                    and seen.agent is not None
                    and seen.agent["restartCount"] >= 1
                ),
                None,
            ),
        ],
    ),
    AFTER_A100: Order(
        pool=A100,
        node=1,
        first=Holds(pods=(AGENT,)),
        then=[(lambda seen: seen.allocatable == {"nvidia.com/mig-1g.5gb": 56}, None)],
    ),
    BEFORE_H100: Order(
        pool=H100,
        node=0,
        first=Holds(pods=(MIG_MANAGER,)),
        then=[(lambda seen: seen.reasons[-1:] == ("NotPartitioned",), None)],
    ),
    DURING_H100: Order(
        pool=H100,
        node=1,
        first=Holds(toolkit=True, pods=(AGENT,), partitioning_from=4),
        then=[
            # Nothing that needs NVIDIA's runtime starts, mig-manager neither.
            (
                lambda seen: seen.agent is not None and not seen.agent_runs,
                Holds(pods=(AGENT,), partitioning_from=4),
            ),
            (lambda seen: seen.cut_up_to_gpu_4, Holds(partitioning_from=4)),
            (lambda seen: seen.reasons[-1:] == ("PartitioningUnderWay",), None),
        ],
    ),
}


@pytest.fixture(scope="module", params=["legacy", "cdi"])
def environment(
    request: pytest.FixtureRequest, make_environment: Callable[[str], Environment]
) -> Iterator[Environment]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(container_runtime.VARIABLE, request.param)
        environment = make_environment(f"s1-{request.param}")
        with edited_fleet(environment.stack_file("eks-a100")) as fleet:
            (a100,) = fleet["node_pools"]
            a100["nodes"] = {"count": 2}
            h100 = {
                **a100,
                "name": H100,
                "machine_type": "p5.48xlarge",
                "partition": {"mode": "operator", "layout": {"3g.40gb": 2}},
            }
            fleet["node_pools"] = [a100, h100]
            # Where both machine types are.
            fleet["cluster"] |= {"region": "us-west-2", "zones": ["us-west-2a", "us-west-2b"]}
            # A stopped kubelet starts no agent during the partitioning.
            fleet["gpu_operator"]["mig_manager"]["stop_kubelet"] = False
            # So that a node that hangs ends the run with a message.
            fleet["verify_timeout_minutes"] = 6
        yield environment


@pytest.fixture(scope="module")
def conductor(environment: Environment) -> Iterator[Conductor]:
    with Conductor(environment, ORDERS) as conductor:
        yield conductor


@pytest.fixture(scope="module")
def up(environment: Environment, conductor: Conductor) -> Outcome:
    return bring_up(environment, "eks-a100")


def test_every_node_is_verified_without_a_human(up: Outcome, conductor: Conductor) -> None:
    check_all_verified("eks-a100", up, conductor, nodes=4)


@pytest.mark.parametrize(
    ("order", "own_ends", "reboots"),
    [(BEFORE_A100, 1, 1), (AFTER_A100, 0, 0), (BEFORE_H100, 1, 0), (DURING_H100, 1, 0)],
)
def test_the_agent_ended_by_itself_once_per_event(
    up: Outcome, conductor: Conductor, order: str, own_ends: int, reboots: int
) -> None:
    """After the A100's reboot, which ends the agent's container too, its first one is of before."""
    check_ended(conductor, order, own_ends, reboots=reboots)


@pytest.mark.parametrize(
    ("order", "reasons"),
    [
        (BEFORE_A100, ["NotPartitioned", "PartitioningUnderWay", "DeviceNodesOutdated"]),
        (AFTER_A100, []),
        (BEFORE_H100, ["NotPartitioned", "PartitioningUnderWay", "DeviceNodesOutdated"]),
        (DURING_H100, ["PartitioningUnderWay", "DeviceNodesOutdated"]),
    ],
)
def test_agent_reported_the_situation(
    up: Outcome, conductor: Conductor, order: str, reasons: list[str]
) -> None:
    check_said(conductor, order, reasons)

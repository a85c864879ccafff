"""A held node of 56 partitions that are listed and cannot be used: the agent's loop with its proofs
over the simulated driver, in containers as NVIDIA's runtime makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu
from slicewright.apis.names import STARTUP_TAINT
from slicewright.rehearsal.cluster.silicon import device_nodes, fabric, state
from slicewright.rehearsal.cluster.silicon.node_silicon import Injection
from tests.node_agent.clocks import Clocks
from tests.node_agent.conftest import H100, Silicon
from tests.node_agent.one_node import EKS, Api, Node

COMPUTES = replace(EKS, env={**EKS.env, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"})
ONLY_LISTS = replace(EKS, env={**EKS.env, "NVIDIA_DRIVER_CAPABILITIES": "utility"})
SEVENTHS = ["1g.10gb"] * 7
RETRY_S = 300.0
Change = Callable[[Path], object]


@dataclass
class HeldApi(Api):
    """The Node has the startup taint."""

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return {**super().get(path, **query), "spec": {"taints": [dict(STARTUP_TAINT)]}}


@pytest.fixture
def make(
    silicon: Callable[..., Silicon],
    driver_libraries: Path,
    clocks: Clocks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Node]:
    """`make(SEVENTHS)`: eight H100, each partitioned so; without: eight whole GPUs."""

    def node(profiles: list[str] | None = None) -> Node:
        made = silicon("H100-80", 8, "580.65.06")
        for index in range(8 if profiles else 0):
            state.repartition(made.path, index, profiles or [])
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_libraries))
        monkeypatch.setenv(state.VARIABLE, str(made.path))
        resource = "nvidia.com/mig-1g.10gb" if profiles else "nvidia.com/gpu"
        count = 8 * len(profiles or ["whole"])
        desired = Desired(
            pool="p",
            partitioner="mig-manager" if profiles else "none",
            gpu_count=8,
            gpu_models=(H100,),
            gpus=(
                DesiredGpu(
                    index="all",
                    mig=bool(profiles),
                    instances={"1g.10gb": len(profiles)} if profiles else {},
                ),
            ),
            resources={resource: count},
        )
        library = Silicon(made.path, driver_libraries / "libnvidia-ml.so.1")
        api = HeldApi(resources={resource: str(count)})
        return Node(library, api, clocks, desired, tmp_path, monkeypatch.setenv)

    return node


def uuids_of(node: Node) -> list[str]:
    gpus = state.load(node.silicon.path).gpus
    return [ci.uuid for gpu in gpus for gi in gpu.instances for ci in gi.compute_instances]


def test_every_partition_computes_before_the_node_matches(make: Callable[..., Node]) -> None:
    node = make(SEVENTHS)
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
    assert node.api.reports == ["PartitionsMatch"]


@pytest.mark.parametrize(
    ("damage", "mend", "reason", "says"),
    [
        (
            fabric.stop_fabric_manager,
            fabric.start_fabric_manager,
            "FabricNotReady",
            "CUDA_ERROR_SYSTEM_NOT_READY (802)",
        ),
        (
            lambda path: state.inject(
                path, Injection(call="cuDevicePrimaryCtxRetain", code=46, gpu=5)
            ),
            state.heal,
            "ComputeModeWrong",
            "GPU 5 wanted CUDA to compute, found CUDA_ERROR_DEVICE_UNAVAILABLE (46)",
        ),
        (
            lambda path: state.inject(path, Injection(call="cuInit", code=803)),
            state.heal,
            "DeviceNodesOutdated",
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
        ),
    ],
    ids=[
        "no Fabric Manager",
        "partitions of a GPU are somebody else's",
        "libcuda of another driver",
    ],
)
def test_a_node_that_lists_well_is_held_until_it_is_mended(
    damage: Change, mend: Change, reason: str, says: str, make: Callable[..., Node]
) -> None:
    node = make(SEVENTHS)
    damage(node.silicon.path)
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
        assert node.api.reports == [reason]
        assert says in node.api.message
        mend(node.silicon.path)
        node.clocks.sleep(RETRY_S)
        agent.turns(40)
    assert node.api.reports == [reason, "PartitionsMatch"]


def test_the_one_partition_of_56_that_does_not_compute_is_named(
    make: Callable[..., Node],
) -> None:
    node = make(SEVENTHS)
    broken = uuids_of(node)[37]
    state.inject(node.silicon.path, Injection(call="cuCtxSynchronize", code=719, uuid=broken))
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
        assert node.api.reports == ["PartitionDoesNotCompute"]
        assert f"GPU 5 wanted CUDA to compute, found {broken}: " in node.api.message
        state.heal(node.silicon.path)
        node.clocks.sleep(RETRY_S)
        agent.turns(40)
    assert node.api.reports == ["PartitionDoesNotCompute", "PartitionsMatch"]


@pytest.mark.parametrize("mode", [2, 3])
def test_a_whole_gpu_in_a_wrong_compute_mode_is_held(mode: int, make: Callable[..., Node]) -> None:
    node = make()
    state.set_health(node.silicon.path, 3, compute_mode=mode)
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
        assert node.api.reports == ["ComputeModeWrong"]
        state.set_health(node.silicon.path, 3, compute_mode=0)
        agent.turns(40)
    assert node.api.reports == ["ComputeModeWrong", "PartitionsMatch"]


def test_a_container_from_before_cudas_memory_manager_ends_and_the_next_one_computes(
    make: Callable[..., Node],
) -> None:
    """NVML answers in it, and only CUDA does not: no finding about the node."""
    node = make(SEVENTHS)
    older = node.container(COMPUTES, "legacy", computes=True, without=device_nodes.UVM)
    with older as agent:
        agent.turns(200)
        assert agent.stop.is_set()
    assert node.api.reports == ["DeviceNodesOutdated"]
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
    assert node.api.reports == ["DeviceNodesOutdated", "PartitionsMatch"]


def test_a_container_that_loses_its_devices_before_its_proof_accuses_no_partition(
    make: Callable[..., Node],
) -> None:
    node = make(SEVENTHS)
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
        node.reload_daemons()
        agent.turns(200)
        assert agent.stop.is_set()
    with node.container(COMPUTES, "legacy", computes=True) as agent:
        agent.turns(2)
    assert node.api.reports == ["PartitionsMatch", "DeviceNodesOutdated", "PartitionsMatch"]


def test_by_cdi_a_container_keeps_its_devices(make: Callable[..., Node]) -> None:
    node = make(SEVENTHS)
    with node.container(ONLY_LISTS, "cdi", computes=True) as agent:
        agent.turns(2)
        node.reload_daemons()
        agent.turns(20)
        assert not agent.stop.is_set()
    assert node.api.reports == ["PartitionsMatch"]

"""Which devices a proof takes, and whose work it would disturb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from slicewright.node_agent.compute.occupancy import devices_of, occupants
from slicewright.node_agent.nvml.observed import TIMED_OUT, Failure, MigDevice, Observation

Half = Callable[[int], MigDevice]


def with_processes(right: Observation, *processes: tuple[int, ...] | None) -> Observation:
    """Two GPUs in MIG mode, with these processes on the partitions of both."""
    gpus = tuple(
        replace(
            gpu, devices=tuple(replace(device, processes=processes[0]) for device in gpu.devices)
        )
        for gpu in right.gpus
    )
    return replace(right, gpus=gpus)


def test_partitions_are_taken_instead_of_their_gpu(right: Observation) -> None:
    whole = replace(right.gpus[1], mig="disabled", devices=())
    observation = replace(right, gpus=(right.gpus[0], whole))
    assert devices_of(observation) == {"GPU-0": ("MIG-1", "MIG-2"), "GPU-1": ("GPU-1",)}


def test_a_process_is_named_once_per_gpu_and_not_if_it_is_excluded(right: Observation) -> None:
    busy = with_processes(right, (7, 8))
    assert occupants(busy, excluded=frozenset({7})) == [
        "GPU 0 is in use by process 8",
        "GPU 1 is in use by process 8",
    ]
    assert occupants(with_processes(right, ())) == []


def test_what_the_driver_does_not_list_is_in_the_way(right: Observation) -> None:
    assert occupants(with_processes(right, None)) == [
        "the driver does not list the processes of GPU 0",
        "the driver does not list the processes of GPU 1",
    ]
    silent = Observation(failure=Failure(call="probe", code=TIMED_OUT, text="no answer"))
    assert occupants(silent) == ["the driver does not answer: no answer"]

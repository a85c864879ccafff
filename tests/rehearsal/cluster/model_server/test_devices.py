"""Which device a replica finds, and how many tokens it makes there."""

from __future__ import annotations

import pytest

from slicewright.node_agent.nvml.observed import (
    Engines,
    Failure,
    MigDevice,
    Observation,
    ObservedGpu,
)
from slicewright.node_agent.nvml.observed import OfferedProfile as Offered
from slicewright.rehearsal.cluster.model_server.devices import (
    Device,
    NoDevice,
    devices,
    replica_devices,
)
from slicewright.rehearsal.cluster.model_server.devices import tokens_per_second as rate

NONE = Engines(decoders=0, encoders=0, jpeg=0, ofa=0)


def partition(uuid: str, multiprocessors: int) -> MigDevice:
    return MigDevice(
        uuid=uuid,
        gpu_instance=1,
        compute_instance=0,
        gpu_slices=3,
        compute_slices=3,
        memory_mib=40448,
        multiprocessors=multiprocessors,
        engines=NONE,
        name=f"NVIDIA H100 80GB HBM3 MIG {uuid}",
    )


def cut(index: int, *partitions: MigDevice) -> ObservedGpu:
    return ObservedGpu(index=index, uuid=f"GPU-{index}", mig="enabled", devices=partitions)


def whole(index: int, multiprocessors: int) -> ObservedGpu:
    offered = Offered(
        id=0,
        name="7g.80gb",
        suffix="",
        slices=7,
        memory_mib=81000,
        multiprocessors=multiprocessors,
        engines=NONE,
    )
    return ObservedGpu(index=index, uuid=f"GPU-{index}", mig="disabled", offered=(offered,))


def found(*gpus: ObservedGpu) -> tuple[Device, ...]:
    return devices(Observation(gpus=gpus))


def test_a_process_finds_the_first_partition_and_no_other() -> None:
    (one,) = found(cut(0, partition("MIG-a", 60), partition("MIG-b", 60)), whole(1, 132))
    assert (one.uuid, one.multiprocessors, one.memory_mib) == ("MIG-a", 60, 40448)


def test_whole_gpus_are_all_found() -> None:
    assert [one.uuid for one in found(whole(0, 132), whole(1, 132))] == ["GPU-0", "GPU-1"]


@pytest.mark.parametrize("gpus", [(), (cut(0),)])
def test_missing_device_gives_pytorchs_message(gpus: tuple[ObservedGpu, ...]) -> None:
    with pytest.raises(NoDevice, match="RuntimeError: No CUDA GPUs are available"):
        found(*gpus)


def test_missing_driver_gives_vllms_message() -> None:
    failure = Failure(call="nvmlInit_v2", code=9, text="Driver Not Loaded")
    with pytest.raises(NoDevice, match=r"Failed to infer device type \(Driver Not Loaded"):
        devices(Observation(failure=failure))


def test_a_replica_over_several_devices_needs_that_many() -> None:
    two = found(whole(0, 132), whole(1, 132))
    assert replica_devices(two, 2) == two
    with pytest.raises(NoDevice, match=r"tensor_parallel_size \(2\) to less than max local gpu"):
        replica_devices(found(cut(0, partition("MIG-a", 60))), 2)


def test_tokens_follow_the_multiprocessors_of_a_partition() -> None:
    small, half = found(cut(0, partition("a", 16))), found(cut(0, partition("b", 60)))
    assert rate(half) / rate(small) == pytest.approx(60 / 16)


def test_sixteen_halves_make_twice_the_tokens_of_eight_whole_gpus_by_construction() -> None:
    """As the walkthrough reports: a replica does not fill more than half an H100."""
    half, all_of_it = found(cut(0, partition("a", 60))), found(whole(0, 132))
    assert 16 * rate(half) == 2 * 8 * rate(all_of_it)

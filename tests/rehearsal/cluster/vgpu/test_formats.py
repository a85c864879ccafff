"""What the simulated device plugins write, as the schedulers read it."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.node_agent.nvml.observed import Failure, Observation, ObservedGpu
from slicewright.rehearsal.cluster.vgpu import allocation, volcano
from slicewright.rehearsal.cluster.vgpu.allocation import Refused
from slicewright.rehearsal.cluster.vgpu.cards import Card, Share, Sharing, cards_of, with_health

T4 = "Tesla T4"
CARDS = tuple(Card(index=i, uuid=f"GPU-{i}", model=T4, memory_mib=15360) for i in range(2))


def test_volcanos_plugin_registers_each_card_with_six_fields() -> None:
    (text,) = volcano.VOLCANO.registration(CARDS, Sharing()).values()
    assert text == "".join(f"GPU-{i},10,15360,NVIDIA-Tesla T4,true,hami-core:" for i in (0, 1))


def test_a_memory_factor_makes_fewer_units_of_the_same_memory() -> None:
    sharing = Sharing(memory_factor=4, shares_per_card=3)
    devices = volcano.VOLCANO.devices(CARDS, sharing)
    assert {resource: len(ids) for resource, ids in devices.items()} == {
        volcano.NUMBER: 6,
        volcano.MEMORY: 2 * 3840,
        volcano.CORES: 200,
    }
    (text,) = volcano.VOLCANO.registration(CARDS, sharing).values()
    assert text.split(",")[2] == "3840"
    share = Share(uuid="GPU-0", memory_units=1536, compute_percent=80)
    variables = allocation.environment([share], sharing.memory_factor)
    assert variables["CUDA_DEVICE_MEMORY_LIMIT_0"] == "6144m"


def test_promised_memory_is_registered_with_its_scaling() -> None:
    config = "nvidia: {deviceSplitCount: 4, deviceMemoryScaling: 1.5, gpuMemoryFactor: 2}"
    sharing = volcano.VOLCANO.sharing({"data": {"device-config.yaml": config}})
    assert sharing == Sharing(shares_per_card=4, memory_factor=2, memory_scaling=1.5)
    assert sharing.memory_units(CARDS[0]) == 11520
    assert volcano.VOLCANO.sharing({}) == Sharing()


def test_a_card_that_cannot_be_read_any_more_stays_unhealthy() -> None:
    def gpu(index: int, failure: Failure | None = None) -> ObservedGpu:
        return ObservedGpu(
            index=index, uuid=f"GPU-{index}", model=T4, memory_mib=15360, failure=failure
        )

    both = Observation(gpus=(gpu(0), gpu(1)))
    cards = cards_of(both)
    assert cards == CARDS
    lost = Failure(call="nvmlDeviceGetMemoryInfo", code=15, text="GPU is lost")
    after = with_health(cards, Observation(gpus=(gpu(0), gpu(1, lost))))
    assert [card.healthy for card in after] == [True, False]
    assert with_health(after, both) == after
    assert not any(card.healthy for card in with_health(cards, Observation(failure=lost)))
    devices = volcano.VOLCANO.devices(after, Sharing())
    assert {len([h for h in ids.values() if h]) for ids in devices.values()} == {10, 15360, 100}


def placed(text: str, at: int = 1, node: str = "n", phase: str = "allocating") -> dict[str, Any]:
    keys = volcano.VOLCANO.keys
    annotations = {keys.to_allocate: text, keys.node: node, keys.time: str(at), keys.phase: phase}
    return {
        "metadata": {"name": f"pod-{at}", "namespace": "d", "annotations": annotations},
        "status": {"phase": "Pending"},
    }


def test_the_pod_that_was_placed_first_gets_its_cards_first() -> None:
    pods = [
        placed("GPU-0,NVIDIA,1,1:", at=5),
        placed("GPU-1,NVIDIA,1,1:", at=3),
        placed("GPU-1,NVIDIA,1,1:", at=1, phase="success"),
        placed("GPU-1,NVIDIA,1,1:", at=2, node="other"),
    ]
    assert allocation.pending_pod(pods, "n", volcano.VOLCANO) is pods[1]
    with pytest.raises(Refused, match="cannot get valid pod"):
        allocation.pending_pod(pods, "third", volcano.VOLCANO)


def test_each_container_gets_its_shares_and_the_last_one_ends_the_allocation() -> None:
    pod = placed("GPU-0,NVIDIA,2048,20:GPU-1,NVIDIA,2048,20:;GPU-0,NVIDIA,1024,10:")
    first = allocation.allocate(pod, 2, volcano.VOLCANO)
    assert allocation.environment(first.shares, 1) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "2048m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2048m",
        "CUDA_DEVICE_SM_LIMIT": "20",
    }
    keys = volcano.VOLCANO.keys
    assert dict(first.annotations) == {keys.to_allocate: ";GPU-0,NVIDIA,1024,10:"}
    pod["metadata"]["annotations"] |= first.annotations
    second = allocation.allocate(pod, 1, volcano.VOLCANO)
    assert dict(second.annotations) == {keys.to_allocate: ";", keys.phase: "success"}


def test_another_number_of_cards_than_the_scheduler_chose_is_refused() -> None:
    pod = placed("GPU-0,NVIDIA,2048,20:")
    with pytest.raises(Refused, match="device number not matched"):
        allocation.allocate(pod, 2, volcano.VOLCANO)
    with pytest.raises(Refused, match="device request not found"):
        allocation.allocate(placed(";"), 1, volcano.VOLCANO)

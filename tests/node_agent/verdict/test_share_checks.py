"""What an engine for fractions has registered, compared with NVML: cards, amounts, health."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.desired_state import Desired, DesiredGpu, DesiredShares
from slicewright.node_agent.cluster import node as node_file
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Failure, Observation, ObservedGpu
from slicewright.node_agent.verdict.verify import verify

T4 = "Tesla T4"
MIB = 15109
"""As NVML gives it with ECC: the catalog's 15360 would never match."""


def registered(**changes: Any) -> list[dict[str, Any]]:
    """The entries of both cards; `changes` are made to the second one."""
    cards = [
        {
            "id": f"GPU-{i}",
            "count": 10,
            "devmem": MIB,
            "devcore": 100,
            "health": True,
            "mode": "hami-core",
        }
        for i in range(2)
    ]
    cards[1] |= changes
    return cards


def written(engine: str, cards: list[dict[str, Any]]) -> str:
    if engine == "hami":
        return json.dumps(cards)
    return "".join(
        f"{c['id']},{c['count']},{c['devmem']},NVIDIA-{T4},{str(c['health']).lower()},{c['mode']}:"
        for c in cards
    )


ANNOTATIONS = {"hami": "hami.io/node-nvidia-register", "volcano": "volcano.sh/node-vgpu-register"}
RESOURCES: Mapping[str, Mapping[str, int]] = {
    "hami": {"nvidia.com/gpu": 20},
    "volcano": {"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-cores": 200},
}
MEMORY: Mapping[str, Mapping[str, int]] = {
    "hami": {},
    "volcano": {"volcano.sh/vgpu-memory": 2 * MIB},
}


def wanted(engine: Any, **shares: Any) -> Desired:
    return Desired(
        pool="shared",
        partitioner="none",
        gpu_count=2,
        gpu_models=(T4,),
        gpus=(DesiredGpu(index="all", mig=False),),
        resources=RESOURCES[engine],
        shares=DesiredShares(engine=engine, slots=10, **shares),
    )


GPUS = tuple(
    ObservedGpu(
        index=i, uuid=f"GPU-{i}", model=T4, memory_mib=MIB, mig="disabled", mig_pending="disabled"
    )
    for i in range(2)
)


def node(engine: str, text: str | None, *, more: Mapping[str, int] | None = None) -> NodeState:
    resources = {**RESOURCES[engine], **MEMORY[engine], **(more or {})}
    return NodeState(
        name="n1",
        uid="u1",
        boot_id="b1",
        capacity=resources,
        allocatable=resources,
        registrations={} if text is None else {ANNOTATIONS[engine]: text},
    )


ENGINES = pytest.mark.parametrize("engine", ["hami", "volcano"])


@ENGINES
def test_a_node_matches_once_the_engine_has_registered_what_nvml_shows(engine: str) -> None:
    text = written(engine, registered())
    verdict = verify(wanted(engine), Observation(gpus=GPUS), node(engine, text))
    assert (verdict.verdict, verdict.reason) == ("Match", "PartitionsMatch"), verdict.message


@ENGINES
@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"id": "GPU-other"}, "CardsNotRegistered", "GPU 1 wanted card GPU-1"),
        ({"devmem": MIB - 1000}, "CardsRegisteredWrong", f"{MIB - 1000} MiB"),
        ({"devmem": MIB * 2}, "CardsRegisteredWrong", f"{MIB * 2} MiB"),
        ({"count": 4}, "CardsRegisteredWrong", "4 containers"),
        ({"mode": "mig"}, "CardsRegisteredWrong", "mode mig"),
        ({"health": False}, "CardUnhealthy", "GPU 1"),
    ],
)
def test_a_wrong_registration_is_named_card_by_card(
    engine: str, changes: dict[str, Any], reason: str, words: str
) -> None:
    text = written(engine, registered(**changes))
    verdict = verify(wanted(engine), Observation(gpus=GPUS), node(engine, text))
    assert (verdict.verdict, verdict.reason) == ("Mismatch", reason)
    assert words in verdict.message


@ENGINES
def test_a_node_without_a_registration_is_never_a_match(engine: str) -> None:
    verdict = verify(wanted(engine), Observation(gpus=GPUS), node(engine, None))
    assert verdict.reason == "CardsNotRegistered"
    assert ANNOTATIONS[engine] in verdict.message


@ENGINES
@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", "GPU-0,10,15109,NVIDIA-T4,true:", "a:b:c"])
def test_an_unreadable_registration_is_never_a_match(engine: str, text: str) -> None:
    verdict = verify(wanted(engine), Observation(gpus=GPUS), node(engine, text))
    assert verdict.verdict == "Mismatch"
    assert verdict.reason in ("CardsNotRegistered", "CardsRegisteredWrong")


@ENGINES
def test_a_card_that_nvml_does_not_show_is_named(engine: str) -> None:
    cards = [*registered(), {**registered()[0], "id": "GPU-gone"}]
    verdict = verify(wanted(engine), Observation(gpus=GPUS), node(engine, written(engine, cards)))
    assert verdict.reason == "CardsRegisteredWrong"
    assert "GPU-gone" in verdict.message


@pytest.mark.parametrize(
    ("engine", "more"),
    [
        ("volcano", {"nvidia.com/gpu": 2}),
        ("hami", {"volcano.sh/vgpu-number": 20}),
        ("hami", {"nvidia.com/mig-1g.5gb": 7}),
    ],
)
def test_no_other_device_plugin_advertises_on_a_node_with_shares(
    engine: str, more: dict[str, int]
) -> None:
    text = written(engine, registered())
    verdict = verify(wanted(engine), Observation(gpus=GPUS), node(engine, text, more=more))
    assert verdict.reason == "AnotherDevicePlugin"
    (resource,) = more
    assert resource in verdict.message


def test_volcanos_memory_must_be_the_cards_memory_in_its_unit() -> None:
    text = written("volcano", registered())
    for quantity, reason in ((2 * MIB, "PartitionsMatch"), (MIB, "CardsRegisteredWrong")):
        seen = node("volcano", text, more={"volcano.sh/vgpu-memory": quantity})
        verdict = verify(wanted("volcano"), Observation(gpus=GPUS), seen)
        assert verdict.reason == reason, verdict.message


def test_memory_that_the_kubelet_dropped_is_named_with_the_resource() -> None:
    """Above some 60,000 devices of a resource, it advertises none."""
    text = written("volcano", registered())
    seen = node("volcano", text, more={"volcano.sh/vgpu-memory": 0})
    verdict = verify(wanted("volcano"), Observation(gpus=GPUS), seen)
    assert verdict.reason == "CardsRegisteredWrong"
    assert "volcano.sh/vgpu-memory" in verdict.message


def test_amounts_in_units_and_oversubscription_are_what_was_declared() -> None:
    scaled = MIB // 2 * 150 // 100
    cards = [{**card, "devmem": scaled} for card in registered()]
    text = written("volcano", cards)
    seen = node("volcano", text, more={"volcano.sh/vgpu-memory": 2 * scaled})
    shares = {"memory_unit_mib": 2, "memory_percent": 150}
    verdict = verify(wanted("volcano", **shares), Observation(gpus=GPUS), seen)
    assert verdict.reason == "PartitionsMatch", verdict.message
    undeclared = verify(wanted("volcano", memory_unit_mib=2), Observation(gpus=GPUS), seen)
    assert undeclared.reason == "CardsRegisteredWrong"


def test_a_card_whose_memory_is_not_known_is_no_match() -> None:
    """Without the total, nothing proves what was registered."""
    gpus = (GPUS[0], replace(GPUS[1], memory_mib=None))
    text = written("hami", registered())
    verdict = verify(wanted("hami"), Observation(gpus=gpus), node("hami", text))
    assert verdict.verdict == "Mismatch"


def test_hamis_compute_is_what_was_declared() -> None:
    cards = [{**card, "devcore": 200} for card in registered()]
    seen = node("hami", written("hami", cards))
    assert verify(wanted("hami"), Observation(gpus=GPUS), seen).reason == "CardsRegisteredWrong"
    declared = wanted("hami", compute_percent=200)
    assert verify(declared, Observation(gpus=GPUS), seen).reason == "PartitionsMatch"


def test_a_lost_card_keeps_its_own_reason() -> None:
    lost = replace(
        GPUS[1], failure=Failure(call="nvmlDeviceGetMemoryInfo", code=15, text="GPU is lost")
    )
    text = written("volcano", registered(health=False))
    seen = node("volcano", text, more={"volcano.sh/vgpu-memory": MIB})
    verdict = verify(wanted("volcano"), Observation(gpus=(GPUS[0], lost)), seen)
    assert verdict.reason == "GpuLost"


@ENGINES
def test_the_agent_reads_the_registration_from_its_node(engine: str) -> None:
    raw: dict[str, Any] = {
        "metadata": {
            "name": "n1",
            "uid": "u1",
            "annotations": {ANNOTATIONS[engine]: "text", "other": "x"},
        },
    }
    assert node_file.read(raw).registrations == {ANNOTATIONS[engine]: "text"}

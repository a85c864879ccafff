"""The cards that an engine shares, and pods that wait for a share: explained card by card."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis.names import POOL_LABEL
from slicewright.apis.shares.engines import EngineName
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.node_pods import NodePod, read_pod
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.shares import PoolShares
from slicewright.live.output.cards_text import card_lines
from slicewright.live.shared_cards import CardsView, cards_view
from tests.fleet_controller.builders import build_pool

CARDS = {"volcano": "volcano.sh/vgpu-number", "hami": "nvidia.com/gpu"}
AMOUNTS = {
    "volcano": ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"),
    "hami": ("nvidia.com/gpumem", "nvidia.com/gpucores"),
}
ALLOCATION = {"volcano": "volcano.sh/vgpu-ids-new", "hami": "hami.io/vgpu-devices-allocated"}
ENGINE = pytest.mark.parametrize("engine", ["hami", "volcano"])


def pool(engine: EngineName, unit: int = 1) -> Pool:
    shares = PoolShares(engine=engine, namespace="n", memory_unit_mib=unit)
    return build_pool(
        name="shared", selector={POOL_LABEL: "shared"}, mig_config=None, shares=shares
    )


def node(engine: EngineName, name: str = "n1", healthy: str = "true", units: int = 16384) -> Node:
    registered = {
        "volcano": {
            "volcano.sh/node-vgpu-register": "".join(
                f"GPU-{i},10,{units},NVIDIA-T4,{healthy},hami-core:" for i in range(2)
            )
        },
        "hami": {
            "hami.io/node-nvidia-register": "["
            + ",".join(
                f'{{"id":"GPU-{i}","count":10,"devmem":{units},"devcore":100,"health":{healthy}}}'
                for i in range(2)
            )
            + "]"
        },
    }[engine]
    return read_node(
        {
            "metadata": {
                "name": name,
                "uid": name,
                "labels": {POOL_LABEL: "shared"},
                "annotations": registered,
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    )


def raw(
    engine: EngineName, name: str, memory: int | None, compute: int, cards: int = 1, **spec: Any
) -> dict[str, Any]:
    requests = {CARDS[engine]: str(cards), AMOUNTS[engine][1]: str(compute)}
    if memory is not None:
        requests[AMOUNTS[engine][0]] = str(memory)
    containers = [{"resources": {"requests": requests}}]
    return {
        "metadata": {"name": name, "namespace": "models", "uid": name},
        "spec": {"containers": containers, **spec},
    }


def placed(engine: EngineName, name: str, *shares: tuple[int, int, int]) -> NodePod:
    """shares: card, units of memory, percent."""
    pod = raw(engine, name, 1, 1, nodeName="n1")
    text = "".join(f"GPU-{card},NVIDIA,{units},{percent}:" for card, units, percent in shares)
    pod["metadata"]["annotations"] = {ALLOCATION[engine]: f"{text};"}
    return read_pod(pod)


def view(of: Pool, nodes: list[Node], pods: list[NodePod], *pending: dict[str, Any]) -> CardsView:
    cards = cards_view(of, nodes, {"n1": pods}, pending)
    assert cards is not None
    return cards


@ENGINE
def test_volcanos_bare_refusal_is_explained_card_by_card(engine: EngineName) -> None:
    """60 % on two cards: the third pod gets `hami-vgpuDeviceSharing error.` and no more."""
    pods = [placed(engine, "a", (0, 2048, 60)), placed(engine, "b", (1, 15000, 60))]
    (waiting,) = view(pool(engine), [node(engine)], pods, raw(engine, "c", 2048, 60)).waiting
    assert waiting.pod == "models/c"
    assert "it needs 1 card with 2048 MiB and 60 % free on one node" in waiting.why
    assert waiting.cards == (
        "n1 card 0: without enough compute (14336 of 16384 MiB and 40 of 100 % free)",
        "n1 card 1: without enough memory and compute (1384 of 16384 MiB and 40 of 100 % free)",
    )


@ENGINE
def test_a_request_for_more_cards_than_a_node_has_is_reported(engine: EngineName) -> None:
    (waiting,) = view(pool(engine), [node(engine)], [], raw(engine, "c", 10, 10, cards=3)).waiting
    assert waiting.why == "it needs 3 cards of one node, and no node has more than 2"


@ENGINE
def test_a_pod_that_fits_points_to_the_scheduler(engine: EngineName) -> None:
    (waiting,) = view(pool(engine), [node(engine)], [], raw(engine, "c", 10, 10)).waiting
    assert "it fits on n1" in waiting.why
    assert waiting.cards == ()


def test_unhealthy_cards_and_closed_nodes_take_no_pods() -> None:
    held = node("volcano", healthy="false")
    (waiting,) = view(pool("volcano"), [held], [], raw("volcano", "c", 10, 10)).waiting
    assert "no node has more than 0" in waiting.why
    cordoned = read_node(
        {
            "metadata": {"name": "n1", "uid": "n1", "labels": {POOL_LABEL: "shared"}},
            "spec": {"unschedulable": True},
        }
    )
    shown = view(pool("volcano"), [cordoned], [], raw("volcano", "c", 10, 10))
    assert shown.closed == ("n1",)
    assert "there is no node with shared cards for it" in shown.waiting[0].why


def test_units_of_memory_are_shown_in_mib() -> None:
    of = pool("volcano", unit=11)
    pods = [placed("volcano", "a", (0, 1000, 10))]
    shown = view(of, [node("volcano", units=7414)], pods, raw("volcano", "c", 7000, 10, cards=2))
    assert shown.nodes[0].cards[0].free_mib == (7414 - 1000) * 11
    assert "with 77000 MiB" in shown.waiting[0].why


def test_pods_of_other_pools_engines_and_without_shares_do_not_wait_here() -> None:
    others = [
        raw("volcano", "x", 10, 10, nodeSelector={POOL_LABEL: "other"}),
        raw("hami", "y", 10, 10),
        {"metadata": {"name": "z", "namespace": "m"}, "spec": {"containers": [{}]}},
    ]
    assert view(pool("volcano"), [node("volcano")], [], *others).waiting == ()
    plain = build_pool(name="p", selector={}, mig_config=None)
    assert cards_view(plain, [], {}, others) is None


def test_the_lines_name_each_card_if_all_are_requested() -> None:
    pods = [placed("volcano", "a", (0, 2048, 20), (1, 2048, 20))]
    shown = view(pool("volcano"), [node("volcano")], pods, raw("volcano", "c", 15000, 10, 2))
    short = [line.plain for line in card_lines(shown, every_card=False)]
    assert short[0] == (
        "  2 shared cards, shares of 1 pod: 4096 of 32768 MiB and 40 of 200 % allocated"
    )
    assert short[1].startswith("  pod models/c waits: it needs 2 cards")
    every = [line.plain for line in card_lines(shown, every_card=True)]
    assert "    n1 card 0: 14336 MiB and 80 % free; models/a (2048 MiB, 20 %)" in every

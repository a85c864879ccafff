"""The choice of HAMi's simulated scheduler, held to a run of the real one and to the plan."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra.plan.fractional.placement import place_pods
from slicewright.infra.plan.model.fractional import SharedCard, SharedNode, SharingPod
from slicewright.rehearsal.cluster.vgpu.hami_placement import (
    CARDS_BUSY,
    TOO_FEW_CARDS,
    CardUsage,
    Choice,
    Policy,
    Request,
    choose,
)
from tests.properties import examples

INPUTS = Path(__file__).resolve().parents[3] / "infra/inputs/fractional-placements.toml"
RUNS = tomllib.loads(INPUTS.read_text())
SHARE = Request(cards=1, memory_mib=2048, compute_percent=20)
Nodes = dict[str, list[CardUsage]]


def empty(count: int, cards: int) -> Nodes:
    return {
        f"n{n}": [
            CardUsage(uuid=f"GPU-{n}-{i}", slots=10, memory_mib=16384, compute_percent=100)
            for i in range(cards)
        ]
        for n in range(count)
    }


def place(
    nodes: Nodes, *containers: Request, node: Policy = "binpack", card: Policy = "spread"
) -> Choice | dict[str, str]:
    """Puts the pod on its cards, as the scheduler remembers it."""
    choice = choose(nodes, containers, node, card)
    if isinstance(choice, Choice):
        for share in (share for shares in choice.shares for share in shares):
            cards = nodes[choice.node]
            (i,) = (i for i, one in enumerate(cards) if one.uuid == share.uuid)
            cards[i] = cards[i].with_share(share)
    return choice


def counts(nodes: Nodes) -> list[list[int]]:
    used = [[c.containers for c in cards if c.containers] for cards in nodes.values()]
    return [sorted(cards, reverse=True) for cards in used if cards]


@pytest.mark.parametrize(
    "run", RUNS["pairs"], ids=lambda r: f"{r['node_policy']}-{r['gpu_policy']}"
)
def test_the_four_pairs_of_policies_give_the_counts_of_the_real_run(run: dict[str, Any]) -> None:
    nodes = empty(4, 4)
    for _ in range(8):
        place(nodes, SHARE, node=run["node_policy"], card=run["gpu_policy"])
    assert counts(nodes) == run["containers"]


def test_of_equal_cards_the_last_is_taken() -> None:
    choice = place(empty(1, 4), SHARE)
    assert isinstance(choice, Choice)
    assert choice.shares[0][0].uuid == "GPU-0-3"


def test_more_than_a_card_becomes_a_whole_card_without_a_word() -> None:
    choice = place(empty(1, 2), Request(cards=1, memory_mib=128, compute_percent=240))
    assert isinstance(choice, Choice)
    assert [share.compute_percent for share in choice.shares[0]] == [100]


def test_two_containers_of_a_pod_on_one_card_are_counted_twice() -> None:
    """Volcano counts them once: 12000 MiB and 80 % are right."""
    nodes = empty(1, 1)
    place(nodes, *[Request(cards=1, memory_mib=6000, compute_percent=40)] * 2)
    (card,) = nodes["n0"]
    assert (card.used_mib, card.used_percent) == (12000, 80)


def test_a_node_with_too_few_cards_or_none_free_is_refused_with_the_reason() -> None:
    nodes = {**empty(1, 1), "n1": [], "n2": empty(1, 2)["n0"]}
    for node in ("n0", "n2"):
        for i, card in enumerate(nodes[node]):
            nodes[node][i] = CardUsage(**{**vars(card), "healthy": False})
    assert place(nodes, Request(cards=2, memory_mib=1)) == {
        "n0": TOO_FEW_CARDS,
        "n1": TOO_FEW_CARDS,
        "n2": CARDS_BUSY,
    }


REQUESTS = st.builds(
    Request,
    cards=st.integers(1, 4),
    memory_mib=st.sampled_from((128, 1024, 5000, 9000, 16384)),
    compute_percent=st.sampled_from((1, 20, 35, 60, 100)),
)
POLICIES = st.sampled_from(("binpack", "spread"))


@settings(max_examples=examples(200), deadline=None)
@given(pods=st.lists(REQUESTS, max_size=20), node=POLICIES, card=POLICIES, lost=st.integers(0, 7))
def test_no_card_gives_more_than_it_has_and_a_lost_card_gives_nothing(
    pods: list[Request], node: Policy, card: Policy, lost: int
) -> None:
    nodes = empty(2, 4)
    broken = nodes[f"n{lost // 4}"]
    broken[lost % 4] = CardUsage(**{**vars(broken[lost % 4]), "healthy": False})
    for request in pods:
        place(nodes, request, node=node, card=card)
    for used in (one for cards in nodes.values() for one in cards):
        assert used.used_mib <= 16384
        assert used.used_percent <= 100
        assert used.healthy or not used.containers


@settings(max_examples=examples(200), deadline=None)
@given(pods=st.lists(REQUESTS, max_size=20), node=POLICIES, card=POLICIES)
def test_the_plan_draws_each_pod_on_the_same_card(
    pods: list[Request], node: Policy, card: Policy
) -> None:
    nodes = empty(2, 4)
    fitting = sum(
        isinstance(place(nodes, request, node=node, card=card), Choice) for request in pods
    )
    whole = SharedCard(memory_mib=16384, compute_percent=100, slots=10)
    drawn = [SharedNode(name=name, pool="p", cards=(whole,) * 4) for name in nodes]
    planned = place_pods("hami", drawn, [shape(i, pod, node, card) for i, pod in enumerate(pods)])
    assert [[len(c.shares) for c in one.cards] for one in planned.nodes] == [
        [c.containers for c in cards] for cards in nodes.values()
    ]
    assert fitting == len(pods) - len(planned.misfits)


def shape(number: int, request: Request, node: Policy, card: Policy) -> SharingPod:
    return SharingPod(
        name=f"w-{number}",
        workload="w",
        cards=request.cards,
        memory_mib=request.memory_mib,
        compute_percent=request.compute_percent,
        node_policy=node,
        gpu_policy=card,
    )

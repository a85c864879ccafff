"""The placement of pods' shares, held to runs of both engines and to properties of placements."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra.plan.fractional.placement import place_pods
from slicewright.infra.plan.model.fractional import (
    FractionalPlacement,
    SharedCard,
    SharedNode,
    SharingPod,
)
from tests.properties import examples

RUNS = tomllib.loads((Path(__file__).parents[2] / "inputs/fractional-placements.toml").read_text())
ENGINES = ("hami", "volcano")
CARD = SharedCard(memory_mib=16384, compute_percent=100, slots=10)


def nodes(count: int, cards: int, card: SharedCard = CARD) -> list[SharedNode]:
    return [SharedNode(name=f"n{i}", pool="p", cards=(card,) * cards) for i in range(count)]


def pod(name: str = "w", **changes: Any) -> SharingPod:
    plain = SharingPod(
        name=name,
        workload="w",
        cards=1,
        memory_mib=2048,
        compute_percent=20,
        node_policy="binpack",
        gpu_policy="spread",
    )
    return replace(plain, **changes)


def pods(count: int, **changes: Any) -> list[SharingPod]:
    return [pod(f"w-{i}", **changes) for i in range(count)]


def counts(placement: FractionalPlacement) -> list[list[int]]:
    """Containers on each card that is used, by node, largest first."""
    by_node = [[len(card.shares) for card in node.cards if card.shares] for node in placement.nodes]
    return [sorted(cards, reverse=True) for cards in by_node if cards]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "run", RUNS["pairs"], ids=lambda r: f"{r['node_policy']}-{r['gpu_policy']}"
)
def test_the_four_pairs_of_policies_give_the_counts_of_real_runs(
    engine: str, run: dict[str, Any]
) -> None:
    """S3-14 to S3-16"""
    policies = {key: run[key] for key in ("node_policy", "gpu_policy")}
    placement = place_pods(engine, nodes(4, 4), pods(8, **policies))
    assert counts(placement) == run["containers"]
    assert not placement.misfits


def test_of_equal_cards_volcano_takes_the_first_and_hami_the_last() -> None:
    used = {
        engine: [
            bool(card.shares) for card in place_pods(engine, nodes(1, 4), [pod()]).nodes[0].cards
        ]
        for engine in ENGINES
    }
    assert used == {"volcano": [True, False, False, False], "hami": [False, False, False, True]}


@pytest.mark.parametrize("engine", ENGINES)
def test_eighteen_gib_and_240_percent_lie_on_three_cards_of_one_node(engine: str) -> None:
    """S3-17 to S3-19"""
    share = pod(cards=3, memory_mib=6144, compute_percent=80)
    (node,) = (
        n for n in place_pods(engine, nodes(4, 4), [share]).nodes if any(c.shares for c in n.cards)
    )
    shares = [s for card in node.cards for s in card.shares]
    assert [(s.memory_mib, s.compute_percent) for s in shares] == [(6144, 80)] * 3
    assert max(len(card.shares) for card in node.cards) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_container_over_several_cards_uses_what_is_left_on_each(engine: str) -> None:
    """S3-04"""
    first = pods(3, memory_mib=10240, compute_percent=10)
    fragments = pod("over-three", cards=3, memory_mib=6144, compute_percent=80)
    placement = place_pods(engine, nodes(1, 3), [*first, fragments])
    assert not placement.misfits
    assert all(card.free_mib == 0 for card in placement.nodes[0].cards)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("share", "fitting", "reason"),
    [
        (
            {"memory_mib": 8192, "compute_percent": 10},
            4,
            "it needs 1 card with 8192 MiB and 10 % free on one node, and no card has that left: 2 "
            "cards without enough memory",
        ),
        (
            {"compute_percent": 60},
            2,
            "it needs 1 card with 2048 MiB and 60 % free on one node, and no card has that left: 2 "
            "cards without enough compute",
        ),
        (
            {"memory_mib": None, "compute_percent": 100},
            2,
            "it needs 1 card with all of its memory and compute on one node, and no card has that "
            "left: 2 cards shared already",
        ),
        ({"cards": 3}, 0, "it needs 3 cards of one node, and no node has more than 2"),
        (
            {"memory_mib": 20000},
            0,
            "it needs 1 card with 20000 MiB and 20 % free on one node, and no card has that left: "
            "2 cards too small",
        ),
    ],
)
def test_pods_that_do_not_fit_are_named_with_the_reason(
    engine: str, share: dict[str, Any], fitting: int, reason: str
) -> None:
    placement = place_pods(engine, nodes(1, 2), pods(5, **share))
    assert [misfit.pod for misfit in placement.misfits] == [f"w-{i}" for i in range(fitting, 5)]
    assert {misfit.reason for misfit in placement.misfits} == {reason}
    assert placement.pods.get("w", 0) == fitting


@pytest.mark.parametrize("engine", ENGINES)
def test_a_whole_card_lies_beside_shared_ones(engine: str) -> None:
    """S3-11"""
    whole = pod("whole", memory_mib=None, compute_percent=100)
    placement = place_pods(engine, nodes(1, 2), [pod("a"), whole, pod("b")])
    assert not placement.misfits
    assert sorted(
        sorted(share.pod for share in card.shares) for card in placement.nodes[0].cards
    ) == [["a", "b"], ["whole"]]


def test_containers_of_a_pod_may_share_a_card() -> None:
    two = pod(containers=2, memory_mib=6000, compute_percent=40)
    (node,) = place_pods("hami", nodes(1, 1), [two]).nodes
    assert node.cards[0].free_mib == 16384 - 12000
    assert node.cards[0].free_percent == 20


def test_a_pod_keeps_to_its_pool() -> None:
    there = [*nodes(1, 1), SharedNode(name="other", pool="q", cards=(CARD,))]
    placement = place_pods("hami", there, pods(9, pool="q"))
    assert [n.name for n in placement.nodes if any(c.shares for c in n.cards)] == ["other"]
    assert placement.pods == {"w": 5}
    (nowhere,) = place_pods("hami", there, [pod(pool="r")]).misfits
    assert nowhere.reason == "there is no node with shared cards for it"


def test_oversubscribed_cards_hold_more() -> None:
    double = replace(CARD, memory_mib=32768, compute_percent=200)
    placement = place_pods(
        "hami", nodes(1, 1, double), pods(9, memory_mib=8192, compute_percent=50)
    )
    assert placement.pods == {"w": 4}


CARDS = st.builds(
    SharedCard,
    memory_mib=st.integers(1, 40).map(lambda n: n * 512),
    compute_percent=st.sampled_from([100, 100, 150]),
    slots=st.integers(1, 4),
    lost=st.booleans(),
)
NODES = st.lists(st.lists(CARDS, min_size=1, max_size=4), min_size=1, max_size=4).map(
    lambda drawn: [
        SharedNode(name=f"n{i}", pool="pq"[i % 2], cards=tuple(cards))
        for i, cards in enumerate(drawn)
    ]
)
POLICY = st.sampled_from(["binpack", "spread"])
PODS = st.lists(
    st.builds(
        SharingPod,
        name=st.just(""),
        workload=st.sampled_from(["v", "w"]),
        cards=st.integers(1, 3),
        memory_mib=st.one_of(st.none(), st.integers(1, 24).map(lambda n: n * 512)),
        compute_percent=st.sampled_from([1, 20, 50, 80, 100]),
        node_policy=POLICY,
        gpu_policy=POLICY,
        containers=st.integers(1, 2),
        pool=st.sampled_from([None, None, "p", "q"]),
    ),
    max_size=14,
).map(lambda drawn: [replace(one, name=f"pod-{i}") for i, one in enumerate(drawn)])


@given(st.sampled_from(ENGINES), NODES, PODS)
@settings(max_examples=examples(400), deadline=None)
def test_no_card_gives_more_than_it_has_and_lost_cards_give_nothing(
    engine: str, there: list[SharedNode], asking: list[SharingPod]
) -> None:
    placement = place_pods(engine, there, asking)
    assert place_pods(engine, there, asking) == placement  # deterministic
    for before, node in zip(there, placement.nodes, strict=True):
        for card, placed in zip(before.cards, node.cards, strict=True):
            assert placed.card == card
            assert placed.free_mib >= 0
            assert placed.free_percent >= 0
            assert len(placed.shares) <= card.slots
            assert not (card.lost and placed.shares)
            whole = [s for s in placed.shares if s.compute_percent == 100 == card.compute_percent]
            assert not whole or len(placed.shares) == 1


@given(st.sampled_from(ENGINES), NODES, PODS)
@settings(max_examples=examples(400), deadline=None)
def test_each_pod_is_placed_completely_on_one_node_or_named(
    engine: str, there: list[SharedNode], asking: list[SharingPod]
) -> None:
    placement = place_pods(engine, there, asking)
    misfits = {misfit.pod for misfit in placement.misfits}
    for one in asking:
        by_node = {
            node.name: sum(s.pod == one.name for card in node.cards for s in card.shares)
            for node in placement.nodes
        }
        used = {name: count for name, count in by_node.items() if count}
        assert (one.name in misfits) == (not used)
        if used:
            (name,) = used
            assert used[name] == one.cards * one.containers
            assert one.pool in (None, next(n.pool for n in there if n.name == name))


@given(st.sampled_from(ENGINES), NODES, PODS.filter(bool))
@settings(max_examples=examples(300), deadline=None)
def test_a_pod_without_a_place_fits_on_no_set_of_cards(
    engine: str, there: list[SharedNode], asking: list[SharingPod]
) -> None:
    """Tries every set of cards for the last pod, when the others are where they are."""
    *others, last = asking
    last = replace(last, containers=1)
    placement = place_pods(engine, there, [*others, last])
    before = place_pods(engine, there, others)
    fits = any(
        all(_fits(card.free_mib, card.free_percent, card, last) for card in cards)
        for node in before.nodes
        if last.pool in (None, node.pool)
        for cards in itertools.combinations(node.cards, last.cards)
    )
    assert fits == (last.name not in {misfit.pod for misfit in placement.misfits})


def _fits(free_mib: int, free_percent: int, card: Any, one: SharingPod) -> bool:
    mib = card.card.memory_mib if one.memory_mib is None else one.memory_mib
    alone = one.compute_percent == 100 == card.card.compute_percent
    return (
        not card.card.lost
        and free_mib >= mib
        and free_percent >= one.compute_percent
        and len(card.shares) < card.card.slots
        and (not alone or not card.shares)
    )


@given(st.sampled_from(ENGINES), st.permutations(range(8)), POLICY, POLICY)
@settings(max_examples=examples(100), deadline=None)
def test_the_order_of_equal_pods_changes_no_count(
    engine: str, order: Sequence[int], node: Any, gpu: Any
) -> None:
    asking = pods(8, node_policy=node, gpu_policy=gpu)
    first = place_pods(engine, nodes(4, 4), asking)
    second = place_pods(engine, nodes(4, 4), [asking[i] for i in order])
    assert counts(first) == counts(second)


@pytest.mark.parametrize(("provider", "counts"), [("hami", [2, 1]), ("volcano", [1, 2])])
def test_a_lost_card_counts_in_the_score_of_hamis_nodes_only(
    provider: str, counts: list[int]
) -> None:
    """HAMi sums over all cards of a node (pkg/scheduler/policy/node_policy.go)."""
    whole = SharedCard(memory_mib=16384, compute_percent=100, slots=10)
    lost = SharedCard(memory_mib=16384, compute_percent=100, slots=10, lost=True)
    nodes = [
        SharedNode(name="n0", pool="p", cards=(lost, whole)),
        SharedNode(name="n1", pool="p", cards=(whole, whole)),
    ]
    pods = [
        SharingPod(
            name=f"w-{i}",
            workload="w",
            cards=1,
            memory_mib=1024,
            compute_percent=10,
            node_policy="spread",
            gpu_policy="binpack",
        )
        for i in range(3)
    ]
    placed = place_pods(provider, nodes, pods)
    assert [sum(len(c.shares) for c in node.cards) for node in placed.nodes] == counts

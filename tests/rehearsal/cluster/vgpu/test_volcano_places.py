"""Volcano's own scheduler places shares on cards as the plan draws them."""

from __future__ import annotations

import random
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra.plan.fractional.placement import place_pods
from slicewright.infra.plan.model.fractional import SharedCard, SharedNode, SharingPod
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.vgpu.volcano_cluster import (
    CARD_MIB,
    PODS,
    VolcanoCluster,
    running,
    share_pod,
    until,
)

# It builds Volcano.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

INPUTS = Path(__file__).resolve().parents[3] / "infra/inputs/fractional-placements.toml"
RUNS = tomllib.loads(INPUTS.read_text())
SETTLED_S = 2.0
"""Ten of the scheduler's cycles: what is not placed by then waits."""


@pytest.fixture(scope="module")
def volcano(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain, one_tool: Callable[[str], Path]
) -> Iterator[VolcanoCluster]:
    programs = (one_tool("volcano_scheduler"), one_tool("volcano_controllers"))
    with running(tmp_path_factory.mktemp("volcano"), toolchain, *programs) as cluster:
        cluster.add_nodes(4, 4)
        yield cluster


@pytest.fixture
def cluster(volcano: VolcanoCluster) -> Iterator[VolcanoCluster]:
    """Without pods, and with the stack file's default policies."""
    volcano.start_scheduler("binpack", "spread")
    volcano.settle_scheduler()
    yield volcano
    volcano.delete_pods()


def place(cluster: VolcanoCluster, *pods: dict[str, Any], bound: int | None = None) -> None:
    """bound: the number of pods that get a place."""
    cluster.create_pods(pods)
    wanted = len(pods) if bound is None else bound
    names = [pod["metadata"]["name"] for pod in pods]
    until(lambda: sum(map(cluster.bound, names)) >= wanted)
    if wanted < len(pods):
        time.sleep(SETTLED_S)
    assert sum(map(cluster.bound, names)) == wanted


def planned(cluster: VolcanoCluster, *pods: SharingPod) -> list[list[int]]:
    card = SharedCard(memory_mib=CARD_MIB, compute_percent=100, slots=10)
    nodes = [SharedNode(name=n, pool="p", cards=(card,) * len(c)) for n, c in cluster.cards.items()]
    placement = place_pods("volcano", nodes, pods)
    by_node = [[len(c.shares) for c in node.cards if c.shares] for node in placement.nodes]
    return sorted((sorted(cards, reverse=True) for cards in by_node if cards), reverse=True)


@pytest.mark.parametrize(
    "run", RUNS["pairs"], ids=lambda r: f"{r['node_policy']}-{r['gpu_policy']}"
)
def test_the_four_pairs_of_policies_give_the_counts_of_the_plan(
    volcano: VolcanoCluster, run: dict[str, Any]
) -> None:
    """S3-14 to S3-16: 8 pods on 4 nodes with 4 cards."""
    volcano.start_scheduler(run["node_policy"], run["gpu_policy"])
    volcano.settle_scheduler()
    pods = [share_pod(f"w-{i}", memory_mib=2048, percent=20) for i in range(8)]
    place(volcano, *pods)
    counts = volcano.counts()
    volcano.delete_pods()
    assert counts == sorted(run["containers"], reverse=True)
    shapes = [
        SharingPod(
            name=f"w-{i}",
            workload="w",
            cards=1,
            memory_mib=2048,
            compute_percent=20,
            node_policy=run["node_policy"],
            gpu_policy=run["gpu_policy"],
        )
        for i in range(8)
    ]
    assert counts == planned(volcano, *shapes)


def test_eighteen_gib_and_240_percent_lie_on_three_cards_of_one_node(
    cluster: VolcanoCluster,
) -> None:
    """S3-17 to S3-19"""
    place(cluster, share_pod("app-a", memory_mib=6144, percent=80, cards=3))
    ((_, cards),) = cluster.placed().items()
    assert list(cards.values()) == [[(6144, 80)]] * 3


def test_a_whole_card_lies_beside_shared_ones(cluster: VolcanoCluster) -> None:
    """S3-11"""
    place(
        cluster,
        share_pod("share", memory_mib=2048, percent=20),
        share_pod("whole", memory_mib=None, percent=100),
        share_pod("another", memory_mib=2048, percent=20),
    )
    used = [shares for cards in cluster.placed().values() for shares in cards.values()]
    each = [share for shares in used for share in shares]
    assert sorted(each) == [(2048, 20), (2048, 20), (CARD_MIB, 100)]
    assert [(CARD_MIB, 100)] in used


def test_one_pod_more_than_fits_waits_with_a_reason(cluster: VolcanoCluster) -> None:
    pods = [share_pod(f"w-{i}", memory_mib=8192, percent=50, cards=4) for i in range(9)]
    place(cluster, *pods, bound=8)
    assert cluster.counts() == [[2, 2, 2, 2]] * 4
    (waiting,) = (
        pod for pod in cluster.client.get(PODS)["items"] if not pod["spec"].get("nodeName")
    )
    conditions = {c["type"]: c for c in waiting["status"]["conditions"]}
    assert conditions["PodScheduled"]["status"] == "False"
    # Kubernetes' own count has room: it counts a request once, however many cards it is of.
    assert "4 hami-vgpuDeviceSharing error" in conditions["PodScheduled"]["message"]


@pytest.mark.parametrize("request_", [(1, 240), (5, 20)], ids=["240 % of one card", "5 cards of 4"])
def test_more_than_a_card_or_a_node_has_is_refused(
    cluster: VolcanoCluster, request_: tuple[int, int]
) -> None:
    cards, percent = request_
    place(cluster, share_pod("w", memory_mib=128, percent=percent, cards=cards), bound=0)


def test_no_card_gives_more_than_it_has_and_lost_cards_give_nothing(
    cluster: VolcanoCluster,
) -> None:
    """Random pods, while the scheduler restarts and cards are lost. A seed repeats a failure."""
    seed = random.randrange(2**32)
    choose = random.Random(seed)
    lost: set[str] = set()
    held: dict[str, list[tuple[int, int]]] = {}
    for wave in range(4):
        pods = [
            share_pod(
                f"w-{wave}-{i}",
                memory_mib=choose.choice((128, 1024, 3000, 6144, 12000, None)),
                percent=choose.choice((1, 10, 35, 60, 100)),
                cards=choose.choice((1, 1, 1, 2, 4)),
            )
            for i in range(8)
        ]
        cluster.create_pods(pods)
        time.sleep(SETTLED_S)
        _check_cards(cluster, lost, held, seed)
        node = choose.choice(sorted(cluster.cards))
        card = choose.choice(cluster.cards[node])
        held[card.uuid] = cluster.placed().get(node, {}).get(card.uuid, [])
        lost.add(card.uuid)
        cluster.stop_scheduler()
        cluster.lose_card(node, card.index)
        cluster.start_scheduler("binpack", "spread")
        cluster.settle_scheduler()


def _check_cards(
    cluster: VolcanoCluster,
    lost: set[str],
    held: dict[str, list[tuple[int, int]]],
    seed: int,
) -> None:
    used = 0
    for cards in cluster.placed().values():
        for uuid, shares in cards.items():
            used += 1
            assert sum(mib for mib, _ in shares) <= CARD_MIB, f"seed {seed}"
            assert sum(percent for _, percent in shares) <= 100, f"seed {seed}"
            if uuid in lost:
                assert sorted(shares) == sorted(held[uuid]), f"seed {seed}"
    assert used

"""The plan of GPUs that pods share by fractions, as text and as JSON."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from slicewright.infra import plan, stack_file
from slicewright.show.plan_json import as_json
from slicewright.show.plan_text import show_plan

FLEET: dict[str, Any] = {
    "cloud": "byo",
    "cluster": {"name": "c", "context": "c"},
    "fractional": {"provider": "volcano", "gpu_policy": "binpack"},
    "node_pools": [
        {
            "name": "a",
            "gpu": {"model": "A10G", "count": 2},
            "nodes": {"count": 3},
            "sharing": "fractional",
        }
    ],
    "workloads": [
        {"name": "half", "gpu_share": {"memory": "11513Mi", "compute_percent": 50}},
        {"name": "tenth", "gpu_share": {"memory": "2304Mi", "compute_percent": 10}, "replicas": 2},
        {"name": "whole", "gpu_share": {"cards": 2}, "replicas": 3},
    ],
}


def planned(**changes: Any) -> plan.FleetPlan:
    raw = {**FLEET, **changes}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def text(fleet: plan.FleetPlan) -> str:
    out = io.StringIO()
    show_plan("test", fleet, Console(file=out, width=120))
    return out.getvalue()


def test_each_share_is_drawn_to_scale() -> None:
    shown = text(planned())
    memory = re.findall(r"memory  (.{40}) (\d+) of (\d+) MiB left", shown)
    compute = re.findall(r"compute (.{40}) (\d+) of 100 % left", shown)
    (first_memory, *_), (first_compute, *_) = memory, compute
    bars = re.findall(r"\[[^\]]*\]", first_compute[0])
    assert [len(bar) for bar in bars] == [20, 4, 4]  # 50, 10 and 10 % of 40 columns
    assert first_compute[0].count("·") == 12
    assert first_compute[1] == "30"
    assert int(first_memory[1]) == int(first_memory[2]) - 11513 - 2 * 2304


def test_pods_are_named_with_their_card_or_the_reason_why_they_have_none() -> None:
    shown = text(planned())
    assert "a = half (11513 MiB, 50 %), b = tenth-1 (2304 MiB, 10 %)" in shown
    assert (
        "whole-3 does not fit: it needs 2 cards with all memory and compute on one node; a node 1 "
        "has 1, and no other node has more" in shown
    )


def test_density_is_arithmetic_and_says_so() -> None:
    shown = text(planned(workloads=FLEET["workloads"][:2]))
    assert (
        "density: 3 shares on 1 of 6 cards, 3.0 a card, 300 % of one container a card "
        "(arithmetic on this plan, not a measurement)" in shown
    )
    assert "2 nodes with nothing on the cards" in shown


@pytest.mark.parametrize(
    ("provider", "scope"),
    [
        ("hami", "each workload may have its own"),
        ("volcano", "one pair for the whole scheduler"),
        ("vke", "the cards are not drawn: VKE's scheduler is not published"),
    ],
)
def test_the_plan_says_what_each_engine_can_do(provider: str, scope: str) -> None:
    assert scope in text(planned(fractional={"provider": provider}))


def test_the_json_has_the_same() -> None:
    shared = as_json(planned())["fractional"]
    assert (shared["provider"], shared["memory_unit_mib"]) == ("volcano", 1)
    cards = [card for node in shared["nodes"] for card in node["cards"]]
    for card in cards:
        used = sum(share["memory_mib"] for share in card["shares"])
        assert used + card["free_mib"] == card["memory_mib"]
    assert [share["pod"] for share in cards[0]["shares"]] == ["half", "tenth-1", "tenth-2"]
    assert [misfit["pod"] for misfit in shared["do_not_fit"]] == ["whole-3"]
    assert shared["density"]["measured"] is False
    assert as_json(planned(fractional={"provider": "vke"}))["fractional"]["nodes"] is None


def test_many_nodes_are_drawn_in_part_and_are_all_in_the_json() -> None:
    pool = {**FLEET["node_pools"][0], "nodes": {"count": 30}}
    whole = {"name": "w", "gpu_share": {"cards": 2}, "replicas": 45}
    fleet = planned(node_pools=[pool], workloads=[whole])
    shown = text(fleet)
    assert "and 22 more nodes in use (see --json)" in shown
    assert "and 5 more pods do not fit (see --json)" in shown
    assert len(as_json(fleet)["fractional"]["nodes"]) == 30

"""Results of a load for people and as JSON: by replica, with the node and partition of each."""

from __future__ import annotations

from rich.console import Console

from slicewright.load.load import Load, Target
from slicewright.load.results import Figures, Results
from slicewright.load.text import as_json, table

FIGURES = Figures(
    answered=10,
    failed=0,
    per_second=1.0,
    latency_ms=None,
    tokens=None,
    tokens_per_second=None,
    first_token_ms=None,
    inter_token_ms=None,
    longest_gap_ms=None,
    request_tokens_per_second=None,
)


def asked(*targets: Target) -> Load:
    return Load(
        workload="ai/llm",
        api="infer",
        targets=targets,
        duration_s=10,
        users=1,
        rate=None,
        model="m",
        tokens=1,
        body=None,
        key=None,
    )


def came(load: Load) -> Results:
    of_each = {one.name: FIGURES for one in load.targets}
    return Results(duration_s=10.0, dropped=0, whole=FIGURES, targets=of_each)


def printed(load: Load) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table(load, came(load)))
    return [line.split() for line in captured.get().splitlines()]


def test_rows_have_the_node_and_partition_of_their_replica() -> None:
    load = asked(
        Target(name="a", url="http://a:8000", node="n1", partition="3g.40gb"),
        Target(name="b", url="http://b:8000", node="n2"),
    )
    head, first, second = printed(load)
    assert head[:4] == ["replica", "node", "partition", "answered"]
    assert first[:4] == ["a", "n1", "3g.40gb", "10"]
    assert second[:5] == ["b", "n2", "whole", "GPU", "10"]
    replicas = as_json(load, came(load), interrupted=False)["replicas"]
    assert [(one["node"], one["partition"]) for one in replicas] == [
        ("n1", "3g.40gb"),
        ("n2", None),
    ]


def test_addresses_without_a_node_have_no_node_columns() -> None:
    load = asked(*(Target(name=url, url=url) for url in ("http://a:8000", "http://b:8000")))
    head, *rows = printed(load)
    assert head[:2] == ["replica", "answered"]
    assert len(rows) == 2
    (one, _) = as_json(load, came(load), interrupted=False)["replicas"]
    assert (one["node"], one["partition"]) == (None, None)

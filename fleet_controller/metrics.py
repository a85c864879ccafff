"""The controller's numbers in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fleet_controller.loop import Progress
from fleet_controller.state import Pool


def text(progress: Progress, pools: Sequence[Pool]) -> str:
    return "\n".join(_lines(progress, pools)) + "\n"


def _lines(progress: Progress, pools: Sequence[Pool]) -> Iterator[str]:
    yield from _head("slicewright_pool_nodes", "gauge", "Nodes of a pool by what is proven of them.")
    for pool in sorted(pools, key=lambda p: p.name):
        for state in ("verified", "failing", "unknown"):
            yield f"slicewright_pool_nodes{_labels(pool=pool.name, state=state)} {pool.status.get('nodes', {}).get(state, 0)}"
    yield from _head("slicewright_pool_condition", "gauge", "1 where a pool's condition is True.")
    for pool in sorted(pools, key=lambda p: p.name):
        for condition in pool.status.get("conditions", ()):
            holds = int(condition["status"] == "True")
            yield f"slicewright_pool_condition{_labels(pool=pool.name, condition=condition['type'])} {holds}"
    yield from _head("slicewright_controller_actions_total", "counter", "Actions carried out, by kind and result.")
    for (action, result), count in sorted(progress.done.items()):
        yield f"slicewright_controller_actions_total{_labels(action=action, result=result)} {count}"
    yield from _head("slicewright_controller_passes_total", "counter", "Passes over all pools.")
    yield f"slicewright_controller_passes_total {progress.passes}"
    yield from _head("slicewright_controller_pass_seconds_total", "counter", "Seconds spent in passes.")
    yield f"slicewright_controller_pass_seconds_total {progress.pass_s:.6f}"


def _head(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP {name} {words}"
    yield f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    # Names of pools and kinds are DNS labels and CamelCase words: nothing to escape.
    return "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"

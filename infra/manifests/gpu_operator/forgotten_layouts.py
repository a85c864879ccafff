"""Layouts by GPU index that nodes still have and that mig-manager's config would no longer have.

The config has every layout that all GPUs of a node can share
(`slicewright.infra.plan.partition.layout_names`). With a name that it lacks, mig-manager fails a
node at its next start, which is when the config changes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from slicewright.infra.plan import PoolPlan
from slicewright.infra.plan.partition.layout_names import ALL_DISABLED, is_by_index


def forgotten_layouts(
    pool: PoolPlan,
    config_names: Collection[str],
    live: Mapping[str, Any] | None,
    status: Mapping[str, Any] | None,
) -> str | None:
    """A message with the missing lines of the stack file. None if the new config has every layout
    that the nodes have.

    config_names: names of the layouts in the new config. live, status: spec and status of the
    GPUPool in the cluster. None if the cluster does not have the GPUPool.
    """
    lost = {
        name: desired
        for name, desired in _carried(live or {}, status or {})
        if name not in config_names and is_by_index(pool.name, name) and _suits(desired, pool)
    }
    # The engine's numbers are floats.
    total = int(((status or {}).get("nodes") or {}).get("total") or 0)
    if pool.offer.mig_config is None or total == 0 or not lost:
        return None
    values = ", ".join(filter(None, map(_as_written, lost.values())))
    problem = (
        f"pool {pool.name}: its nodes may still have layout {', '.join(lost)}, by GPU index, but "
        "mig-manager's new config lacks it: mig-manager would fail such nodes at its next start."
    )
    if not values:
        return (
            f"{problem} List that layout under partition.previous until no node has it "
            "(docs/reference/stack-file.md)."
        )
    where = "partition"
    if pool.offer.mig_config == ALL_DISABLED:
        where = "partition, as {mode: operator, config: all-disabled, previous: …},"
    return (
        f"{problem} Until no node has it (`kubectl get nodes -L nvidia.com/mig.config`), add to "
        f"the pool's {where} in the stack file:\n  previous: [{values}]"
    )


def _carried(
    live: Mapping[str, Any], status: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Names of the layouts that nodes may have, each with a node's desired state."""
    proven = [entry for entry in status.get("provenLayouts") or () if entry.get("migConfig")]
    declared = {"migConfig": live.get("migConfig"), "desiredState": live.get("desiredState")}
    texts = {layout["migConfig"]: layout.get("desiredState") for layout in (*proven, declared)}
    target = status.get("layout") or live.get("migConfig")
    verified = any(
        condition.get("type") == "Verified" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    # Not all nodes have the desired layout: others have the last verified one.
    last = [] if verified else [entry["migConfig"] for entry in proven[:1]]
    for name in dict.fromkeys([*filter(None, (target, live.get("migConfig"))), *last]):
        yield str(name), _read(texts.get(name))


def _suits(desired: Mapping[str, Any], pool: PoolPlan) -> bool:
    """True if nodes of the planned pool can have the layout: its GPUs are those of the pool."""
    now = _read(pool.offer.desired)
    return not desired or all(desired.get(k) == now.get(k) for k in ("gpu_count", "gpu_models"))


def _read(desired: str | None) -> Mapping[str, Any]:
    try:
        state = json.loads(desired or "")
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _as_written(desired: Mapping[str, Any]) -> str:
    """`[{index: [0], layout: {1g.5gb: 7}}, {index: [1, 2, 3], layout: {}}]`. Empty if unknown."""
    groups: list[tuple[Mapping[str, int], list[int]]] = []
    entries: Sequence[Mapping[str, Any]] = desired.get("gpus") or ()
    for entry in entries:
        layout = entry.get("instances") or {}
        for other, indexes in groups:
            if other == layout:
                indexes.append(entry["index"])
                break
        else:
            groups.append((layout, [entry["index"]]))
    written = ", ".join(
        f"{{index: {indexes}, layout: {{{', '.join(f'{k}: {v}' for k, v in layout.items())}}}}}"
        for layout, indexes in groups
    )
    return f"[{written}]" if written else ""

"""Groups the GPUs of a pool by model, MIG mode and instances, from the agents' reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slicewright.fleet_controller.objects.node import Node
from slicewright.live.views import GpuGroup
from slicewright.telemetry.plain import shortened

_Look = tuple[str, bool | None, tuple[tuple[str, int], ...]]
"""A GPU's model, MIG mode, and number of instances by profile."""
_MIG: Mapping[str, bool] = {"enabled": True, "disabled": False, "unsupported": False}
"""A report's `mig` of a GPU -> its MIG mode."""
_LONGEST_WORD = 253


def gpu_groups(nodes: Sequence[Node], reports: Mapping[str, Any]) -> tuple[GpuGroup, ...]:
    """Groups equal GPUs from the agents' reports, the most frequent first."""
    counts: dict[_Look, list[tuple[str, int]]] = {}
    for node in nodes:
        report = reports.get(node.name) or {}
        models: Sequence[Any] = report.get("models") or ()
        for entry in report.get("gpus") or ():
            model = entry.get("model") or (models[0] if len(models) == 1 else "")
            mig = _MIG.get(str(entry.get("mig")))
            instances = sorted((entry.get("instances") or {}).items())
            look = (
                shortened(str(model), _LONGEST_WORD),
                mig,
                tuple((shortened(profile, _LONGEST_WORD), count) for profile, count in instances),
            )
            counts.setdefault(look, []).append((node.name, len(entry.get("indexes") or ())))
    groups = [_group(*look, per_node) for look, per_node in counts.items()]
    return tuple(sorted(groups, key=lambda group: (-group.gpus, group.model, group.nodes)))


def _group(
    model: str,
    mig: bool | None,
    instances: tuple[tuple[str, int], ...],
    per_node: Sequence[tuple[str, int]],
) -> GpuGroup:
    return GpuGroup(
        model=model,
        mig=mig,
        instances=dict(instances),
        gpus=sum(count for _, count in per_node),
        nodes=tuple(dict.fromkeys(name for name, _ in per_node)),
    )

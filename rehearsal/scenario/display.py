"""The table of what was proven, and the picture of each node's GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from slicewright.rehearsal.scenario.proof import Check, ProvenNode

_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red", "bright_green")
_WIDEST = 100
"""Columns of a picture, also where the terminal has more."""


def table(checks: Sequence[Check]) -> RenderableType:
    """The short table of what was proven."""
    drawn = Table(title="What was proven (clouds and GPUs simulated)", title_justify="left")
    for column in ("", "stack", "fact", "wanted", "found"):
        drawn.add_column(column, overflow="fold")
    for check in checks:
        mark = Text("✓", style="green") if check.holds else Text("✗", style="bold red")
        drawn.add_row(
            mark,
            check.stack,
            check.fact,
            check.wanted,
            Text(check.found, style="" if check.holds else "red"),
        )
    return drawn


def picture(fleet: Sequence[ProvenNode], *, width: int) -> RenderableType:
    """Each GPU as a row of its MIG instances, from the agents' reports; width: of the terminal."""
    width = min(width, _WIDEST)
    drawn: list[RenderableType] = []
    for node in fleet:
        models = sorted({str(gpu["model"]) for gpu in node.gpus if "model" in gpu})
        drawn.append(
            Text(
                f"{node.name} · pool {node.pool} · {node.condition}",
                style="bold",
                overflow="fold",
            )
        )
        drawn.append(Text(f"  {len(node.gpus)} × {' or '.join(models) or 'GPU'}{_sharing(node)}"))
        for gpu in node.gpus:
            drawn += _gpu(gpu, width)
    return Group(*drawn)


def _sharing(node: ProvenNode) -> str:
    if node.desired is None:
        return ""
    return "".join(
        f"; {s.resource}: {s.replicas} replicas of each ({s.strategy})"
        for s in node.desired.sharing
    )


def _gpu(gpu: Mapping[str, Any], width: int) -> list[Text]:
    start = f"  GPU {gpu['index']} "
    match gpu.get("mig"):
        case "enabled":
            return _instances(start, gpu.get("instances") or {}, width)
        case "disabled" | "unsupported":
            return [Text(f"{start} whole")]
        case _:
            return [Text(f"{start} {gpu.get('error', 'not known')}")]


def _instances(start: str, instances: Mapping[str, int], width: int) -> list[Text]:
    """One line, or more where they do not fit."""
    lines = [Text(start)]
    for n, (profile, count) in enumerate(sorted(instances.items(), reverse=True)):
        for _ in range(count):
            box = f"▐{profile}▌"
            if len(lines[-1]) + 1 + len(box) > width and len(lines[-1]) > len(start):
                lines.append(Text(" " * len(start)))
            lines[-1].append(" ")
            lines[-1].append(box, style=f"{_COLOURS[n % len(_COLOURS)]} reverse")
    if not instances:
        lines[-1].append(" MIG mode, no instance")
    return lines

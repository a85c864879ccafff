"""The effect of each field's change on nodes: the rules of the TOML files beside this module."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

RuleTable = Literal[
    "every_pool",
    "gke_pool",
    "eks_pool",
    "karpenter_pool",
    "existing_pool",
    "host",
    "gke_cluster",
    "eks_cluster",
    "existing_cluster",
    "settings",
]
_DIRECTORY: Final = Path(__file__).parent
_FILES: Final = ("pool_rules.toml", "cluster_rules.toml", "settings_rules.toml")


class ChangeEffect(IntEnum):
    """The effect of a change on nodes, from best to worst. A pool has the worst of its changes."""

    NONE = 0
    IN_PLACE = 1
    ROLL = 2
    REPLACE = 3

    @property
    def text(self) -> str:
        return {0: "unchanged", 1: "in place", 2: "roll", 3: "replace"}[self.value]


_EFFECTS: Final = {effect.text.replace(" ", "-"): effect for effect in ChangeEffect}


@dataclass(frozen=True, kw_only=True)
class SpecialCase:
    """Another effect of the same change in a special case."""

    effect: ChangeEffect
    why: str | None = None
    """None: as the rule says."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    field: str
    """Path in the plan, dotted."""
    cloud_field: str
    """The field of the cloud's resource, or the object in the cluster."""
    effect: ChangeEffect
    why: str
    source: str
    node_count: Literal["cloud", "gke"] | None = None
    """Set if the field is a number of nodes: the message then has the old and the new number.

    With `gke`, surplus nodes stay until GKE's autoscaler can spare them. Source: GKE docs, cluster
    autoscaler, minimum and maximum node pool size.
    """
    if_added: SpecialCase | None = None
    """The effect if the field was empty before."""
    if_disjoint: SpecialCase | None = None
    """The effect if an old and a new list have nothing in common."""
    if_nodes_end: SpecialCase | None = None
    """The effect if a change of zones ends nodes that neither count nor limits take away."""


def rules_of(table: RuleTable) -> tuple[Rule, ...]:
    return _tables()[table]


@cache
def _tables() -> Mapping[str, tuple[Rule, ...]]:
    return {table: rules for name in _FILES for table, rules in _read(_DIRECTORY / name).items()}


def _read(path: Path) -> dict[str, tuple[Rule, ...]]:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    texts: Mapping[str, str] = tables.pop("texts", {})
    return {
        table: tuple(rule for row in rows for rule in _rules(row, texts))
        for table, rows in tables.items()
    }


def _rules(row: Mapping[str, Any], texts: Mapping[str, str]) -> Sequence[Rule]:
    """The rules of a row: one for each of its fields."""
    special_cases = {
        key: _special_case(row[key], texts)
        for key in ("if_added", "if_disjoint", "if_nodes_end")
        if key in row
    }
    return [
        Rule(
            field=field,
            cloud_field=cloud_field,
            effect=_EFFECTS[row["effect"]],
            why=_expand(row["why"], texts),
            source=_expand(row["source"], texts),
            node_count=row.get("node_count"),
            **special_cases,
        )
        for field, cloud_field in row["fields"].items()
    ]


def _special_case(row: Mapping[str, str], texts: Mapping[str, str]) -> SpecialCase:
    why = _expand(row["why"], texts) if "why" in row else None
    return SpecialCase(effect=_EFFECTS[row["effect"]], why=why)


def _expand(text: str, texts: Mapping[str, str]) -> str:
    """Returns the text with `{name}` replaced by the text of that name."""
    return re.sub(r"\{(\w+)\}", lambda match: texts[match[1]], text)

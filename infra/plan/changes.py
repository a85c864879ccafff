"""What would change between two plans, pool by pool: in place, roll, or replace, and why. Nothing is asked of a cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infra.plan import change_rules
from infra.plan.change_rules import Effect, Rule
from infra.plan.fleet import ByoFleetPlan, EksFleetPlan, FleetPlan, GkeFleetPlan, PoolPlan

_NOTHING: Any = object()


@dataclass(frozen=True, kw_only=True)
class Change:
    rule: Rule
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class PoolChange:
    name: str
    kind: Literal["same", "changed", "new", "gone"]
    changes: tuple[Change, ...] = ()

    @property
    def effect(self) -> Effect:
        return max((c.rule.effect for c in self.changes), default=Effect.NONE)


@dataclass(frozen=True, kw_only=True)
class FleetChange:
    fleet: tuple[Change, ...]
    """Of the cluster and what all pools share."""
    pools: tuple[PoolChange, ...]

    @property
    def everything(self) -> bool:
        """The cluster itself is replaced, and every pool with it."""
        return any(c.rule.effect is Effect.REPLACE for c in self.fleet)


_OTHER_CLOUD = Rule(
    field="cloud",
    cloud_field="cloud",
    effect=Effect.REPLACE,
    why="everything goes, then everything comes in the other cloud",
    source="slicewright",
)


def compare(before: FleetPlan, after: FleetPlan) -> FleetChange:
    """Pools are known by their names: a pool that is named anew is one gone and one new."""
    if type(before) is not type(after):
        rules: Sequence[Rule] = ()
        fleet = [Change(rule=_OTHER_CLOUD, before=cloud_of(before), after=cloud_of(after))]
    else:
        rules = {
            "gke": change_rules.GKE,
            "eks": change_rules.EKS,
            "byo": change_rules.BYO,
        }[cloud_of(before)]
        fleet = _changes(before, after, change_rules.FLEET)
    old, new = ({pool.name: pool for pool in plan.pools} for plan in (before, after))
    pools = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            pools.append(PoolChange(name=name, kind="gone"))
        elif name not in old:
            pools.append(PoolChange(name=name, kind="new"))
        else:
            pools.append(_pool(old[name], new[name], rules))
    return FleetChange(fleet=tuple(fleet), pools=tuple(pools))


def cloud_of(plan: FleetPlan) -> Literal["gke", "eks", "byo"]:
    match plan:
        case GkeFleetPlan():
            return "gke"
        case EksFleetPlan():
            return "eks"
        case ByoFleetPlan():
            return "byo"


def _pool(before: PoolPlan, after: PoolPlan, rules: Sequence[Rule]) -> PoolChange:
    changes = _changes(before, after, (*rules, *change_rules.IN_CLUSTER))
    # GKE's own sharing is in its pool's fields already.
    if getattr(after, "sharing_strategy", None) or getattr(before, "sharing_strategy", None):
        changes = [c for c in changes if c.rule.field != "shares"]
    ordered = sorted(changes, key=lambda c: -c.rule.effect)
    return PoolChange(name=after.name, kind="changed" if ordered else "same", changes=tuple(ordered))


def _changes(before: Any, after: Any, rules: Sequence[Rule]) -> list[Change]:
    found = []
    for rule in rules:
        old, new = _value(before, rule.field), _value(after, rule.field)
        if old is not _NOTHING and new is not _NOTHING and old != new:
            found.append(Change(rule=rule, before=old, after=new))
    return found


def _value(plan: Any, field: str) -> Any:
    for step in field.split("."):
        plan = getattr(plan, step, _NOTHING)
        if plan is _NOTHING or plan is None:
            return plan
    return plan

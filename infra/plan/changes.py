"""What would change between two plans, pool by pool: in place, roll, or replace, and why. Nothing is asked of a cloud."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infra.plan import change_rules
from infra.plan.change_rules import Effect, Rule
from infra.plan.fleet import ByoFleetPlan, EksFleetPlan, FleetPlan, GkeFleetPlan, PoolPlan
from infra.plan.hosts import HostPlan

_NOTHING: Any = object()
_POOL_RULES = {"gke": change_rules.GKE, "eks": change_rules.EKS, "byo": change_rules.BYO}
_FLEET_RULES = {"gke": change_rules.GKE_FLEET, "eks": change_rules.EKS_FLEET, "byo": change_rules.BYO_FLEET}


@dataclass(frozen=True, kw_only=True)
class Change:
    rule: Rule
    before: Any
    after: Any

    @property
    def effect(self) -> Effect:
        rule = self.rule
        if rule.nothing_stays is not None and not set(self.before or ()) & set(self.after or ()):
            return rule.nothing_stays
        return rule.effect


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """A pool, or a host without Kubernetes."""

    name: str
    kind: Literal["same", "changed", "new", "gone"]
    changes: tuple[Change, ...] = ()

    @property
    def effect(self) -> Effect:
        return max((c.effect for c in self.changes), default=Effect.NONE)


@dataclass(frozen=True, kw_only=True)
class FleetChange:
    fleet: tuple[Change, ...]
    """Of the cluster and what all pools share."""
    pools: tuple[PartChange, ...]
    hosts: tuple[PartChange, ...]

    @property
    def everything(self) -> bool:
        """The cluster itself is replaced, and every pool with it."""
        return any(c.effect is Effect.REPLACE and c.rule.field.split(".")[0] in ("cloud", "cluster") for c in self.fleet)


_OTHER_CLOUD = Rule(
    field="cloud",
    cloud_field="cloud",
    effect=Effect.REPLACE,
    why="everything goes, then everything comes in the other cloud",
    source="slicewright",
)


def compare(before: FleetPlan, after: FleetPlan) -> FleetChange:
    """Pools and hosts are known by their names: one that is named anew is one gone and one new."""
    cloud = cloud_of(after)
    if cloud != cloud_of(before):
        pool_rules: Sequence[Rule] = ()
        fleet = [Change(rule=_OTHER_CLOUD, before=cloud_of(before), after=cloud)]
    else:
        pool_rules = (*_POOL_RULES[cloud], *change_rules.IN_CLUSTER)
        fleet = _changes(before, after, (*_FLEET_RULES[cloud], *change_rules.FLEET))
    return FleetChange(
        fleet=tuple(fleet),
        pools=_parts(before.pools, after.pools, pool_rules),
        hosts=_parts(_hosts(before), _hosts(after), change_rules.HOST),
    )


def cloud_of(plan: FleetPlan) -> Literal["gke", "eks", "byo"]:
    match plan:
        case GkeFleetPlan():
            return "gke"
        case EksFleetPlan():
            return "eks"
        case ByoFleetPlan():
            return "byo"


def _hosts(plan: FleetPlan) -> tuple[HostPlan, ...]:
    return plan.hosts if isinstance(plan, ByoFleetPlan) else ()


def _parts(
    before: Sequence[PoolPlan | HostPlan], after: Sequence[PoolPlan | HostPlan], rules: Sequence[Rule]
) -> tuple[PartChange, ...]:
    old, new = ({part.name: part for part in parts} for parts in (before, after))
    found = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            found.append(PartChange(name=name, kind="gone"))
        elif name not in old:
            found.append(PartChange(name=name, kind="new"))
        else:
            found.append(_part(old[name], new[name], rules))
    return tuple(found)


def _part(before: PoolPlan | HostPlan, after: PoolPlan | HostPlan, rules: Sequence[Rule]) -> PartChange:
    changes = _changes(before, after, rules)
    # GKE's own sharing is in its pool's fields already.
    if getattr(after, "sharing_strategy", None) or getattr(before, "sharing_strategy", None):
        changes = [c for c in changes if c.rule.field != "shares"]
    ordered = sorted(changes, key=lambda c: -c.effect)
    return PartChange(name=after.name, kind="changed" if ordered else "same", changes=tuple(ordered))


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

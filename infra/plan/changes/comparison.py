"""The changes between two plans, pool by pool: in place, roll, or replace, and the reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infra.plan.changes import rules as change_rules
from infra.plan.changes.rules import ChangeEffect, Rule
from infra.plan.model.fleets import EksFleetPlan, ExistingFleetPlan, FleetPlan, GkeFleetPlan
from infra.plan.model.hosts import HostPlan
from infra.plan.model.nodes import NodeCount
from infra.plan.model.pools import CloudSettings, PlannedPool, PoolPlan

_NOTHING: Any = object()


_POOL_RULES = {"gke": change_rules.GKE, "eks": change_rules.EKS, "byo": change_rules.BYO}
_FLEET_RULES = {
    "gke": change_rules.GKE_FLEET,
    "eks": change_rules.EKS_FLEET,
    "byo": change_rules.BYO_FLEET,
}


@dataclass(frozen=True, kw_only=True)
class Change:
    rule: Rule
    before: Any
    after: Any
    replaced: bool = False
    """Whether its pool's nodes are all replaced, be it for another change."""
    moved: bool = False
    """Whether its pool's zones change too, which ends more nodes than the change of their number.
    """
    some_end: bool = False
    """Whether a change of zones ends nodes."""

    @property
    def why(self) -> str:
        if self._at_first and self.rule.why_at_first is not None:
            return self.rule.why_at_first
        if self.effect is ChangeEffect.REPLACE:
            return self.rule.why_nothing_stays or self.rule.why
        if self.replaced:
            return _NEW_NODES
        if self.rule.why == change_rules.COUNTED and not self.moved:
            return _counted(self.before, self.after)
        if self.rule.why == change_rules.COUNTED_BY_GKE and not self.moved:
            return _counted(self.before, self.after, spared=self.after.autoscaled)
        return self.rule.why

    @property
    def effect(self) -> ChangeEffect:
        rule = self.rule
        if self._at_first and rule.at_first is not None:
            return rule.at_first
        if rule.nothing_stays is not None and not set(self.before or ()) & set(self.after or ()):
            return rule.nothing_stays
        if rule.some_end is not None and self.some_end:
            return rule.some_end
        return rule.effect

    @property
    def _at_first(self) -> bool:
        return self.before is None


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """A pool, or a host without Kubernetes."""

    name: str
    kind: Literal["same", "changed", "new", "gone"]
    effect: ChangeEffect
    """The worst that happens to existing nodes and the pods on them, or to a host's GPUs."""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FleetChange:
    fleet: tuple[Change, ...]
    """Changes of the cluster and of settings that all pools share."""
    pools: tuple[PartChange, ...]
    hosts: tuple[PartChange, ...]

    @property
    def everything(self) -> bool:
        """The cluster is replaced or is another one, and every pool with it."""
        return _other_cluster(self.fleet)


_LIVE = "the nodes that are there stay"
_NEW_NODES = "all nodes are replaced anyway; the new ones have it"
_OTHER_CLOUD = Rule(
    field="cloud",
    cloud_field="cloud",
    effect=ChangeEffect.REPLACE,
    why="everything is deleted, then created in the other cloud",
    source="slicewright",
)


_OF_A_MADE_CLUSTER = frozenset(
    f"cluster.{field}" for field in ("addons", "nat_zones", "own_vpc", "pool_zones", "zones")
)
"""Fields of a cluster that the stack makes. The plan of an existing cluster has none of them, and
they stay as they are.
"""
_FORGOTTEN = Rule(
    field="previous",
    cloud_field="ConfigMap of mig-manager",
    effect=ChangeEffect.ROLL,
    why="nodes whose turn has not come, or that pods hold, lose their layout by GPU index at "
    "mig-manager's next start, for example after a reboot: list it under partition.previous until "
    "no node has it",
    source="NVIDIA/mig-parted, cmd/nvidia-mig-manager: selected mig-config not present",
)


def compare(before: FleetPlan, after: FleetPlan) -> FleetChange:
    """Pools and hosts are matched by name: a renamed one is one gone and one new."""
    cloud = cloud_of(after)
    if cloud != cloud_of(before):
        pool_rules: Sequence[Rule] = ()
        fleet = [Change(rule=_OTHER_CLOUD, before=cloud_of(before), after=cloud)]
    else:
        pool_rules = _POOL_RULES[cloud]
        fleet = _of_system(_changes(before, after, (*_FLEET_RULES[cloud], *change_rules.FLEET)))
        if any(c.rule.field == "cluster.existing" for c in fleet):
            fleet = [c for c in fleet if c.rule.field not in _OF_A_MADE_CLUSTER]
        fleet = _with_ended(fleet, getattr(before, "system", None), getattr(after, "system", None))
    return FleetChange(
        fleet=tuple(fleet),
        pools=_parts(before.pools, after.pools, pool_rules, elsewhere=_other_cluster(fleet)),
        hosts=_parts(_hosts(before), _hosts(after), change_rules.HOST, elsewhere=False),
    )


def cloud_of(plan: FleetPlan) -> Literal["gke", "eks", "byo"]:
    match plan:
        case GkeFleetPlan():
            return "gke"
        case EksFleetPlan():
            return "eks"
        case ExistingFleetPlan():
            return "byo"


def _hosts(plan: FleetPlan) -> tuple[HostPlan, ...]:
    return plan.hosts if isinstance(plan, ExistingFleetPlan) else ()


def _of_system(changes: Sequence[Change]) -> list[Change]:
    """The same changes. The system pool's tell whether all of its nodes are replaced, and whether
    its zones change.
    """
    own = [c for c in changes if c.rule.field.startswith("system.")]
    replaced = any(c.effect is ChangeEffect.REPLACE for c in own)
    moved = any(c.rule.field == "system.zones" for c in own)
    return [
        dataclasses.replace(c, replaced=replaced and c in own, moved=moved and c in own)
        for c in changes
    ]


def _with_ended(changes: Sequence[Change], before: Any, after: Any) -> list[Change]:
    """The same changes. Changes of zones tell whether they end nodes. before, after: the pool."""
    return [
        dataclasses.replace(c, some_end=_zones_end_nodes(before, after))
        if c.rule.some_end is not None
        else c
        for c in changes
    ]


def _zones_end_nodes(before: Any, after: Any) -> bool:
    """Whether a zone goes, or each zone gets fewer nodes: GKE counts fixed ones per zone.

    before, after: a pool of a cloud, or its system pool.
    """
    old_zones, new_zones = _value(before, "zones"), _value(after, "zones")
    if set(old_zones) - set(new_zones):
        return True
    if before.nodes.autoscaled or after.nodes.autoscaled:
        return False
    return bool(before.nodes.max * len(new_zones) > after.nodes.max * len(old_zones))


def _counted(before: NodeCount, after: NodeCount, *, spared: bool = False) -> str:
    """A text on the nodes of a pool that changes in nothing but their number.

    spared: whether surplus nodes stay until GKE's autoscaler can spare them.
    """
    if before.min == before.max and after.min == after.max and not spared:
        difference, stay = after.min - before.min, min(before.min, after.min)
        if difference == 0:
            return _LIVE
        changed = f"{_nodes(abs(difference))} {'added' if difference > 0 else 'removed'}"
        return f"{changed}; {'the other stays' if stay == 1 else f'the other {stay} stay'}"
    limits = []
    if after.min > before.min:
        limits.append(f"where there are fewer than {after.min}, nodes are added")
    if after.max < before.max and spared:
        limits.append(
            f"GKE's autoscaler takes nodes beyond {after.max} away when it can spare them"
        )
    elif after.max < before.max:
        limits.append(f"where there are more than {after.max}, nodes are removed")
    return "; ".join(limits) or _LIVE


def _nodes(count: int) -> str:
    return "1 node is" if count == 1 else f"{count} nodes are"


def _other_cluster(fleet: Iterable[Change]) -> bool:
    return any(
        c.effect is ChangeEffect.REPLACE and c.rule.field.split(".")[0] in ("cloud", "cluster")
        for c in fleet
    )


def _parts(
    before: Sequence[PoolPlan | HostPlan],
    after: Sequence[PoolPlan | HostPlan],
    rules: Sequence[Rule],
    *,
    elsewhere: bool,
) -> tuple[PartChange, ...]:
    """elsewhere: the cluster is another one, so that parts of the same name are not the same."""
    old, new = ({part.name: part for part in parts} for parts in (before, after))
    found = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            found.append(PartChange(name=name, kind="gone", effect=_going(old[name])))
        elif name not in old:
            found.append(PartChange(name=name, kind="new", effect=_coming(new[name])))
        else:
            found.append(_part(old[name], new[name], rules, elsewhere=elsewhere))
    return tuple(found)


def _going(part: PoolPlan | HostPlan) -> ChangeEffect:
    """A cloud deletes the nodes of a deleted pool. Existing nodes and hosts stay as they are."""
    return ChangeEffect.REPLACE if _creates_machines(part) else ChangeEffect.IN_PLACE


def _creates_machines(part: PoolPlan | HostPlan) -> bool:
    return isinstance(part, PlannedPool) and isinstance(part.settings, CloudSettings)


def _coming(part: PoolPlan | HostPlan) -> ChangeEffect:
    """A new machine has no pods yet. On an existing one, the GPUs are partitioned."""
    match part:
        case PlannedPool():
            partitioned = part.offer.partitioned and not _creates_machines(part)
        case HostPlan():
            partitioned = bool(part.gpus)
    return ChangeEffect.ROLL if partitioned else ChangeEffect.IN_PLACE


def _part(
    before: PoolPlan | HostPlan,
    after: PoolPlan | HostPlan,
    rules: Sequence[Rule],
    *,
    elsewhere: bool,
) -> PartChange:
    if isinstance(before, PlannedPool) and rules:
        rules = (*_of_maker(before, after, rules), *change_rules.IN_CLUSTER)
    changes = _with_ended(_changes(before, after, rules), before, after)
    # GKE's own sharing is among the pool's other fields.
    if any(_value(pool, "sharing_strategy") not in (None, _NOTHING) for pool in (before, after)):
        changes = [c for c in changes if c.rule.field != "sharing"]
    if isinstance(before, PlannedPool) and isinstance(after, PlannedPool):
        changes += _forgotten(before, after)
    ordered = sorted(changes, key=lambda c: -c.effect)
    effects = [c.effect for c in ordered] + ([_going(before), _coming(after)] if elsewhere else [])
    worst = max(effects, default=ChangeEffect.NONE)
    moved = any(c.rule.field == "zones" for c in ordered)
    return PartChange(
        name=after.name,
        kind="changed" if ordered else "same",
        effect=worst,
        changes=tuple(
            dataclasses.replace(c, replaced=worst is ChangeEffect.REPLACE, moved=moved)
            for c in ordered
        ),
    )


def _of_maker(
    before: PoolPlan | HostPlan, after: PoolPlan | HostPlan, rules: Sequence[Rule]
) -> Sequence[Rule]:
    """Karpenter's rules if it makes the nodes both before and after, else `rules`."""
    karpenter = [_value(pool, "karpenter") not in (None, _NOTHING) for pool in (before, after)]
    return change_rules.KARPENTER if all(karpenter) else rules


def _forgotten(before: PoolPlan, after: PoolPlan) -> list[Change]:
    """An earlier layout by GPU index that mig-manager would no longer know."""
    if before.offer.layout is not None or after.offer.mig_config is None:
        return []
    if before.offer.layouts in (after.offer.layouts, *after.offer.previous):
        return []
    return [Change(rule=_FORGOTTEN, before=before.offer.mig_config, after=None)]


def _changes(before: Any, after: Any, rules: Sequence[Rule]) -> list[Change]:
    found = []
    for rule in rules:
        old, new = _value(before, rule.field), _value(after, rule.field)
        if old is not _NOTHING and new is not _NOTHING and old != new:
            found.append(Change(rule=rule, before=old, after=new))
    return found


def _value(plan: Any, field: str) -> Any:
    """The value at a path in a plan. A pool's offer and settings count as the pool itself."""
    if isinstance(plan, PlannedPool):
        first = field.split(".")[0]
        holders = (plan, plan.settings, plan.offer)
        plan = next((holder for holder in holders if hasattr(holder, first)), plan)
    for step in field.split("."):
        plan = getattr(plan, step, _NOTHING)
        if plan is _NOTHING or plan is None:
            return plan
    return plan

"""The changes between two plans, pool by pool: in place, roll, or replace, and the reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final, Literal

from slicewright.infra.plan.changes.change import Change, FleetChange, PartChange, replaces_cluster
from slicewright.infra.plan.changes.rules import ChangeEffect, Rule, RuleTable, rules_of
from slicewright.infra.plan.model.fleets import (
    EksFleetPlan,
    ExistingFleetPlan,
    FleetPlan,
    GkeFleetPlan,
)
from slicewright.infra.plan.model.hosts import HostPlan
from slicewright.infra.plan.model.pools import (
    CloudSettings,
    PlannedPool,
    PoolPlan,
    SystemPoolPlan,
)

Cloud = Literal["gke", "eks", "byo"]
_ABSENT: Final[Any] = object()
_POOL_RULES: Final[dict[Cloud, RuleTable]] = {
    "gke": "gke_pool",
    "eks": "eks_pool",
    "byo": "existing_pool",
}
_CLUSTER_RULES: Final[dict[Cloud, RuleTable]] = {
    "gke": "gke_cluster",
    "eks": "eks_cluster",
    "byo": "existing_cluster",
}
_OTHER_CLOUD: Final = Rule(
    field="cloud",
    cloud_field="cloud",
    effect=ChangeEffect.REPLACE,
    why="everything is deleted, then created in the other cloud",
    source="slicewright",
)
_FORGOTTEN_LAYOUT: Final = Rule(
    field="previous",
    cloud_field="ConfigMap of mig-manager",
    effect=ChangeEffect.ROLL,
    why="nodes whose turn has not come, or that pods hold, lose their layout by GPU index at "
    "mig-manager's next start, for example after a reboot: list it under partition.previous until "
    "no node has it",
    source="NVIDIA/mig-parted, cmd/nvidia-mig-manager: selected mig-config not present",
)
_SYSTEM_POOL_CREATED: Final = Rule(
    field="system",
    cloud_field="system pool",
    effect=ChangeEffect.IN_PLACE,
    why="its nodes are added",
    source="slicewright",
)
_SYSTEM_POOL_DELETED: Final = Rule(
    field="system",
    cloud_field="system pool",
    effect=ChangeEffect.REPLACE,
    why="its nodes are deleted, and their pods move to other nodes or stay pending",
    source="GKE and EKS APIs: a node pool is deleted with its nodes",
)
_CREATED_CLUSTER_FIELDS: Final = frozenset(
    f"cluster.{field}" for field in ("addons", "nat_zones", "own_vpc", "pool_zones", "zones")
)
"""Fields of a cluster that the stack creates. The plan of an existing cluster has none of them, and
they stay as they are.
"""


def compare(before: FleetPlan, after: FleetPlan) -> FleetChange:
    """Pools and hosts are matched by name: a renamed one is one gone and one new."""
    cloud, earlier_cloud = cloud_of(after), cloud_of(before)
    pool_rules: Sequence[Rule] = ()
    if cloud != earlier_cloud:
        fleet = [Change(rule=_OTHER_CLOUD, before=earlier_cloud, after=cloud)]
    else:
        fleet = _compare_clusters(before, after, cloud)
        pool_rules = rules_of(_POOL_RULES[cloud])
    return FleetChange(
        fleet=tuple(fleet),
        pools=_compare_parts(
            before.pools, after.pools, pool_rules, cluster_replaced=replaces_cluster(fleet)
        ),
        hosts=_compare_parts(
            _hosts(before), _hosts(after), rules_of("host"), cluster_replaced=False
        ),
    )


def cloud_of(plan: FleetPlan) -> Cloud:
    match plan:
        case GkeFleetPlan():
            return "gke"
        case EksFleetPlan():
            return "eks"
        case ExistingFleetPlan():
            return "byo"


def _hosts(plan: FleetPlan) -> tuple[HostPlan, ...]:
    return plan.hosts if isinstance(plan, ExistingFleetPlan) else ()


def _compare_clusters(before: FleetPlan, after: FleetPlan, cloud: Cloud) -> list[Change]:
    rules = (*rules_of(_CLUSTER_RULES[cloud]), *rules_of("settings"))
    old_pool, new_pool = _system_pool(before), _system_pool(after)
    both_have_a_system_pool = old_pool is not None and new_pool is not None
    if not both_have_a_system_pool:
        rules = tuple(rule for rule in rules if not rule.field.startswith("system."))
    changes = _mark_system_pool(_changed_fields(before, after, rules))
    if any(change.rule.field == "cluster.existing" for change in changes):
        changes = [c for c in changes if c.rule.field not in _CREATED_CLUSTER_FIELDS]
    if both_have_a_system_pool:
        return _mark_ended_nodes(changes, old_pool, new_pool)
    return changes + _created_or_deleted_system_pool(old_pool, new_pool)


def _system_pool(fleet: FleetPlan) -> SystemPoolPlan | None:
    """The pool for controllers. An existing GKE cluster may do without, and hosts have none."""
    return None if isinstance(fleet, ExistingFleetPlan) else fleet.system


def _created_or_deleted_system_pool(
    before: SystemPoolPlan | None, after: SystemPoolPlan | None
) -> list[Change]:
    if before is None and after is not None:
        return [Change(rule=_SYSTEM_POOL_CREATED, before=None, after=after.nodes)]
    if before is not None and after is None:
        return [Change(rule=_SYSTEM_POOL_DELETED, before=before.nodes, after=None)]
    return []


def _mark_system_pool(changes: Sequence[Change]) -> list[Change]:
    """Marks the system pool's changes if all of its nodes are replaced, or if its zones change."""
    of_pool = [change for change in changes if change.rule.field.startswith("system.")]
    replaced = any(change.effect is ChangeEffect.REPLACE for change in of_pool)
    zones_change = any(change.rule.field == "system.zones" for change in of_pool)
    return [
        dataclasses.replace(change, replaced=replaced, zones_change=zones_change)
        if change in of_pool
        else change
        for change in changes
    ]


def _mark_ended_nodes(changes: Sequence[Change], before: Any, after: Any) -> list[Change]:
    """Marks changes of zones that end nodes. before, after: the pool."""
    return [
        dataclasses.replace(change, nodes_end=_zones_end_nodes(before, after))
        if change.rule.if_nodes_end is not None
        else change
        for change in changes
    ]


def _zones_end_nodes(before: Any, after: Any) -> bool:
    """True if a zone goes, or each zone gets fewer nodes: GKE counts fixed ones per zone.

    before, after: a pool of a cloud, or its system pool.
    """
    old_zones, new_zones = _value_at(before, "zones"), _value_at(after, "zones")
    if set(old_zones) - set(new_zones):
        return True
    if before.nodes.autoscaled or after.nodes.autoscaled:
        return False
    return bool(before.nodes.max * len(new_zones) > after.nodes.max * len(old_zones))


def _compare_parts(
    before: Sequence[PoolPlan | HostPlan],
    after: Sequence[PoolPlan | HostPlan],
    rules: Sequence[Rule],
    *,
    cluster_replaced: bool,
) -> tuple[PartChange, ...]:
    """cluster_replaced: parts of the same name are not the same."""
    old, new = ({part.name: part for part in parts} for parts in (before, after))
    changes = []
    for name in dict.fromkeys([*old, *new]):
        if name not in new:
            changes.append(PartChange(name=name, kind="gone", effect=_removal_effect(old[name])))
        elif name not in old:
            changes.append(PartChange(name=name, kind="new", effect=_addition_effect(new[name])))
        else:
            changes.append(
                _compare_part(old[name], new[name], rules, cluster_replaced=cluster_replaced)
            )
    return tuple(changes)


def _removal_effect(part: PoolPlan | HostPlan) -> ChangeEffect:
    """A cloud deletes the nodes of a deleted pool. Existing nodes and hosts stay as they are."""
    return ChangeEffect.REPLACE if _creates_machines(part) else ChangeEffect.IN_PLACE


def _creates_machines(part: PoolPlan | HostPlan) -> bool:
    return isinstance(part, PlannedPool) and isinstance(part.settings, CloudSettings)


def _addition_effect(part: PoolPlan | HostPlan) -> ChangeEffect:
    """A new machine has no pods yet. On an existing one, the GPUs are partitioned."""
    match part:
        case PlannedPool():
            partitioned = part.offer.partitioned and not _creates_machines(part)
        case HostPlan():
            partitioned = bool(part.gpus)
    return ChangeEffect.ROLL if partitioned else ChangeEffect.IN_PLACE


def _compare_part(
    before: PoolPlan | HostPlan,
    after: PoolPlan | HostPlan,
    rules: Sequence[Rule],
    *,
    cluster_replaced: bool,
) -> PartChange:
    changes = sorted(_part_changes(before, after, rules), key=lambda change: -change.effect)
    effects = [change.effect for change in changes]
    if cluster_replaced:
        effects += [_removal_effect(before), _addition_effect(after)]
    worst = max(effects, default=ChangeEffect.NONE)
    zones_change = any(change.rule.field == "zones" for change in changes)
    return PartChange(
        name=after.name,
        kind="changed" if changes else "same",
        effect=worst,
        changes=tuple(
            dataclasses.replace(
                change, replaced=worst is ChangeEffect.REPLACE, zones_change=zones_change
            )
            for change in changes
        ),
    )


def _part_changes(
    before: PoolPlan | HostPlan, after: PoolPlan | HostPlan, rules: Sequence[Rule]
) -> list[Change]:
    if isinstance(before, PlannedPool) and rules:
        # Karpenter's rules hold if it makes the nodes both before and after.
        karpenter = all(
            _value_at(pool, "karpenter") not in (_ABSENT, None) for pool in (before, after)
        )
        rules = (*(rules_of("karpenter_pool") if karpenter else rules), *rules_of("every_pool"))
    changes = _mark_ended_nodes(_changed_fields(before, after, rules), before, after)
    # GKE's own sharing is among the pool's other fields.
    if any(_value_at(pool, "sharing_strategy") not in (_ABSENT, None) for pool in (before, after)):
        changes = [change for change in changes if change.rule.field != "sharing"]
    if isinstance(after, PlannedPool) and after.boot_layout is not None:
        # The nodes that mig-manager has partitioned are replaced, and it stays off the new ones.
        changes = [change for change in changes if change.rule.field != "mig_config"]
    if isinstance(before, PlannedPool) and isinstance(after, PlannedPool):
        changes += _forgotten_layouts(before, after)
    return changes


def _forgotten_layouts(before: PoolPlan, after: PoolPlan) -> list[Change]:
    """An earlier layout by GPU index that mig-manager would no longer know."""
    if before.offer.layout is not None or after.offer.mig_config is None:
        return []
    if before.offer.layouts in (after.offer.layouts, *after.offer.previous):
        return []
    return [Change(rule=_FORGOTTEN_LAYOUT, before=before.offer.mig_config, after=None)]


def _changed_fields(before: Any, after: Any, rules: Sequence[Rule]) -> list[Change]:
    changes = []
    for rule in rules:
        old, new = _value_at(before, rule.field), _value_at(after, rule.field)
        if old is not _ABSENT and new is not _ABSENT and old != new:
            changes.append(Change(rule=rule, before=old, after=new))
    return changes


def _value_at(plan: Any, field: str) -> Any:
    """The value at a path in a plan. A pool's offer and settings count as the pool itself."""
    if isinstance(plan, PlannedPool):
        first = field.split(".")[0]
        holders = (plan, plan.settings, plan.offer)
        plan = next((holder for holder in holders if hasattr(holder, first)), plan)
    for step in field.split("."):
        plan = getattr(plan, step, _ABSENT)
        if plan is _ABSENT or plan is None:
            return plan
    return plan

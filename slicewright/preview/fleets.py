"""The parts of a report that come from the stack files: effects on nodes, and costs."""

from __future__ import annotations

from dataclasses import dataclass

from slicewright.infra import plan
from slicewright.infra.plan import ChangeEffect
from slicewright.infra.plan.machines import prices
from slicewright.preview.elements import ROWS, table
from slicewright.preview.escaping import code, text
from slicewright.show.change_text import nodes_text, step_text
from slicewright.show.cost_text import range_text


@dataclass(frozen=True, kw_only=True)
class Fleets:
    after: plan.FleetPlan
    before: plan.FleetPlan | None
    living: str = ""
    """The section on nodes in service. Empty if the cluster was not asked."""


def pools(fleets: Fleets) -> str:
    """Returns the section on pools. Pulumi's preview lacks the effects on remaining nodes."""
    if fleets.before is None:
        return ""
    change = plan.compare(fleets.before, fleets.after)
    sizes = {pool.name: nodes_text(pool.nodes) for pool in fleets.before.pools}
    rows = [
        (
            code(pool.name),
            _kind(pool),
            sizes.get(pool.name, "none"),
            "<br>".join(_field(field_change) for field_change in pool.changes),
        )
        for pool in change.pools
        if pool.kind != "same" or pool.effect is not ChangeEffect.NONE
    ]
    fleet = [f"- {_field(field_change)}" for field_change in change.fleet]
    if not rows and not fleet:
        return ""
    heading = "### Pools, by the stack file"
    parts = []
    if rows:
        header = ("pool", "effect on its nodes", "current nodes", "changes")
        parts.append(table(header, rows, at_most=ROWS))
    if fleet:
        parts.append("The cluster and all pools:\n" + "\n".join(fleet))
    return "\n\n".join((heading, *parts))


def _kind(pool: plan.PartChange) -> str:
    match pool.kind:
        case "new":
            return "new"
        case "gone":
            return "🔴 deleted"
        case _:
            marks = {ChangeEffect.REPLACE: "🔴 ", ChangeEffect.ROLL: "🟡 "}
            return f"{marks.get(pool.effect, '')}{pool.effect.text}"


def _field(change: plan.Change) -> str:
    difference = f"{change.rule.field} {step_text(change.before, change.after)}"
    return f"{change.effect.text}: {text(difference)} ({text(change.why)})"


def cost(fleets: Fleets) -> str:
    if isinstance(fleets.after, plan.ExistingFleetPlan):
        return ""
    after = prices.fleet_cost(fleets.after)
    if not after.priced:
        return ""
    lines = [f"### Cost\n\n{range_text(after)}"]
    before = fleets.before
    if before is not None and not isinstance(before, plan.ExistingFleetPlan):
        old = prices.fleet_cost(before)
        if old.priced:
            lines = [
                f"### Cost\n\n{range_text(old)} → {range_text(after)}{_difference(old, after)}"
            ]
    if after.missing:
        lines.append(f"Not included: {', '.join(code(name) for name, _ in after.missing)}.")
    lines.append(f"At public prices; never included: {', '.join(prices.NOT_INCLUDED)}.")
    return "\n".join(lines)


def _difference(old: prices.Cost, new: prices.Cost) -> str:
    """Compares the maximum costs. Empty if the two sums leave out different pools."""
    if {name for name, _ in old.missing} != {name for name, _ in new.missing}:
        return ""
    more = new.most - old.most
    if abs(more) < 0.005:
        return ""
    return f" ({abs(more):.2f} USD/h {'more' if more > 0 else 'less'} at most)"

"""The state of a fleet as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from slicewright.infra.catalog import Gpu, load
from slicewright.live.objects import lines_of
from slicewright.live.output.cards_text import card_lines
from slicewright.live.views import (
    Fleet,
    GpuGroup,
    NodeView,
    PoolView,
    ProofView,
    RolloutView,
    State,
)
from slicewright.show.picture import draw, placements_of
from slicewright.telemetry.plain import plain

_STYLES: Mapping[State, str] = {
    State.VERIFIED: "green",
    State.SETTING_UP: "yellow",
    State.CHANGING: "yellow",
    State.STOPPED: "magenta",
    State.UNDONE: "magenta",
    State.DEGRADED: "red",
    State.MISSING: "red",
}
_MOST_NODES = 12
"""Number of nodes of a pool that are listed, unless all are requested."""
_MOST_PODS = 5
_MOST_UNREAD = 10
_MOST_NAMES = 6
_MOST_WAVES = 4
_MOST_GROUPS = 4
_NARROWEST = 60


def lines(fleet: Fleet, *, where: str, now: float, width: int, every_node: bool) -> list[Text]:
    """Returns the whole state.

    `where` names the cluster, `now` is in seconds since the epoch, and `width` in columns.
    """
    written = [Text(f"{plain(where)}: {_summary(fleet)}", style="bold")]
    written += [Text(f"note: {note}", style="yellow") for note in fleet.notes]
    written += [
        Text(f"unread: {line}", style="red") for line in lines_of(fleet.unread, _MOST_UNREAD)
    ]
    for pool in fleet.pools:
        written.append(Text(""))
        written += _pool(pool, now, width, every_node)
    return written


def log_lines(before: Fleet | None, after: Fleet) -> list[str]:
    """Returns a log line for each change; `before` is None at first."""
    old = {pool.name: pool for pool in before.pools} if before else {}
    written = [note for note in after.notes if before is None or note not in before.notes]
    unread = [item for item in after.unread if before is None or item not in before.unread]
    written += [f"unread: {line}" for line in lines_of(unread, _MOST_UNREAD)]
    for pool in after.pools:
        was = old.get(pool.name)
        if was is None or _pool_key(was) != _pool_key(pool):
            written.append(f"pool {pool.name}: {pool.state.value}: {pool.reason}: {pool.message}")
        nodes = {node.name: node for node in was.nodes} if was else {}
        written += [
            f"pool {pool.name}: node {node.name}: {_doing(node)}: {node.reason}: {node.message}"
            for node in pool.nodes
            if (node.name not in nodes or _node_key(nodes[node.name]) != _node_key(node))
            and not (was is None and node.verified)
        ]
        written += [
            f"pool {pool.name}: node {name}: gone"
            for name in nodes.keys() - {node.name for node in pool.nodes}
        ]
    written += [f"pool {name}: gone" for name in old.keys() - {pool.name for pool in after.pools}]
    return written


def _pool_key(pool: PoolView) -> tuple[State, str, str]:
    return pool.state, pool.reason, pool.message


def _node_key(node: NodeView) -> tuple[str, str, bool, bool, bool]:
    return node.phase, node.reason, node.held, node.quarantined, node.cordoned


def _summary(fleet: Fleet) -> str:
    if not fleet.pools:
        return "no readable GPUPool" if fleet.unread else "no GPUPool"
    counts = {state: sum(pool.state is state for pool in fleet.pools) for state in State}
    states = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
    return f"{_many(len(fleet.pools), 'pool')}, {states}"


def _pool(pool: PoolView, now: float, width: int, every_node: bool) -> Iterator[Text]:
    head = Text(f"pool {pool.name}  ", style="bold")
    head.append(pool.state.value, style=_STYLES[pool.state])
    if pool.state is not State.MISSING:
        head.append(f"  {_counts(pool)}", style="not bold")
    yield head
    yield Text(f"  {pool.reason}: {pool.message}")
    for group in pool.gpus[:_MOST_GROUPS]:
        yield from _group(group, width)
    if len(pool.gpus) > _MOST_GROUPS:
        yield Text(f"  and {len(pool.gpus) - _MOST_GROUPS} more states of GPUs", style="dim")
    if pool.cards is not None:
        yield from card_lines(pool.cards, every_card=every_node)
    if pool.proof is not None:
        yield from _proof(pool.proof)
    listed = [n for n in pool.nodes if every_node or _worth_a_line(n)]
    cut = len(listed) if every_node else _MOST_NODES
    for node in listed[:cut]:
        yield from _node(node, now)
    if len(listed) > cut:
        yield Text(
            f"  and {_many(len(listed) - cut, 'more node')} not healthy; --all shows every node",
            style="dim",
        )
    if pool.rollout is not None:
        yield from _rollout(pool.rollout)
    for step in pool.next:
        yield Text(f"  → {step}", style="cyan")


def _worth_a_line(node: NodeView) -> bool:
    """Returns False for healthy nodes, also while they wait in the queue and accept pods."""
    quiet = node.verified or node.reason == "WaitsForItsTurn"
    return bool(node.phase) or not quiet or node.held or node.cordoned or not node.ready


def _counts(pool: PoolView) -> str:
    fewest, most = pool.node_bounds
    bounds = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    parts = [f"{pool.verified} of {_many(pool.total, 'node')} verified ({bounds} desired)"]
    if pool.held:
        parts.append(f"{pool.held} held from pods")
    if pool.layout:
        parts.append(f"layout {pool.layout}")
    return ", ".join(parts)


def _group(group: GpuGroup, width: int) -> Iterator[Text]:
    model = group.model or "GPUs of an unknown model"
    yield Text(f"  {group.gpus} x {model}, {_partitions(group)}: on {_names(group.nodes)}")
    gpu = gpu_of(group.model)
    if gpu is None or gpu.family is None or not group.instances:
        return
    placed = placements_of(gpu, group.instances)
    if not placed:
        return
    for line in draw(gpu, placed, width=max(_NARROWEST, width) - 6):
        yield Text("    ") + line


def _proof(proof: ProofView) -> Iterator[Text]:
    devices = f"{_many(proof.devices, 'device')} of {_many(proof.proven, 'node')}"
    rates = ""
    if proof.read_gb_s is not None:
        slowest, fastest = proof.read_gb_s
        rates = f", reading {slowest} to {fastest} GB/s"
    without = f"; no proof yet: {_names(proof.without)}" if proof.without else ""
    yield Text(f"  CUDA has computed on {devices}{rates}{without}")
    for device in proof.failed[:_MOST_GROUPS]:
        yield Text(f"  node {device.node}: {device.uuid} {device.outcome}: {device.error}")
    if len(proof.failed) > _MOST_GROUPS:
        rest = len(proof.failed) - _MOST_GROUPS
        yield Text(f"  and {_many(rest, 'more device')} without a result", style="dim")


def _partitions(group: GpuGroup) -> str:
    """Describes how the GPUs are partitioned, as far as it is known."""
    if group.instances:
        return "each " + ", ".join(f"{n} x {profile}" for profile, n in group.instances.items())
    return {True: "MIG on without a partition", False: "whole", None: "state unknown"}[group.mig]


def gpu_of(model: str) -> Gpu | None:
    """Returns the catalog's row for a product name of NVML."""
    return next((gpu for gpu in load().gpus.values() if model in gpu.products), None)


def _node(node: NodeView, now: float) -> Iterator[Text]:
    line = Text(f"  node {node.name}  ")
    line.append(_doing(node), style="bold")
    if node.since is not None:
        line.append(f" for {_span(now - node.since)}", style="dim")
    if node.zone:
        line.append(f"  {node.zone}", style="dim")
    yield line
    yield Text(f"    {node.reason}: {node.message}")
    for blocker in node.blockers[:_MOST_PODS]:
        style = "" if blocker.leaves else "red"
        yield Text(f"    pod {blocker.pod}: {blocker.why}", style=style)
    if len(node.blockers) > _MOST_PODS:
        yield Text(f"    and {_many(len(node.blockers) - _MOST_PODS, 'more pod')}", style="dim")
    if node.next and not node.next.startswith("nothing"):
        yield Text(f"    → {node.next}", style="cyan")


def _doing(node: NodeView) -> str:
    parts = (
        [node.phase.lower()] if node.phase else ["verified" if node.verified else "not verified"]
    )
    if not node.ready:
        parts.append("not Ready")
    if node.cordoned:
        parts.append("cordoned")
    if node.quarantined:
        parts.append("quarantined: its pods end")
    elif node.held:
        parts.append("held from pods")
    return ", ".join(parts)


def _rollout(rollout: RolloutView) -> Iterator[Text]:
    waves = [_names(wave) for wave in rollout.waves]
    ahead = ", then ".join(waves[:_MOST_WAVES])
    more = sum(map(len, rollout.waves[_MOST_WAVES:])) + len(rollout.later)
    if more:
        ahead += f", then {_many(more, 'more node')}"
    if ahead:
        resumed = f"after a resume (now {rollout.suspended})" if rollout.suspended else "order"
        yield Text(f"  {resumed}: {ahead}")
    if rollout.blocked:
        yield Text(f"  cannot begin at the moment: {_names(rollout.blocked)}", style="yellow")


def _names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _span(seconds: float) -> str:
    """Returns a duration, rounded down: `45 s`, `12 min`, `3 h 5 min`, `4 d`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"

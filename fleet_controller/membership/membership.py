"""Which nodes belong to which pool, and what a pool brings to nodes that exist without it. Pure.

In a cluster that slicewright did not create, no node pool labels the nodes. The controller does,
rather than `pulumi up`: a node that joins the cluster between two runs needs its labels as much as
the others, and only the controller is there at that time. It notes on the node what it has set and
what was there before (`Joined`), so that it can take back just that, whoever asks and whenever.

The note is an annotation, so it is believed only about labels that some pool brings or has brought:
each pool's status lists the keys (`keys_of`), and a pool that is deleted stays until its nodes are
released. Else whoever can forge an annotation could have any label of the node set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter

from apis.label_keys import ALWAYS_BROUGHT, MOST_KEYS, may_be_brought
from apis.names import POOL_LABEL
from fleet_controller.objects.state import BroughtLabel, Joined, Node, Pool


@dataclass(frozen=True, kw_only=True)
class JoinNode:
    """Sets the labels of a pool on an existing node, and notes what they were."""

    node: str
    version: str
    labels: Mapping[str, str | None]
    """Those that change; None removes a label."""
    joined: Joined


Present = Sequence[tuple[Pool, list[Node]]]
"""What `memberships` says. A pass asks several questions about it, and works it out once."""


def memberships(pools: Sequence[Pool], nodes: Sequence[Node]) -> list[tuple[Pool, list[Node]]]:
    """Every pool with its nodes, both by name.

    A node has one condition, so it belongs to one pool: of those that select it, the one whose
    label it has, else the first. So a pool that is added later takes no node from another. A pool
    that is being deleted has no nodes, and is not listed. A pool that cannot be read keeps the
    nodes that bear its name.
    """
    ordered = sorted((pool for pool in pools if not pool.leaving), key=lambda pool: pool.name)
    by_name = {pool.name: pool for pool in ordered}
    # Of pools that were created with their nodes, which are the most, the label says it all.
    by_label = {pool.name for pool in ordered if pool.selector == {POOL_LABEL: pool.name}}
    others = [pool for pool in ordered if pool.name not in by_label]
    members: dict[str, list[Node]] = {pool.name: [] for pool in ordered}
    unreadable = unreadable_names(pools)
    for node in sorted(nodes, key=attrgetter("name")):
        if node.leaving:
            continue
        name = node.labels.get(POOL_LABEL, "")
        if name not in by_label:
            pool = by_name.get(name)
            if pool is None or not pool.selects(node):
                if belongs_to(node, unreadable):
                    continue
                pool = next((pool for pool in others if pool.selects(node)), None)
            if pool is None:
                continue
            name = pool.name
        members[name].append(node)
    return [(pool, members[pool.name]) for pool in ordered]


def unreadable_names(pools: Sequence[Pool]) -> frozenset[str]:
    """The names of the pools that cannot be read."""
    return frozenset(pool.name for pool in pools if pool.unreadable)


def belongs_to(node: Node, names: Collection[str]) -> bool:
    """Whether the node bears one of these pools' names, by its label or by what it was brought."""
    return bool(names) and not pool_names(node).isdisjoint(names)


def pool_names(node: Node) -> set[str]:
    """The names of pools that the node bears, whether or not there are such pools."""
    joined = {node.joined.pool} if node.joined else set()
    return joined | ({node.labels[POOL_LABEL]} if POOL_LABEL in node.labels else set())


def keys_of(pool: Pool) -> tuple[str, ...]:
    """Keys of the labels that the pool brings, and after them of those that it has brought."""
    now = sorted(pool.brings or ())
    before = pool.status.get("broughtLabels") or ()
    return tuple(dict.fromkeys(key for key in (*now, *before) if may_be_brought(key)))[:MOST_KEYS]


def brought_keys(pools: Iterable[Pool]) -> frozenset[str]:
    """Keys of all labels that the controller may have brought to a node."""
    return ALWAYS_BROUGHT.union(*map(keys_of, pools))


def joining(
    node: Node, pool: Pool, brought_by_any: AbstractSet[str] | None = None
) -> JoinNode | None:
    """What a member of `pool` lacks of what the pool brings; None where it lacks nothing.

    brought_by_any: `brought_keys` of all pools, as the node may come from another one; None: this
    pool is the only one.
    """
    if pool.brings is None:
        return None
    known = brought_keys([pool]) if brought_by_any is None else brought_by_any
    noted = node.joined.labels if node.joined else {}
    brought: dict[str, BroughtLabel] = {}
    changes: dict[str, str | None] = {}
    for key, value in pool.brings.items():
        now = node.labels.get(key)
        if key in noted:
            brought[key] = BroughtLabel(value=value, before=noted[key].before)
        elif now != value:
            brought[key] = BroughtLabel(value=value, before=now)
        if now != value:
            changes[key] = value
    others = {key: label for key, label in noted.items() if key not in pool.brings}
    changes |= taken_back(node, others, known)
    joined = Joined(pool=pool.name, labels=brought)
    if not changes and joined == node.joined:
        return None
    return JoinNode(node=node.name, version=node.version, labels=changes, joined=joined)


def taken_back(
    node: Node, noted: Mapping[str, BroughtLabel], known: AbstractSet[str]
) -> dict[str, str | None]:
    """The labels as they were, but for those that somebody else has changed since.

    known: the keys about which a note is believed, see `brought_keys`.
    """
    return {
        key: label.before
        for key, label in noted.items()
        if key in known and node.labels.get(key) == label.value
    }

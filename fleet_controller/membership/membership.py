"""The nodes of each pool, and the labels that a pool sets on nodes that exist without it. Pure.

In a cluster that slicewright did not create, no node pool labels the nodes. The controller does,
rather than `pulumi up`: a node that joins the cluster between two runs needs its labels as much as
the others, and only the controller is there at that time. It notes on the node the labels that it
has set and their earlier values (`Joined`), so that it can restore exactly those at any time, for
anybody who asks.

The note is an annotation, so it is believed only about labels that some pool sets or has set: each
pool's status lists the keys (`keys_of`), and a pool that is deleted stays until its nodes are
released. Otherwise, anybody who can forge an annotation could have any label of the node set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter

from slicewright.apis.label_keys import ALWAYS_BROUGHT, MOST_KEYS, may_be_brought
from slicewright.apis.names import POOL_LABEL
from slicewright.fleet_controller.objects.action import NodeAction
from slicewright.fleet_controller.objects.node import BroughtLabel, Joined, Node
from slicewright.fleet_controller.objects.pool import Pool


@dataclass(frozen=True, kw_only=True)
class JoinNode(NodeAction):
    """Sets the labels of a pool on an existing node, and notes their earlier values."""

    LOG_MESSAGE = "labels of the pool set"

    version: str
    labels: Mapping[str, str | None]
    """The labels to change. None removes a label."""
    joined: Joined

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "labels": dict(self.labels)}


Present = Sequence[tuple[Pool, list[Node]]]
"""The result of `memberships`. A pass needs it several times, and computes it once."""


def memberships(pools: Sequence[Pool], nodes: Sequence[Node]) -> list[tuple[Pool, list[Node]]]:
    """Returns every pool with its nodes, both by name.

    A node has one condition, so it belongs to one pool. If several pools select it, that is the
    pool whose label it has, or else the first. So a pool that is added later takes no node from
    another. A pool that is being deleted has no nodes, and is not listed. A pool that cannot be
    read keeps the nodes that bear its name.
    """
    ordered = sorted((pool for pool in pools if not pool.leaving), key=lambda pool: pool.name)
    by_name = {pool.name: pool for pool in ordered}
    # Most pools were created with their nodes, and their nodes are known by the label alone.
    by_label = {pool.name for pool in ordered if pool.selector == {POOL_LABEL: pool.name}}
    by_selector = [pool for pool in ordered if pool.name not in by_label]
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
                pool = next((pool for pool in by_selector if pool.selects(node)), None)
            if pool is None:
                continue
            name = pool.name
        members[name].append(node)
    return [(pool, members[pool.name]) for pool in ordered]


def unreadable_names(pools: Sequence[Pool]) -> frozenset[str]:
    """Returns the names of the pools that cannot be read."""
    return frozenset(pool.name for pool in pools if pool.unreadable)


def belongs_to(node: Node, names: Collection[str]) -> bool:
    """True if the node bears one of these pools' names, in its label or its note."""
    return bool(names) and not pool_names(node).isdisjoint(names)


def pool_names(node: Node) -> set[str]:
    """Returns the pool names that the node bears, whether or not there are such pools."""
    joined = {node.joined.pool} if node.joined else set()
    return joined | ({node.labels[POOL_LABEL]} if POOL_LABEL in node.labels else set())


def keys_of(pool: Pool) -> tuple[str, ...]:
    """Returns the keys of the labels that the pool sets, followed by those that it used to set."""
    now = sorted(pool.brings or ())
    before = pool.status.get("broughtLabels") or ()
    return tuple(dict.fromkeys(key for key in (*now, *before) if may_be_brought(key)))[:MOST_KEYS]


def brought_keys(pools: Iterable[Pool]) -> frozenset[str]:
    """Returns the keys of all labels that the controller may have set on a node."""
    return ALWAYS_BROUGHT.union(*map(keys_of, pools))


def joining(
    node: Node, pool: Pool, brought_by_any: AbstractSet[str] | None = None
) -> JoinNode | None:
    """Returns the action that sets a pool's missing labels on its member, or None if none is
    missing.

    brought_by_any: `brought_keys` of all pools, as the node may come from another one. None if this
    pool is the only one.
    """
    if pool.brings is None:
        return None
    trusted_keys = brought_keys([pool]) if brought_by_any is None else brought_by_any
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
    obsolete = {key: label for key, label in noted.items() if key not in pool.brings}
    changes |= taken_back(node, obsolete, trusted_keys)
    joined = Joined(pool=pool.name, labels=brought)
    if not changes and joined == node.joined:
        return None
    return JoinNode(node=node.name, version=node.version, labels=changes, joined=joined)


def taken_back(
    node: Node, noted: Mapping[str, BroughtLabel], trusted_keys: AbstractSet[str]
) -> dict[str, str | None]:
    """Returns the earlier labels, except labels that somebody else has changed since.

    trusted_keys: the keys about which a note is believed, see `brought_keys`.
    """
    return {
        key: label.before
        for key, label in noted.items()
        if key in trusted_keys and node.labels.get(key) == label.value
    }

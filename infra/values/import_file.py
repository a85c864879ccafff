"""The file for `pulumi import` that adopts node pools, from `pulumi preview --import-file`'s file.

The engine knows names, parents and providers of the resources that a program would create. This
adds the IDs that the clouds have for node pools, and leaves out everything else.

Sources: the format: pulumi/pulumi, pkg/cmd/pulumi/operations/import.go (importFile, importSpec);
the IDs: pulumi-gcp docs, container.NodePool, and pulumi-aws docs, eks.NodeGroup, import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from infra.plan import CloudPoolPlan, EksFleetPlan, GkeFleetPlan
from infra.values.text import JsonObject

_GKE: Final = "gcp:container/nodePool:NodePool"
_EKS: Final = "aws:eks/nodeGroup:NodeGroup"


class NoSuchPool(ValueError):
    """The pools that cannot be adopted, and the remedy."""


def import_file(
    fleet: GkeFleetPlan | EksFleetPlan,
    project: str | None,
    preview: Mapping[str, object],
    names: Sequence[str] = (),
) -> JsonObject:
    """The file that `pulumi import --file` reads to adopt node pools.

    project: of the cluster on GKE. preview: parsed. names: of the pools. The default is all of
    the fleet that the preview would create. Raises NoSuchPool.
    """
    _check_names(fleet, names)
    entries = _entries(preview)
    pools = _pools(fleet)
    wanted = names or [name for name in pools if _find(entries, *pools[name]) is not None]
    if not wanted:
        raise NoSuchPool("the preview creates none of the stack's pools: all are in its state")
    adopted: dict[int, JsonObject] = {}
    for name in wanted:
        at = _find(entries, *pools[name])
        if at is None:
            raise NoSuchPool(
                f"the preview does not create pool {name}: it is in the stack's state already, or "
                "the preview is of another stack"
            )
        adopted[at] = {**entries[at], "id": _id(fleet, project, name)}
    kept = {**adopted, **_around(entries, adopted.values())}
    used = {str(e[key]) for e in kept.values() for key in ("parent", "provider") if key in e}
    table = preview.get("nameTable")
    return {
        "nameTable": {
            name: urn
            for name, urn in (table.items() if isinstance(table, Mapping) else ())
            if name in used
        },
        "resources": [kept[at] for at in sorted(kept)],
    }


def _check_names(fleet: GkeFleetPlan | EksFleetPlan, names: Sequence[str]) -> None:
    known = _pools(fleet)
    if isinstance(fleet, EksFleetPlan):
        for pool in fleet.karpenter_pools:
            if pool.name in names:
                raise NoSuchPool(
                    f"pool {pool.name} is not a node group: Karpenter makes its nodes, and a "
                    "NodePool of this name is in the cluster or not"
                )
    if unknown := [name for name in names if name not in known]:
        raise NoSuchPool(
            f"the stack has no pool {unknown[0]}; it has {', '.join(sorted(known))}: add it to "
            "node_pools first, as it is in the cloud"
        )


def _pools(fleet: GkeFleetPlan | EksFleetPlan) -> Mapping[str, tuple[str, str]]:
    """Name -> type and logical name of its resource (infra/program.py)."""
    kind, prefix = (_GKE, "gke") if isinstance(fleet, GkeFleetPlan) else (_EKS, "eks")
    own: Sequence[CloudPoolPlan] = (
        fleet.pools if isinstance(fleet, GkeFleetPlan) else fleet.node_groups
    )
    system = [] if fleet.system is None else [fleet.system.name]
    return {name: (kind, f"{prefix}-{name}") for name in (*(p.name for p in own), *system)}


def _id(fleet: GkeFleetPlan | EksFleetPlan, project: str | None, pool: str) -> str:
    cluster = fleet.cluster
    if isinstance(fleet, EksFleetPlan):
        return f"{cluster.name}:{pool}"
    return (
        f"projects/{project}/locations/{fleet.cluster.location}/clusters/{cluster.name}"
        f"/nodePools/{pool}"
    )


def _entries(preview: Mapping[str, object]) -> Sequence[JsonObject]:
    listed = preview.get("resources")
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise NoSuchPool("it has no list `resources`, as `pulumi preview --import-file` writes it")
    return listed


def _find(entries: Sequence[JsonObject], kind: str, logical: str) -> int | None:
    return next(
        (
            at
            for at, entry in enumerate(entries)
            if entry.get("type") == kind and logical == entry.get("logicalName", entry.get("name"))
        ),
        None,
    )


def _around(
    entries: Sequence[JsonObject], adopted: Iterable[JsonObject]
) -> Mapping[int, JsonObject]:
    """Parents and providers of the pools, and theirs, that are not in the state yet."""
    by_name = {entry.get("name"): at for at, entry in enumerate(entries)}

    def above(entry: JsonObject) -> Iterator[int]:
        for key in ("parent", "provider"):
            at = by_name.get(entry.get(key))
            if at is not None:
                yield at
                yield from above(entries[at])

    return {at: entries[at] for entry in adopted for at in above(entry)}

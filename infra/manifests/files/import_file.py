"""The file for `pulumi import` that adopts node pools, from `pulumi preview --import-file`'s file.

The engine knows names, parents and providers of the resources that a program would create. This
adds the IDs that the clouds have for node pools, and leaves out everything else.

Sources: the format: pulumi/pulumi, pkg/cmd/pulumi/operations/import.go (importFile, importSpec);
the IDs: pulumi-gcp docs, container.NodePool, and pulumi-aws docs, eks.NodeGroup, import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import CloudPoolPlan, EksFleetPlan, GkeFleetPlan

_GKE: Final = "gcp:container/nodePool:NodePool"
_EKS: Final = "aws:eks/nodeGroup:NodeGroup"
_REFERENCES: Final = ("parent", "provider")
"""Keys of a resource that name another resource."""


class NoSuchPool(ValueError):
    """A pool cannot be adopted. The message names the pool and the remedy."""


def import_file(
    fleet: GkeFleetPlan | EksFleetPlan,
    project: str | None,
    preview: Mapping[str, object],
    names: Sequence[str] = (),
) -> JsonObject:
    """The file that `pulumi import --file` reads to adopt node pools.

    project: the project of a GKE cluster. preview: the parsed file of the preview. names: names of
    pools; the default is every pool of the fleet that the preview would create. Raises NoSuchPool.
    """
    _check_names(fleet, names)
    entries = _entries(preview)
    pools = _pools(fleet)
    chosen = names or [name for name in pools if _find(entries, *pools[name]) is not None]
    if not chosen:
        raise NoSuchPool("the preview creates none of the stack's pools: all are in its state")
    adopted: dict[int, JsonObject] = {}
    for name in chosen:
        at = _find(entries, *pools[name])
        if at is None:
            raise NoSuchPool(
                f"the preview does not create pool {name}: the pool is in the stack's state "
                "already, or the preview belongs to another stack"
            )
        adopted[at] = {**entries[at], "id": _id(fleet, project, name)}
    resources = {**adopted, **_ancestors(entries, adopted.values())}
    return {
        "nameTable": _name_table(preview, resources.values()),
        "resources": [resources[at] for at in sorted(resources)],
    }


def _name_table(
    preview: Mapping[str, object], resources: Iterable[JsonObject]
) -> Mapping[str, object]:
    """The preview's table of names -> URNs, without the names that no resource refers to."""
    table = preview.get("nameTable")
    if not isinstance(table, Mapping):
        return {}
    used = {str(entry[key]) for entry in resources for key in _REFERENCES if key in entry}
    return {name: urn for name, urn in table.items() if name in used}


def _check_names(fleet: GkeFleetPlan | EksFleetPlan, names: Sequence[str]) -> None:
    pools = _pools(fleet)
    if isinstance(fleet, EksFleetPlan):
        for pool in fleet.karpenter_pools:
            if pool.name in names:
                raise NoSuchPool(
                    f"pool {pool.name} has no node group to adopt: Karpenter creates its nodes "
                    "from a NodePool in the cluster"
                )
    if unknown := [name for name in names if name not in pools]:
        raise NoSuchPool(
            f"the stack has no pool {unknown[0]}, only {', '.join(sorted(pools))}: first add it to "
            "node_pools, with the settings that it has in the cloud"
        )


def _pools(fleet: GkeFleetPlan | EksFleetPlan) -> Mapping[str, tuple[str, str]]:
    """Name -> type and logical name of its resource (infra/program.py)."""
    kind, prefix = (_GKE, "gke") if isinstance(fleet, GkeFleetPlan) else (_EKS, "eks")
    gpu_pools: Sequence[CloudPoolPlan] = (
        fleet.pools if isinstance(fleet, GkeFleetPlan) else fleet.node_groups
    )
    system = [] if fleet.system is None else [fleet.system.name]
    return {name: (kind, f"{prefix}-{name}") for name in (*(p.name for p in gpu_pools), *system)}


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
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise NoSuchPool("it has no list `resources`: `pulumi preview --import-file` writes one")
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


def _ancestors(
    entries: Sequence[JsonObject], adopted: Iterable[JsonObject]
) -> Mapping[int, JsonObject]:
    """Parents and providers that are not in the state yet, directly or indirectly, by position."""
    by_name = {entry.get("name"): at for at, entry in enumerate(entries)}

    def above(entry: JsonObject) -> Iterator[int]:
        for key in _REFERENCES:
            at = by_name.get(entry.get(key))
            if at is not None:
                yield at
                yield from above(entries[at])

    return {at: entries[at] for entry in adopted for at in above(entry)}

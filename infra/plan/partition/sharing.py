"""How many pods share each device, by the rules of the plugin that does it: GKE's own, or
NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Finding, Stated, listed, refuse, rule
from slicewright.infra.plan.model.nodes import WHOLE_GPU, AnyCloud, MigStrategy, SharingStrategy
from slicewright.infra.plan.model.offers import ReplicatedResource
from slicewright.infra.plan.model.pools import PoolPlan
from slicewright.infra.stack_file import Path

_GKE_CLIENTS = (2, 48)
_MPS_CLIENTS = 48
_LONGEST_NAME = 63
_GKE = "GoogleCloudPlatform/container-engine-accelerators, pkg/gpu/nvidia/gpusharing"
_PLUGIN = "NVIDIA/k8s-device-plugin, internal/plugin and README"
Replicated = stack_file.TimeSlicing | stack_file.Mps


def gke_sharing(
    sharing: Replicated, path: Path, devices: Mapping[str, int] | None
) -> Checked[tuple[ReplicatedResource, ...] | None]:
    """Sharing by GKE's own device plugin: one number of replicas for all devices of a node.

    devices: before sharing. None if they are unknown.
    """
    wrong = tuple(_check_gke(sharing, path))
    yield from wrong
    if wrong or devices is None:
        return None
    (name,) = devices
    (replicas,) = _by_full_name(sharing.replicas, devices).values()
    return (
        ReplicatedResource(
            resource=name,
            advertised=name,
            strategy=sharing.mode,
            replicas=replicas,
            fail_requests_greater_than_one=True,
        ),
    )


@rule("gke-sharing")
def _check_gke(sharing: Replicated, path: Path) -> Checked[None]:
    fewest, most = _GKE_CLIENTS
    each = _by_full_name(sharing.replicas, (WHOLE_GPU,))
    several = not isinstance(sharing.replicas, int) and len(sharing.replicas) > 1
    if several or [*each] != [WHOLE_GPU]:
        yield refuse(
            (*path, "replicas"),
            "GKE advertises every device as nvidia.com/gpu, with one number of replicas",
            "write one number",
            _GKE,
        )
        return
    if not fewest <= each[WHOLE_GPU] <= most:
        yield refuse(
            (*path, "replicas"),
            f"{each[WHOLE_GPU]}: GKE allows {fewest} to {most} clients",
            f"write {most} or less",
            _GKE,
        )
    for name in ("rename_by_default", "fail_requests_greater_than_one"):
        if name in sharing.model_fields_set:
            yield refuse(
                (*path, name),
                "cannot be chosen with GKE's own device plugin",
                "leave it out",
                _GKE,
                in_key=True,
            )


def plugin_sharing(
    sharing: Replicated,
    path: Path,
    devices: Mapping[str, int] | None,
    *,
    partitioned: bool,
    strategy: MigStrategy,
    cloud: AnyCloud,
    stated: Stated,
) -> Checked[tuple[ReplicatedResource, ...] | None]:
    """Sharing by NVIDIA's device plugin, as its config file sets it.

    devices: before sharing. None if they are unknown.
    """
    strategy_is_valid = stated.has(("gpu_operator", "mig_strategy"))
    wrong: list[Finding] = []
    if isinstance(sharing, stack_file.Mps):
        strategy_of_mps = strategy if strategy_is_valid else "none"
        wrong += _check_mps(path, partitioned=partitioned, strategy=strategy_of_mps, cloud=cloud)
    if devices is not None and strategy_is_valid:
        wrong += _check_names(sharing, path, devices)
    each = _by_full_name(sharing.replicas, devices or (WHOLE_GPU,))
    wrong += _check_duplicates(sharing, path)
    wrong += _check_replicas(sharing, path, each)
    yield from wrong
    if wrong or devices is None or not strategy_is_valid:
        return None
    return tuple(
        _replicated(
            name,
            sharing.mode,
            replicas,
            rename=sharing.rename_by_default,
            fail=sharing.fail_requests_greater_than_one,
        )
        for name, replicas in sorted(each.items())
    )


@lru_cache(maxsize=1024)  # pools are alike
def _replicated(
    resource: str, strategy: SharingStrategy, replicas: int, *, rename: bool, fail: bool
) -> ReplicatedResource:
    return ReplicatedResource(
        resource=resource,
        advertised=f"{resource}.shared" if rename else resource,
        strategy=strategy,
        replicas=replicas,
        fail_requests_greater_than_one=fail,
    )


@rule("sharing-resource")
def _check_names(sharing: Replicated, path: Path, devices: Mapping[str, int]) -> Checked[None]:
    for written in () if isinstance(sharing.replicas, int) else sharing.replicas:
        if _full_name(written) not in devices:
            yield refuse(
                (*path, "replicas", written),
                f"the pool's nodes have no {_full_name(written)}; the device plugin would "
                "ignore it silently",
                f"they have: {listed(sorted(devices))}",
                _PLUGIN,
                in_key=True,
            )


@rule("sharing-duplicate")
def _check_duplicates(sharing: Replicated, path: Path) -> Checked[None]:
    """`gpu` and `nvidia.com/gpu` are two keys of one resource."""
    first: dict[str, str] = {}
    for written in () if isinstance(sharing.replicas, int) else sharing.replicas:
        name = _full_name(written)
        if name in first:
            yield refuse(
                (*path, "replicas", written),
                f"is the same resource as {first[name]}",
                "remove one of the two",
                in_key=True,
            )
        first.setdefault(name, written)


@rule("sharing-replicas")
def _check_replicas(sharing: Replicated, path: Path, each: Mapping[str, int]) -> Checked[None]:
    for name, replicas in each.items():
        if isinstance(sharing, stack_file.Mps) and replicas > _MPS_CLIENTS:
            yield refuse(
                (*path, "replicas"),
                f"{replicas}: MPS has at most {_MPS_CLIENTS} clients per GPU",
                f"write 2 to {_MPS_CLIENTS}",
                _PLUGIN,
            )
        if len(name) + len(".shared") * sharing.rename_by_default > _LONGEST_NAME:
            yield refuse(
                (*path, "replicas"),
                f"{name}.shared is longer than {_LONGEST_NAME} characters, the limit of a "
                "resource's name",
                "write rename_by_default: false",
                "Kubernetes docs, extended resources",
            )


def allocatable(
    devices: Mapping[str, int], sharing: tuple[ReplicatedResource, ...]
) -> Mapping[str, int]:
    """Allocatable per node: devices times replicas, under the names that pods ask for."""
    by_name = {replicated.resource: replicated for replicated in sharing}
    return {
        (by_name[name].advertised if name in by_name else name): count
        * (by_name[name].replicas if name in by_name else 1)
        for name, count in devices.items()
    }


def alike_by_mps(pools: Sequence[PoolPlan]) -> bool:
    """Whether all of them share their GPUs by MPS, and in the same way."""
    ways = {pool.offer.sharing for pool in pools}
    return len(ways) == 1 and any(
        replicated.strategy == "mps" for way in ways for replicated in way
    )


@rule("sharing-mps")
def _check_mps(path: Path, *, partitioned: bool, strategy: str, cloud: str) -> Checked[None]:
    if cloud == "gke":
        yield refuse(
            (*path, "mode"),
            "MPS with NVIDIA's operator does not run on GKE",
            "write partition: {mode: native, …} or none, which GKE shares itself, or time-slicing",
            "GKE docs, NVIDIA GPU operator",
        )
    elif partitioned:
        yield refuse(
            (*path, "mode"),
            "NVIDIA's device plugin has no MPS on MIG devices; only GKE's own has",
            "write time-slicing",
            _PLUGIN,
        )
    elif strategy == "mixed":
        yield refuse(
            (*path, "mode"),
            "with gpu_operator.mig_strategy: mixed the device plugin refuses MPS and does "
            "not start",
            "write mig_strategy: single or none, or time-slicing",
            "NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin",
        )


def _by_full_name(replicas: int | Mapping[str, int], resources: Iterable[str]) -> Mapping[str, int]:
    """Replicas by resource. One number counts for all of `resources`."""
    if isinstance(replicas, int):
        return dict.fromkeys(resources, replicas)
    return {_full_name(name): count for name, count in replicas.items()}


def _full_name(name: str) -> str:
    return name if "/" in name else f"nvidia.com/{name}"

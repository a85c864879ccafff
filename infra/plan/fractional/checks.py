"""Checks an engine for fractions against the fleet's pools, and its own settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Finding, Stated, refuse, rule
from slicewright.infra.plan.fractional.engines import (
    SEVERAL_CARDS,
    share_requests,
)
from slicewright.infra.plan.model.nodes import AnyPool

VKE: Final = "VKE docs 6460/182418"
HAMI: Final = "Project-HAMi/HAMi docs"
VOLCANO: Final = "volcano-sh/volcano, pkg/scheduler/api/devices/nvidia/vgpu"
_VKE_SCHEDULER: Final = (
    "volcano-sh/volcano docs/design/mgpu_based_on_deviceAPI.md and mgpu device package"
)
_INSTALLED: Final = (
    "namespace",
    "repository",
    "chart_version",
    "registry",
    "image_pull_secrets",
    "oversubscription",
)
"""Keys of an engine that the stack installs."""
_PLUGIN: Final = ("plugin_repository", "plugin_version")


@rule("fractional-engine")
def check_fractional(fleet: stack_file.Fleet, stated: Stated) -> Checked[None]:
    """An engine for fractions needs fractional pools, and they need it."""
    pools = [
        i
        for i, pool in enumerate(fleet.node_pools)
        if isinstance(pool.sharing, stack_file.FractionalSharing)
    ]
    if not stated.has(("fractional",)):
        return
    if fleet.fractional is None:
        for i in pools:
            yield refuse(
                ("node_pools", i, "sharing"),
                "is fractional, but the fleet has no scheduler for that",
                "add fractional: {provider: hami}",
            )
        return
    if not pools and stated.has_for_all(fleet.node_pools, "sharing"):
        yield refuse(
            ("fractional",),
            "no pool has sharing: fractional",
            "leave it out, or write sharing: fractional in a pool",
            in_key=True,
        )
    if not stated.has(("fractional", "provider")):
        return  # each of the following depends on the engine
    yield from _check_vke(fleet, fleet.fractional)
    yield from _check_existing(fleet, fleet.fractional, stated)
    yield from _check_compute_policy(fleet, fleet.fractional, stated)
    yield from _check_keys(fleet.fractional, stated)
    for i in pools:
        yield from _check_pool(fleet.node_pools[i], ("node_pools", i), fleet, stated)
    yield from _check_other_pools(fleet, fleet.fractional, pools, stated)


@rule("fractional-other-pools")
def _check_other_pools(
    fleet: stack_file.Fleet, fractional: stack_file.Fractional, pools: list[int], stated: Stated
) -> Checked[None]:
    """One device plugin a node: the GPU operator's is switched off in the whole cluster."""
    unshared = [
        pool.name
        for i, pool in enumerate(fleet.node_pools)
        if i not in pools and stated.has(("node_pools", i, "sharing"))
    ]
    if fleet.cloud == "gke" or not unshared or fractional.provider == "vke":
        return
    name = "HAMi" if fractional.provider == "hami" else "Volcano"
    yield refuse(
        ("fractional",),
        f"{name}'s device plugin replaces the operator's in the whole cluster, so the nodes of "
        f"{', '.join(unshared)} would have none",
        "make every pool fractional, or use two clusters",
        HAMI,
        in_key=True,
    )


@rule("fractional-pool")
def _check_pool(
    pool: AnyPool, path: stack_file.Path, fleet: stack_file.Fleet, stated: Stated
) -> Checked[None]:
    """Refuses nodes that come by themselves."""
    fractional = fleet.fractional
    if (
        isinstance(pool.nodes, stack_file.Autoscaled)
        and fractional is not None
        and fractional.provider != "vke"
        and stated.has((*path, "nodes"))
    ):
        yield refuse(
            (*path, "nodes"),
            "autoscalers do not see what is left on shared cards, so a pod without a place brings "
            "no node",
            f"write {{count: {pool.nodes.max}}}",
            HAMI,
        )


@rule("fractional-vke")
def _check_vke(fleet: stack_file.Fleet, fractional: stack_file.Fractional) -> Checked[None]:
    """Refuses settings that Volcengine's scheduler does not support."""
    if fractional.provider == "vke" and fleet.cloud != "byo":
        yield refuse(
            ("fractional", "provider"),
            f"vke runs on Volcengine only, the fleet is on {fleet.cloud}",
            "write hami",
            VKE,
        )
    if fractional.provider == "vke" and (fractional.shares_per_gpu or 0) > 16:
        yield refuse(
            ("fractional", "shares_per_gpu"),
            "VKE allows at most 16 containers on a card",
            "write 16 or less",
            VKE,
        )


@rule("fractional-existing-engine")
def _check_existing(
    fleet: stack_file.Fleet, fractional: stack_file.Fractional, stated: Stated
) -> Checked[None]:
    """Refuses an existing engine where there can be none, and keys of a chart that is not
    installed.
    """
    at = ("fractional", "existing")
    if not fractional.existing or not stated.has(at):
        return
    if fractional.provider != "volcano":
        yield refuse(
            at,
            "only Volcano's scheduler can exist without the device plugin that the stack installs",
            "leave it out, or write provider: volcano",
            VOLCANO,
            in_key=True,
        )
    elif fleet.cloud != "byo":
        yield refuse(
            at, "a cluster that is created here has no Volcano yet", "write false, or cloud: byo"
        )
    for key in sorted({"repository", "chart_version"} & fractional.model_fields_set):
        if stated.has(("fractional", key)):
            yield refuse(
                ("fractional", key),
                "has no effect on a Volcano that exists: slicewright does not change it",
                "leave it out",
                in_key=True,
            )


@rule("fractional-compute-policy")
def _check_compute_policy(
    fleet: stack_file.Fleet, fractional: stack_file.Fractional, stated: Stated
) -> Checked[None]:
    at = ("fractional", "compute_policy")
    if fractional.compute_policy is None:
        return
    if fractional.provider != "vke":
        yield refuse(
            at,
            f"it is a setting of VKE, and the provider is {fractional.provider}",
            "leave it out",
            VKE,
            in_key=True,
        )
        return
    several = [
        workload.name
        for i, workload, share in share_requests(fleet.workloads)
        if share.cards > 1 and stated.has(("workloads", i, "gpu_share", "cards"))
    ]
    if several and fractional.compute_policy != SEVERAL_CARDS:
        yield refuse(
            at,
            f"{fractional.compute_policy} gives a container one card, but {', '.join(several)} "
            "requests more",
            f"write {SEVERAL_CARDS}, or leave it out",
            _VKE_SCHEDULER,
        )


@rule("fractional-key")
def _check_keys(fractional: stack_file.Fractional, stated: Stated) -> Checked[None]:
    """Refuses keys that the engine ignores."""
    for finding in (*_foreign_keys(fractional), *_volcano_limits(fractional)):
        if stated.has(finding.problem.path):
            yield finding


def _foreign_keys(fractional: stack_file.Fractional) -> Iterator[Finding]:
    """Keys of another engine."""
    written = fractional.model_fields_set
    if fractional.provider == "vke":
        for key in written & {*_INSTALLED, *_PLUGIN}:
            yield refuse(
                ("fractional", key),
                "nothing is installed for VKE: its scheduler belongs to Volcengine's clusters",
                "leave it out, or write provider: hami or volcano",
                VKE,
                in_key=True,
            )
    elif fractional.provider == "hami":
        for key in written & set(_PLUGIN):
            yield refuse(
                ("fractional", key),
                "HAMi's device plugin comes with HAMi's own chart",
                "leave it out, or write provider: volcano",
                HAMI,
                in_key=True,
            )


def _volcano_limits(fractional: stack_file.Fractional) -> Iterator[Finding]:
    if fractional.provider != "volcano":
        return
    if fractional.oversubscription.compute_percent > 100:
        yield refuse(
            ("fractional", "oversubscription", "compute_percent"),
            "Volcano's scheduler never allocates more than 100 % of a card",
            "write 100, or provider: hami",
            VOLCANO,
        )
    if len(set(fractional.image_pull_secrets)) > 1:
        yield refuse(
            ("fractional", "image_pull_secrets"),
            "Volcano's chart takes one pull secret",
            "write one that has the logins of all registries",
            "volcano-sh/volcano, installer/helm/chart/volcano/values.yaml",
        )

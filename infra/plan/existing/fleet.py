"""A fleet that exists already: a cluster with its nodes, or hosts without Kubernetes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from slicewright.apis.names import POOL_LABEL
from slicewright.infra import stack_file
from slicewright.infra.plan.existing.gpus import gpu_of_nodes
from slicewright.infra.plan.existing.hosts import plan_hosts
from slicewright.infra.plan.findings import Checked, Stated, each, refuse, rule
from slicewright.infra.plan.fractional.engines import engine_of, vke_labels
from slicewright.infra.plan.gpu_operator.device_plugin import check_plugin, with_one_config
from slicewright.infra.plan.gpu_operator.drivers import operator_driver, rolled_driver
from slicewright.infra.plan.gpu_operator.settings import check_operator, resolved
from slicewright.infra.plan.model.clusters import ExistingClusterPlan
from slicewright.infra.plan.model.fleets import CommonPlanner, ExistingFleetPlan
from slicewright.infra.plan.model.nodes import Gpus
from slicewright.infra.plan.model.pools import ExistingPoolPlan, ExistingSettings
from slicewright.infra.plan.pools.pool import pool_plan


@rule("existing-cluster")
def plan_existing(
    fleet: stack_file.ByoFleet, stated: Stated, plan_common: CommonPlanner
) -> Checked[ExistingFleetPlan | None]:
    if fleet.node_pools and fleet.cluster is None:
        yield refuse(
            ("cluster",),
            "is required by node_pools",
            "write cluster: {name: …, context: …}",
        )
    if fleet.cluster is not None and not fleet.node_pools:
        yield refuse(
            ("node_pools",),
            "is missing, so nothing would be done in the cluster",
            "add a pool, or leave cluster out",
        )
    yield from _check_selects(fleet.node_pools, stated)
    hosts = yield from plan_hosts(fleet.hosts, stated)
    pools = yield from each(_pool(fleet, i, stated) for i in range(len(fleet.node_pools)))
    built = with_one_config([pool for pool in pools if pool is not None])
    yield from check_operator(fleet.gpu_operator, "byo", stated, new_cluster=False)
    yield from check_plugin(fleet.gpu_operator, built, stated)
    common = yield from plan_common(built)
    if len(built) != len(pools) or len(hosts) != len(fleet.hosts):
        return None
    cluster = fleet.cluster
    return ExistingFleetPlan(
        **common,
        cluster=ExistingClusterPlan(
            name=cluster.name, context=cluster.context, kubeconfig=cluster.kubeconfig
        )
        if cluster
        else None,
        pools=built,
        hosts=hosts,
        operator=resolved(fleet.gpu_operator, "byo"),
        startup_taint=fleet.startup_taint,
    )


def _pool(fleet: stack_file.ByoFleet, i: int, stated: Stated) -> Checked[ExistingPoolPlan | None]:
    pool, path = fleet.node_pools[i], ("node_pools", i)
    yield from _check_keys(pool, path)
    gpu = yield from gpu_of_nodes(pool.gpu, (*path, "gpu"), stated)
    common = yield from pool_plan(
        pool,
        path,
        Gpus(gpu=gpu, count=pool.gpu.count) if gpu else None,
        cloud="byo",
        strategy=fleet.gpu_operator.mig_strategy,
        driver=operator_driver(fleet.gpu_operator),
        engine=engine_of(fleet),
        verification=fleet.verification,
        stated=stated,
    )
    if common is None:
        return None
    if fleet.fractional is not None and isinstance(pool.sharing, stack_file.FractionalSharing):
        labels = {**common.labels, **vke_labels(fleet.fractional, fleet.workloads)}
        common = dataclasses.replace(common, labels=labels)
    common = dataclasses.replace(common, driver_version=rolled_driver(fleet.gpu_operator))
    return common.with_settings(ExistingSettings(select=_select(pool), on_destroy=fleet.on_destroy))


_CONSTANT = frozenset(
    f"nvidia.com/gpu.{name}"
    for name in ("present", "family", "compute.major", "compute.minor", "machine")
)
"""Labels of GPU feature discovery that a node keeps however its GPUs are partitioned and shared.
Source: NVIDIA/k8s-device-plugin, internal/lm.
"""


@rule("pool-select-label")
def _check_keys(pool: stack_file.ByoPool, path: stack_file.Path) -> Checked[None]:
    """A node must not leave its pool because it has been partitioned."""
    for key, value in pool.select.items():
        if key.startswith("nvidia.com/") and key not in _CONSTANT:
            yield refuse(
                (*path, "select", key),
                "it changes when the node's GPUs are partitioned or shared, and the node would "
                "leave its pool",
                "select by a label that stays, such as node.kubernetes.io/instance-type, or set "
                f"{POOL_LABEL} on the nodes and leave select out",
                "NVIDIA/k8s-device-plugin, internal/lm",
                in_key=True,
            )
        if key == POOL_LABEL and value != pool.name:
            yield refuse(
                (*path, "select", key),
                f"its value on the nodes of this pool is the pool's name, {pool.name}",
                f"write {pool.name}",
                in_key=True,
            )


def _select(pool: stack_file.ByoPool) -> Mapping[str, str]:
    return pool.select or {POOL_LABEL: pool.name}


@rule("pool-selects")
def _check_selects(pools: Sequence[stack_file.ByoPool], stated: Stated) -> Checked[None]:
    """A node belongs to one pool. Selectors that overlap only on some nodes are not refused."""
    valid = [
        i
        for i in range(len(pools))
        if stated.has(("node_pools", i, "select"), ("node_pools", i, "name"))
    ]
    selects = {i: _select(pools[i]).items() for i in valid}
    # A selector that is contained in another shares its smallest label: comparing only those keeps
    # this fast for a thousand pools.
    by_least: dict[tuple[str, str], list[int]] = {}
    for i, select in selects.items():
        by_least.setdefault(min(select), []).append(i)
    for i, labels in selects.items():
        wider = [
            j
            for label in labels
            for j in by_least.get(label, ())
            if labels > selects[j] or (labels == selects[j] and i > j)
        ]
        if wider:
            yield refuse(
                ("node_pools", i, "select"),
                f"every node that it selects is also selected by pool {pools[wider[0]].name}, "
                "and a node has one layout",
                "select by labels that no other pool's nodes have",
            )

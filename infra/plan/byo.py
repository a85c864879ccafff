"""What exists already: a cluster with its nodes, or hosts without Kubernetes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from fleet_controller.api import POOL_LABEL
from infra import spec
from infra.plan.drivers import operator_driver
from infra.plan.findings import Findings
from infra.plan.fleet import ByoClusterPlan, ByoFleetPlan, ByoPoolPlan
from infra.plan.hosts import gpu_of, plan_hosts
from infra.plan.machines import Gpus
from infra.plan.pools import pool_plan, shared_plan
from infra.plan.shares import fractional_labels


def plan_byo(fleet: spec.ByoFleet, findings: Findings) -> ByoFleetPlan | None:
    if fleet.node_pools and fleet.cluster is None:
        findings.refuse(
            ("cluster",),
            "is missing: the pools' nodes are in one",
            "write cluster: {name: …, context: …}",
        )
    if fleet.cluster is not None and not fleet.node_pools:
        findings.refuse(
            ("node_pools",),
            "is missing: nothing would be done in the cluster",
            "name a pool, or leave cluster out",
        )
    _check_selects(fleet.node_pools, findings)
    hosts = plan_hosts(fleet.hosts, findings)
    pools = [_pool(fleet, i, findings) for i in range(len(fleet.node_pools))]
    built = tuple(pool for pool in pools if pool is not None)
    shared = shared_plan(fleet, built, findings)
    if len(built) != len(pools) or len(hosts) != len(fleet.hosts):
        return None
    cluster = fleet.cluster
    return ByoFleetPlan(
        cluster=ByoClusterPlan(
            name=cluster.name, context=cluster.context, kubeconfig=cluster.kubeconfig
        )
        if cluster
        else None,
        pools=built,
        hosts=hosts,
        operator=fleet.gpu_operator,
        **vars(shared),
    )


def _pool(fleet: spec.ByoFleet, i: int, findings: Findings) -> ByoPoolPlan | None:
    pool, path = fleet.node_pools[i], ("node_pools", i)
    gpu = gpu_of(pool.gpu, (*path, "gpu"), findings)
    common = pool_plan(
        pool,
        path,
        Gpus(gpu=gpu, count=pool.gpu.count) if gpu else None,
        cloud="byo",
        strategy=fleet.gpu_operator.mig_strategy,
        driver=operator_driver(fleet.gpu_operator),
        fractional=fleet.fractional,
        findings=findings,
    )
    if common is None:
        return None
    if fleet.fractional is not None and isinstance(pool.sharing, spec.FractionalSharing):
        labels = {**common.labels, **fractional_labels(fleet.fractional, fleet.workloads)}
        common = dataclasses.replace(common, labels=labels)
    return ByoPoolPlan(**vars(common), select=_select(pool))


def _select(pool: spec.ByoPool) -> Mapping[str, str]:
    return pool.select or {POOL_LABEL: pool.name}


def _check_selects(pools: Sequence[spec.ByoPool], findings: Findings) -> None:
    """A node is of one pool. Pools that share nodes only by chance are left to the nodes'
    labels.
    """
    known = [
        i
        for i in range(len(pools))
        if findings.knows(("node_pools", i, "select"), ("node_pools", i, "name"))
    ]
    selects = {i: _select(pools[i]).items() for i in known}
    # What another pool's labels contain, they contain the least of: only those are compared, of a
    # thousand pools too.
    by_least: dict[tuple[str, str], list[int]] = {}
    for i, select in selects.items():
        by_least.setdefault(min(select), []).append(i)
    for i, own in selects.items():
        others = [
            j
            for label in own
            for j in by_least.get(label, ())
            if own > selects[j] or (own == selects[j] and i > j)
        ]
        if others:
            findings.refuse(
                ("node_pools", i, "select"),
                f"every node that it chooses is also one of pool {pools[others[0]].name}, "
                "and a node has one layout",
                "choose by labels that no other pool's nodes have",
            )

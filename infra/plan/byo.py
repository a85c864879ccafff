"""What exists already: a cluster with its nodes, or hosts without Kubernetes."""

from __future__ import annotations

from infra import spec
from infra.plan.drivers import operator_driver
from infra.plan.findings import Findings
from infra.plan.fleet import ByoClusterPlan, ByoFleetPlan, ByoPoolPlan
from infra.plan.hosts import gpu_of, plan_hosts
from infra.plan.machines import Gpus
from infra.plan.pools import pool_plan, shared_plan


def plan_byo(fleet: spec.ByoFleet, findings: Findings) -> ByoFleetPlan | None:
    if fleet.node_pools and fleet.cluster is None:
        findings.refuse(("cluster",), "is missing: the pools' nodes are in one", "write cluster: {name: …, context: …}")
    if fleet.cluster is not None and not fleet.node_pools:
        findings.refuse(("node_pools",), "is missing: nothing would be done in the cluster", "name a pool, or leave cluster out")
    hosts = plan_hosts(fleet.hosts, findings)
    pools = [_pool(fleet, i, findings) for i in range(len(fleet.node_pools))]
    built = tuple(pool for pool in pools if pool is not None)
    shared = shared_plan(fleet, built, findings)
    if len(built) != len(pools) or len(hosts) != len(fleet.hosts):
        return None
    cluster = fleet.cluster
    return ByoFleetPlan(
        cluster=ByoClusterPlan(name=cluster.name, context=cluster.context, kubeconfig=cluster.kubeconfig) if cluster else None,
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
    return ByoPoolPlan(**vars(common), select=pool.select or {"slicewright.io/pool": pool.name})

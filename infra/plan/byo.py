"""What exists already: a cluster with its nodes, or hosts without Kubernetes."""

from __future__ import annotations

from infra import spec
from infra.plan.findings import Findings
from infra.plan.fleet import ByoClusterPlan, ByoFleetPlan, ByoPoolPlan
from infra.plan.hosts import gpu_of, plan_hosts
from infra.plan.nodes import Gpus, count_of, pool_labels, pool_taints
from infra.plan.offers import offer_of
from infra.plan.shares import plan_shares


def plan_byo(fleet: spec.ByoFleet, findings: Findings) -> ByoFleetPlan | None:
    if fleet.node_pools and fleet.cluster is None:
        findings.refuse(("cluster",), "is missing: the pools' nodes are in one", "write cluster: {name: …, context: …}")
    if fleet.cluster is not None and not fleet.node_pools:
        findings.refuse(("node_pools",), "is missing: nothing would be done in the cluster", "name a pool, or leave cluster out")
    hosts = plan_hosts(fleet.hosts, findings)
    pools = [_pool(fleet, i, findings) for i in range(len(fleet.node_pools))]
    built = tuple(pool for pool in pools if pool is not None)
    fractional = {p.name for p in fleet.node_pools if isinstance(p.sharing, spec.FractionalShares)}
    shares = plan_shares(fleet, [(p.gpu, p.gpu_count) for p in built if p.name in fractional], findings)
    if len(built) != len(pools) or len(hosts) != len(fleet.hosts):
        return None
    cluster = fleet.cluster
    return ByoFleetPlan(
        cluster=ByoClusterPlan(name=cluster.name, context=cluster.context, kubeconfig=cluster.kubeconfig) if cluster else None,
        pools=built,
        hosts=hosts,
        operator=fleet.gpu_operator,
        image=fleet.image,
        verify_timeout_minutes=fleet.verify_timeout_minutes,
        fractional=fleet.fractional,
        workloads=shares,
    )


def _pool(fleet: spec.ByoFleet, i: int, findings: Findings) -> ByoPoolPlan | None:
    pool, path = fleet.node_pools[i], ("node_pools", i)
    nodes = count_of(pool.nodes, (*path, "nodes"), findings)
    labels = pool_labels(pool, path, "byo", findings)
    taints = pool_taints(pool, path, "byo", findings)
    gpu = gpu_of(pool.gpu, (*path, "gpu"), findings)
    if gpu is None:
        return None
    offer = offer_of(
        pool,
        path,
        Gpus(gpu=gpu, count=pool.gpu.count),
        cloud="byo",
        strategy=fleet.gpu_operator.mig_strategy,
        fractional=fleet.fractional,
        findings=findings,
    )
    if offer is None:
        return None
    return ByoPoolPlan(
        name=pool.name,
        nodes=nodes,
        labels={**labels, **offer.labels},
        taints=taints,
        gpu=gpu,
        gpu_count=pool.gpu.count,
        layouts=offer.layouts,
        devices=offer.devices,
        shares=offer.shares,
        resources=offer.resources,
        desired=offer.desired,
        layout_hash=offer.layout_hash,
        mig_config=offer.mig_config,
        rollout=pool.rollout,
        select=pool.select or {"slicewright.io/pool": pool.name},
    )

"""What every kind of fleet has in common, and each of its pools once it is known which GPUs its
nodes have.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra import spec
from infra.plan.device_plugin import check_plugin
from infra.plan.drivers import Driver, check_driver
from infra.plan.findings import Findings
from infra.plan.fleet import PoolPlan, SharedPlan
from infra.plan.machines import Gpus
from infra.plan.nodes import AnyCloud, AnyPool, count_of, pool_labels, pool_taints
from infra.plan.offers import offer_of
from infra.plan.partitions import Strategy
from infra.plan.shares import plan_shares

SYSTEM_PODS = 10
"""About what runs on a GPU node beside the pods that hold partitions: network, logging, metrics,
agents, operands.
"""


def pool_plan(
    pool: AnyPool,
    path: spec.Path,
    found: Gpus | None,
    *,
    cloud: AnyCloud,
    strategy: Strategy,
    driver: Driver | None,
    fractional: spec.Fractional | None,
    findings: Findings,
) -> PoolPlan | None:
    """None where something is refused, or `found` was before; what can be said without the GPUs is
    said all the same.
    """
    nodes = count_of(pool.nodes, (*path, "nodes"), findings)
    labels = pool_labels(pool, path, cloud, findings)
    taints = pool_taints(pool, path, cloud, findings)
    offered = offer_of(
        pool, path, found, cloud=cloud, strategy=strategy, fractional=fractional, findings=findings
    )
    if found is None or offered is None:
        return None
    offer, needed = offered
    if driver is not None:
        check_driver(driver, pool.name, found.gpu, offer, findings)
    return PoolPlan(
        **vars(offer),
        name=pool.name,
        nodes=nodes,
        labels={**labels, **needed},
        taints=taints,
        gpu=found.gpu,
        gpu_count=found.count,
        rollout=pool.rollout,
    )


def shared_plan(fleet: spec.Fleet, built: Sequence[PoolPlan], findings: Findings) -> SharedPlan:
    check_plugin(fleet.gpu_operator or spec.GpuOperator(), built, findings)
    fractional = {p.name for p in fleet.node_pools if isinstance(p.sharing, spec.FractionalSharing)}
    return SharedPlan(
        image=fleet.image,
        node_agent=fleet.node_agent,
        verify_timeout_minutes=fleet.verify_timeout_minutes,
        fractional=fleet.fractional,
        workloads=plan_shares(
            fleet, [(p.gpu, p.gpu_count) for p in built if p.name in fractional], findings
        ),
    )

"""Plans the common part of all clouds' pools, once the GPUs of their nodes are known."""

from __future__ import annotations

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated
from slicewright.infra.plan.gpu_operator.drivers import Driver, check_driver
from slicewright.infra.plan.model.fractional import Engine
from slicewright.infra.plan.model.nodes import AnyCloud, AnyPool, Gpus, MigStrategy
from slicewright.infra.plan.model.pools import PlannedPool
from slicewright.infra.plan.pools.label_owners import check_accelerator_label
from slicewright.infra.plan.pools.nodes import count_of, pool_labels, pool_taints
from slicewright.infra.plan.pools.offers import offer_of
from slicewright.infra.plan.pools.rollouts import rollout_of
from slicewright.infra.plan.pools.verification import verification_of

SYSTEM_PODS = 10
"""Roughly the pods on a GPU node that use no GPU: network, logging, metrics, agents, operands."""


def pool_plan(
    pool: AnyPool,
    path: stack_file.Path,
    gpus: Gpus | None,
    *,
    cloud: AnyCloud,
    strategy: MigStrategy,
    driver: Driver | None,
    engine: Engine | None,
    verification: stack_file.Verification,
    stated: Stated,
) -> Checked[PlannedPool[None] | None]:
    """The part of a pool's plan that is the same in all clouds. None if something is refused.

    gpus: the nodes' GPUs. None if they were refused before. Keys that do not depend on them are
    checked even then.
    """
    nodes = yield from count_of(pool.nodes, (*path, "nodes"))
    labels = yield from pool_labels(pool, path, cloud)
    taints = yield from pool_taints(pool, path, cloud, stated)
    rollout = yield from rollout_of(pool, path)
    offered = yield from offer_of(
        pool, path, gpus, cloud=cloud, strategy=strategy, engine=engine, stated=stated
    )
    if gpus is None or offered is None:
        return None
    offer, needed = offered
    yield from check_accelerator_label(pool, path, cloud, offer.resources)
    if driver is not None:
        yield from check_driver(driver, pool.name, gpus.gpu, offer)
    return PlannedPool(
        name=pool.name,
        offer=offer,
        nodes=nodes,
        labels={**labels, **needed},
        taints=taints,
        gpu=gpus.gpu,
        gpu_count=gpus.count,
        rollout=rollout,
        verification=verification_of(offer, verification),
        settings=None,
    )

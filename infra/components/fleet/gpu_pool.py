"""The pools' `GPUPool` objects, which `up` waits for and then checks.

Waiting alone is not enough: the provider waits for `Settled` only if it creates or updates a pool,
and a refresh forgets a wait that failed (pulumi/pulumi #17949). So after the wait every pool is
read once more, live, and checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pulumi

from slicewright.infra import manifests, stack_file
from slicewright.infra.components.fleet.gpu_pool_object import GPUPool, pool_metadata, pool_spec
from slicewright.infra.components.fleet.pool_verification import Live, check_verified
from slicewright.infra.plan import PoolPlan


class GpuPools(pulumi.ComponentResource):
    """Outputs: `pools` by name, and `verified`: true if all pools are verified. If they are not,
    `up` fails, and a preview warns.
    """

    pools: Mapping[str, GPUPool]
    verified: pulumi.Output[bool]

    def __init__(
        self,
        name: str,
        *,
        pools: Sequence[PoolPlan],
        timeout_minutes: int,
        cluster: pulumi.Resource | None,
        depends_on: Mapping[str, Sequence[pulumi.Input[pulumi.Resource]]],
        machines: Mapping[str, pulumi.Resource] | None = None,
        engine_namespace: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """depends_on: by pool, resources that verification needs: nodes, agents, controller,
        partitioner. machines: by pool, the node pool in the cloud. Pools of existing nodes are
        missing. engine_namespace: of the scheduler that shares GPUs by fractions, if any.
        """
        super().__init__("slicewright:index:GpuPools", name, {}, opts)
        self._name = name
        timeout = f"{timeout_minutes}m"
        self.pools = {
            pool.name: GPUPool(
                f"{name}-{pool.name}",
                metadata=pool_metadata(pool),
                spec=pool_spec(pool, engine_namespace=engine_namespace),
                opts=pulumi.ResourceOptions(
                    parent=self,
                    deleted_with=cluster,
                    depends_on=list(depends_on[pool.name]),
                    custom_timeouts=pulumi.CustomTimeouts(
                        create=timeout, update=timeout, delete=timeout
                    ),
                ),
            )
            for pool in pools
        }
        live = {pool_name: self._read(pool_name) for pool_name in self.pools}
        if pulumi.runtime.is_dry_run():
            for pool in pools:
                _warn_in_preview(pool, live[pool.name], (machines or {}).get(pool.name))
        check = partial(check_verified, {pool.name: pool for pool in pools})
        self.verified = pulumi.Output.all(**live).apply(check)
        # Registered, so that Pulumi waits for the result.
        self.register_outputs({"verified": self.verified})

    def once_verified(self, pool: GPUPool) -> pulumi.Output[pulumi.Resource]:
        """The pool, once all pools are verified. If they are not, `up` fails before it creates the
        resources that depend on this output.
        """

        def after_check(_: bool) -> pulumi.Resource:
            return pool

        return self.verified.apply(after_check)

    def _read(self, pool_name: str) -> pulumi.Output[Live]:
        """Reads the live object at every run: the state may be out of date.

        All pools come first, because one pool's change may restart the device plugin on the nodes
        of all.
        """
        live = GPUPool(
            f"{self._name}-{pool_name}-proof",
            opts=pulumi.ResourceOptions(
                parent=self,
                id=self.pools[pool_name].id,
                depends_on=list(self.pools.values()),
            ),
        )
        return live.spec.apply(
            lambda spec: live.status.apply(
                lambda status: live.metadata.apply(
                    lambda metadata: Live(spec=spec, status=status, metadata=metadata)
                )
            )
        )


def _warn_in_preview(
    pool: PoolPlan, live: pulumi.Output[Live], machines: pulumi.Resource | None
) -> None:
    """Warns of a rollout that `up` would begin. machines: the node pool in the cloud, if any."""
    replaced: pulumi.Output[bool] = pulumi.Output.from_input(
        asyncio.ensure_future(_is_new(machines))
    )
    pulumi.Output.all(live, replaced).apply(partial(_warn_about_rollout, pool))


async def _is_new(machines: pulumi.Resource | None) -> bool:
    """True if `up` would create the node pool. The engine knows the ID of an existing one."""
    return isinstance(machines, pulumi.CustomResource) and not await machines.id.is_known()


def _warn_about_rollout(pool: PoolPlan, outputs: Sequence[Any]) -> None:
    live, replaced = outputs
    for warning in manifests.rollout_warnings(pool, live.spec, live.status, replaced=replaced):
        pulumi.log.warn(stack_file.plain(warning))

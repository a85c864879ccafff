"""`GPUPool`, the custom resource that `up` waits on, and the proof: no green `up` while a pool is
not verified.

Waiting alone is not enough. The provider waits for `Verified` only where it creates or updates a
pool, and a refresh erases the memory of a wait that failed (kubernetes_provider 5). So after the
wait every pool is read once more, live, and judged here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from fleet_controller import api
from infra.plan import PoolPlan

_ANNOTATIONS = {
    "pulumi.com/waitFor": f"condition={api.VERIFIED}",
    # Nothing depends on a pool; a foreground delete would wait until the garbage collector has
    # learnt the kind (10 s and more).
    "pulumi.com/deletionPropagationPolicy": "background",
}
_MAX_SHOWN = 5
"""Nodes named per pool; the object itself has more."""


class Unverified(pulumi.RunError):
    """A pool's nodes have not proven their layout. A RunError: Pulumi prints the message alone,
    without a traceback.
    """


class GPUPool(pulumi.CustomResource):
    """An own class, because Pulumi's generic CustomResource does not let a program read
    `status`.
    """

    metadata: pulumi.Output[Mapping[str, Any]] = pulumi.property("metadata")
    status: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("status")

    def __init__(
        self,
        name: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        properties = {
            "apiVersion": api.API_VERSION,
            "kind": api.POOL_KIND,
            "metadata": metadata,
            "spec": spec,
            "status": None,
        }
        super().__init__(f"kubernetes:{api.API_VERSION}:{api.POOL_KIND}", name, properties, opts)


class GpuPools(pulumi.ComponentResource):
    """Outputs: `pools` by name; `verified`: true, or the end of `up`; in a preview false, with a
    warning.
    """

    pools: Mapping[str, GPUPool]
    verified: pulumi.Output[bool]

    def __init__(
        self,
        name: str,
        *,
        pools: Sequence[PoolPlan],
        timeout_minutes: int,
        cluster: pulumi.Resource,
        after: Mapping[str, Sequence[pulumi.Resource]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: by pool, what its proof needs: its nodes, its agents, the controller, and who
        partitions.
        """
        super().__init__("slicewright:index:GpuPools", name, {}, opts)
        timeout = f"{timeout_minutes}m"
        self.pools = {
            pool.name: GPUPool(
                f"{name}-{pool.name}",
                metadata={"name": pool.name, "annotations": dict(_ANNOTATIONS)},
                spec=_spec(pool),
                opts=pulumi.ResourceOptions(
                    parent=self,
                    deleted_with=cluster,
                    depends_on=list(after[pool.name]),
                    custom_timeouts=pulumi.CustomTimeouts(create=timeout, update=timeout),
                ),
            )
            for pool in pools
        }
        statuses = {
            pool_name: GPUPool(
                f"{name}-{pool_name}-proof",
                # Reads what the cluster has now, at every run; what the state has may be older than
                # a repair or a fault.
                opts=pulumi.ResourceOptions(parent=self, id=pool.id, depends_on=[pool]),
            )
            for pool_name, pool in self.pools.items()
        }
        known = {n: pulumi.Output.all(read.status, read.metadata) for n, read in statuses.items()}
        self.verified = pulumi.Output.all(**known).apply(_judge)
        # Registered, so that Pulumi waits for the verdict.
        self.register_outputs({"verified": self.verified})


def unverified(pool: str, status: Mapping[str, Any] | None, generation: int) -> str | None:
    """Why the pool is not verified, in one sentence and a line per node; None where it is.
    generation: of its spec.
    """
    condition = next(
        (c for c in (status or {}).get("conditions") or () if c.get("type") == api.VERIFIED), None
    )
    if condition is None:
        return f"pool {pool}: the fleet controller has said nothing about it yet"
    if (
        condition.get("status") == "True"
        and int(condition.get("observedGeneration", 0)) >= generation
    ):
        return None
    if condition.get("status") == "True":
        return f"pool {pool}: verified for an older layout only; the new one is not proven yet"
    failing = (status or {}).get("failingNodes") or ()
    said = "" if failing else str(condition.get("message") or "").rstrip(".")
    lines = [f"pool {pool}: not verified ({condition.get('reason')}){': ' + said if said else ''}"]
    lines += [
        f"  node {node.get('name')}: {node.get('reason')}: {node.get('message')}"
        for node in failing[:_MAX_SHOWN]
    ]
    if len(failing) > _MAX_SHOWN:
        lines.append(f"  and {len(failing) - _MAX_SHOWN} more: kubectl get gpupool {pool} -o yaml")
    return "\n".join(lines)


def _judge(known: Mapping[str, Sequence[Any]]) -> bool:
    findings = []
    for pool, (status, metadata) in sorted(known.items()):
        if why := unverified(pool, status, int((metadata or {}).get("generation") or 0)):
            findings.append(why)
    if not findings:
        return True
    text = "\n".join(findings)
    if pulumi.runtime.is_dry_run():
        pulumi.log.warn(f"{text}\n`up` will wait for this, and fail where it stays so.")
        return False
    raise Unverified(f"{text}\nNothing was rolled back. `up` fails until the nodes are right.")


def _spec(pool: PoolPlan) -> dict[str, Any]:
    """The layout's hash is part of it, so that every change of a layout is waited for."""
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {api.POOL_LABEL: pool.name}},
        "layoutHash": pool.layout_hash,
        "expectedNodes": {"min": pool.nodes.min, "max": pool.nodes.max},
    }
    if pool.mig_config is not None:
        spec["migConfig"] = pool.mig_config
    return spec

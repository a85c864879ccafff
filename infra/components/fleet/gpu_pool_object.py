"""The custom resource `GPUPool`: its resource class, and the object of a planned pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from slicewright.apis import names
from slicewright.infra.plan import ExistingSettings, PoolPlan

_ANNOTATIONS = {
    # `up` waits until all nodes are verified, or one is wrong in a way that needs a repair.
    "pulumi.com/waitFor": f"condition={names.SETTLED}",
    # Nothing depends on a pool. A foreground delete would wait until the garbage collector has
    # discovered the kind (10 s and more).
    "pulumi.com/deletionPropagationPolicy": "background",
}


class GPUPool(pulumi.CustomResource):
    """A class of its own, because Pulumi's generic CustomResource has no `status`."""

    metadata: pulumi.Output[Mapping[str, Any]] = pulumi.property("metadata")
    spec: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("spec")
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
            "apiVersion": names.API_VERSION,
            "kind": names.POOL_KIND,
            "metadata": metadata,
            "spec": spec,
            "status": None,
        }
        super().__init__(
            f"kubernetes:{names.API_VERSION}:{names.POOL_KIND}", name, properties, opts
        )


def pool_metadata(pool: PoolPlan) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": pool.name, "annotations": dict(_ANNOTATIONS)}
    if isinstance(pool.settings, ExistingSettings):
        # Set here and not by the controller, so that the nodes of every pool are released.
        metadata["finalizers"] = [names.RELEASE_FINALIZER]
    return metadata


def pool_spec(pool: PoolPlan, *, engine_namespace: str | None = None) -> dict[str, Any]:
    """The object's spec. It has the layout's hash, so that `up` waits after every layout change.

    engine_namespace: of the scheduler that shares GPUs by fractions, if the fleet has one.
    """
    select = (
        pool.settings.select
        if isinstance(pool.settings, ExistingSettings)
        else {names.POOL_LABEL: pool.name}
    )
    spec: dict[str, Any] = {
        "selector": {"matchLabels": dict(select)},
        "layoutHash": pool.offer.layout_hash,
        "expectedNodes": {"min": pool.nodes.min, "max": pool.nodes.max},
    }
    if pool.offer.mig_config is not None:
        spec["migConfig"] = pool.offer.mig_config
        spec["desiredState"] = pool.offer.desired
    if pool.driver_version is not None:
        spec["driverVersion"] = pool.driver_version
    shares = pool.offer.expected.shares
    if shares is not None:
        spec["shares"] = {
            "engine": shares.engine,
            "namespace": engine_namespace,
            "memoryUnitMiB": shares.memory_unit_mib,
        }
    policy = pool.rollout.policy
    if pool.offer.mig_config or pool.driver_version or policy.applies_without_rollout:
        spec["rolloutPolicy"] = policy.dump()
    if isinstance(pool.settings, ExistingSettings):
        # No node pool labels these nodes, so the fleet controller does.
        spec["existingNodes"] = {
            "labels": dict(pool.labels),
            "migLayoutOnRelease": {"keep": "Keep", "disable": "Disable"}[
                pool.settings.on_destroy.mig_layout
            ],
        }
    return spec

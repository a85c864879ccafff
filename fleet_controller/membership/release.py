"""The release of an existing node from its pool, which reverts only the pool's own changes. Pure.

A node leaves when its pool no longer selects it, and when its pool is deleted. A finalizer keeps a
pool that is being deleted until its nodes are released, so that the controller is still there to do
it: `pulumi destroy` deletes the pools before the controller.

The release takes back labels, startup taint, annotations and condition. The MIG layout stays, and
with it the label `nvidia.com/mig.config`, because the operator disables MIG on a node without that
label. If the pool says so, MIG is disabled first, once no pod uses the node's GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from slicewright.apis.names import (
    BUSY_STATES,
    CHANGED_ANNOTATION,
    DEFAULT_MIG_CONFIG,
    DESIRED_ANNOTATION,
    GPU_PODS_ANNOTATION,
    JOINED_ANNOTATION,
    POD_PROOF_ANNOTATION,
    RELEASE_FINALIZER,
    REPORTS_AFTER_ANNOTATION,
    SCHEDULER_START_ANNOTATION,
    STARTUP_TAINT_KEY,
    STUCK_ANNOTATION,
    VERIFIED_BOOT_ANNOTATION,
    VERIFIED_LAYOUT_ANNOTATION,
)
from slicewright.fleet_controller.membership.membership import (
    belongs_to,
    brought_keys,
    memberships,
    taken_back,
    unreadable_names,
)
from slicewright.fleet_controller.objects.action import NodeAction, PoolAction
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool


@dataclass(frozen=True, kw_only=True)
class ClearNodeCondition(NodeAction):
    """Removes the condition of a node that is in no pool any more."""

    LOG_MESSAGE = "node condition removed"


@dataclass(frozen=True, kw_only=True)
class ReleaseNode(NodeAction):
    """Restores a node's labels and removes the note about them. It is the node's last action."""

    LOG_MESSAGE = "node left its pool"

    version: str
    labels: Mapping[str, str | None]
    """The earlier values. None removes a label."""
    annotations: tuple[str, ...]
    """The annotations to remove."""
    taints: tuple[int, ...]
    """Indexes in spec.taints of the taints to remove, the last first."""

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"node": self.node, "labels": dict(self.labels)}


@dataclass(frozen=True, kw_only=True)
class RemoveFinalizer(PoolAction):
    """Removes our finalizer from a pool that is being deleted."""

    LOG_MESSAGE = "finalizer removed"

    version: str
    finalizers: tuple[str, ...]
    """The finalizers that stay."""


@dataclass(frozen=True, kw_only=True)
class DisableMig:
    """The layout of a departing node has to be disabled first."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A departing node that cannot be released yet."""

    pool: Pool
    reason: str
    message: str


Step = ClearNodeCondition | ReleaseNode | DisableMig | Waiting


def departing(pools: Sequence[Pool], nodes: Sequence[Node]) -> list[tuple[Node, Pool | None]]:
    """Returns the nodes that joined a pool and are in none now, with that pool if it still exists.

    The nodes are sorted by name. Nodes that bear the name of an unreadable pool are left out,
    because that pool is not deleted.
    """
    # Skips nodes that were created for their pool: there are thousands.
    unreadable = unreadable_names(pools)
    joined = [
        node
        for node in nodes
        if node.joined is not None and not node.leaving and not belongs_to(node, unreadable)
    ]
    members = {node.name for _, present in memberships(pools, joined) for node in present}
    by_name = {pool.name: pool for pool in pools}
    return [
        (node, by_name.get(node.joined.pool))
        for node in sorted(joined, key=lambda node: node.name)
        if node.joined is not None and node.name not in members
    ]


def next_step(
    node: Node,
    pool: Pool | None,
    gpu_pods: tuple[str, ...] | None,
    brought_by_any: AbstractSet[str] | None = None,
) -> Step:
    """Returns the next step for a departing node.

    pool: None if it has been deleted already.
    gpu_pods: the pods that use its GPUs, or None if unknown.
    brought_by_any: `brought_keys` of all pools. None if `pool` is the only one.
    """
    if pool is not None and disables(node, pool):
        if node.mig_config != DEFAULT_MIG_CONFIG:
            if node.mig_state in BUSY_STATES:
                return _for_mig_manager(node, pool)
            if gpu_pods == ():
                return DisableMig()
            running = ", ".join((gpu_pods or ())[:3]) or "not known yet"
            return Waiting(
                pool=pool,
                reason="ReleaseHeldByPods",
                message="MIG is disabled, and the node leaves the pool, when no pod uses the "
                f"node's GPUs; still running: {running}",
            )
        if node.mig_state != "success":
            return _for_mig_manager(node, pool)
    if node.condition is not None:
        # The condition is in the status, so it takes a request of its own. The note on the node has
        # to go last.
        return ClearNodeCondition(node=node.name)
    trusted_keys = (
        brought_keys([pool] if pool else []) if brought_by_any is None else brought_by_any
    )
    return _release(node, trusted_keys)


def disables(node: Node, pool: Pool) -> bool:
    """True if MIG is to be disabled on a node that leaves `pool`."""
    return pool.disables_mig and pool.mig_config is not None and node.mig_config is not None


def to_disable(pools: Sequence[Pool], nodes: Sequence[Node]) -> Iterator[str]:
    """Yields departing nodes whose MIG layout is to be disabled, which depends on their pods."""
    if not any(pool.disables_mig for pool in pools):
        return
    for node, pool in departing(pools, nodes):
        if (
            pool is not None
            and disables(node, pool)
            and node.mig_config != DEFAULT_MIG_CONFIG
            and node.mig_state not in BUSY_STATES
        ):
            yield node.name


def finalizers_to_remove(pools: Sequence[Pool], nodes: Sequence[Node]) -> Iterator[RemoveFinalizer]:
    """Yields the actions for pools that are being deleted and have released all their nodes."""
    going = [
        pool
        for pool in pools
        if pool.leaving and not pool.unreadable and RELEASE_FINALIZER in pool.finalizers
    ]
    if not going:
        return
    held = {node.joined.pool for node, _ in departing(pools, nodes) if node.joined}
    for pool in sorted(going, key=lambda pool: pool.name):
        if pool.name not in held:
            remaining = tuple(name for name in pool.finalizers if name != RELEASE_FINALIZER)
            yield RemoveFinalizer(pool=pool.name, version=pool.version, finalizers=remaining)


def _release(node: Node, trusted_keys: AbstractSet[str]) -> ReleaseNode:
    assert node.joined is not None
    taints = [i for i, key in enumerate(node.taint_keys) if key == STARTUP_TAINT_KEY]
    ours = {
        VERIFIED_BOOT_ANNOTATION: node.verified_boot,
        VERIFIED_LAYOUT_ANNOTATION: node.verified_layout,
        STUCK_ANNOTATION: node.stuck,
        DESIRED_ANNOTATION: node.desired_state_annotation,
        REPORTS_AFTER_ANNOTATION: node.reports_after,
        CHANGED_ANNOTATION: node.changed_at,
        GPU_PODS_ANNOTATION: node.gpu_pods,
        POD_PROOF_ANNOTATION: node.pod_proof,
        SCHEDULER_START_ANNOTATION: node.scheduler_start,
        JOINED_ANNOTATION: node.joined,
    }
    return ReleaseNode(
        node=node.name,
        version=node.version,
        labels=taken_back(node, node.joined.labels, trusted_keys),
        annotations=tuple(key for key, value in ours.items() if value),
        taints=tuple(reversed(taints)),
    )


def _for_mig_manager(node: Node, pool: Pool) -> Waiting:
    return Waiting(
        pool=pool,
        reason="ReleaseWaitsForMigManager",
        message="the node leaves the pool when mig-manager has disabled MIG; "
        f"nvidia.com/mig.config.state is {node.mig_state or 'absent'}. If this lasts, see the log "
        "of the mig-manager pod on the node, or let the layout stay: kubectl patch gpupool "
        f'{pool.name} --type merge -p \'{{"spec":{{"existingNodes":{{"migLayoutOnRelease":'
        '"Keep"}}}\'',
    )

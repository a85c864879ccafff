"""GPUPools and the user requests for their rollouts, parsed from the API objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from slicewright.apis.gpu_pool.rollout_policy import DEFAULT_POLICY, RolloutPolicy, read_policy
from slicewright.apis.gpu_pool.rollout_request import RolloutRequest, read_rollout_request
from slicewright.apis.names import POOL_LABEL, ROLLOUT_ANNOTATION
from slicewright.fleet_controller.objects.bounds import (
    EPOCH_S,
    LONGEST_NAME,
    name,
    seconds,
    text,
    texts,
)
from slicewright.fleet_controller.objects.condition import Condition, read_condition
from slicewright.fleet_controller.objects.known_layouts import (
    KnownLayout,
    read_layout,
    target_of_undo,
)
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool_status import readable_status
from slicewright.fleet_controller.objects.shares import PoolShares, read_pool_shares


@dataclass(frozen=True, kw_only=True)
class Pool:
    name: str
    uid: str
    generation: int
    created: float
    selector: Mapping[str, str]
    layout_hash: str
    """Hash of the layout that its nodes are to have now. `mig_config` is of the same layout."""
    fewest: int
    mig_config: str | None
    status: Mapping[str, Any]
    """The status in the cluster."""
    brings: Mapping[str, str] | None = None
    """Labels for nodes that exist without the pool. None if the nodes were created with theirs."""
    disables_mig: bool = False
    """True if MIG is disabled on existing nodes that leave the pool."""
    version: str = ""
    """The resourceVersion."""
    leaving: bool = False
    """True if it is being deleted."""
    finalizers: tuple[str, ...] = ()
    policy: RolloutPolicy = DEFAULT_POLICY
    rollout_request: str = ""
    """The user request for its rollout: the value of ROLLOUT_ANNOTATION."""
    suspended: str = ""
    """`paused` or `aborted` as users have requested for its rollout, or empty."""
    declared: KnownLayout | None = None
    """The layout that its spec declares. None if mig-manager does not partition it."""
    desired_state_annotation: str = ""
    """The desired state that its agents read instead of their file. Empty if the file applies."""
    no_undo: str = ""
    """Why a requested undo is impossible. Empty if none is requested, or it is possible."""
    driver: str | None = None
    """NVIDIA's driver version that its nodes must have. None if the rollout changes no driver."""
    shares: PoolShares | None = None
    """None if no engine shares the GPUs of its nodes by fractions."""
    unreadable: str = ""
    """Why the object cannot be read, or empty. If set, the other fields are the last readable ones,
    or empty. Nothing is taken from the nodes of such a pool.
    """

    @property
    def undone(self) -> bool:
        """True if its nodes are to have an earlier layout than its spec declares."""
        return self.declared is not None and self.mig_config != self.declared.mig_config

    @property
    def request_after_undo(self) -> str | None:
        """The rest of the request, if an undo has ended because the spec declares another layout.
        None if no undo has ended.
        """
        request = read_rollout_request(self.rollout_request)
        if request is None or self.declared is None:
            return None
        if request.undoes in ("", self.declared.mig_config):
            return None
        return replace(request, undoes="").dump()

    def selects(self, node: Node) -> bool:
        return bool(self.selector) and all(
            node.labels.get(key) == value for key, value in self.selector.items()
        )

    def condition(self, kind: str) -> Condition | None:
        return self._conditions.get(kind)

    @cached_property
    def _conditions(self) -> Mapping[str, Condition]:
        return {
            kind: condition
            for kind in (raw.get("type", "") for raw in self.status.get("conditions") or ())
            if (condition := read_condition(self.status.get("conditions"), kind)) is not None
        }


def read_pool(raw: Mapping[str, Any]) -> Pool:
    meta, spec = raw["metadata"], raw["spec"]
    existing = spec.get("existingNodes")
    request = (meta.get("annotations") or {}).get(ROLLOUT_ANNOTATION, "")
    layout = text(spec.get("migConfig"), LONGEST_NAME) or None
    layout_hash = text(spec["layoutHash"], LONGEST_NAME)
    pool = Pool(
        name=name(meta),
        uid=meta["uid"],
        generation=int(meta.get("generation", 1)),
        created=seconds(meta.get("creationTimestamp")),
        selector=texts(spec["selector"]["matchLabels"]),
        layout_hash=layout_hash,
        fewest=int(spec["expectedNodes"]["min"]),
        mig_config=layout,
        status=readable_status(raw.get("status")),
        brings=None if existing is None else texts(existing["labels"]),
        disables_mig=(existing or {}).get("migLayoutOnRelease") == "Disable",
        version=meta.get("resourceVersion", ""),
        leaving="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers") or ()),
        policy=read_policy(spec.get("rolloutPolicy")),
        driver=text(spec.get("driverVersion"), LONGEST_NAME) or None,
        declared=_declared(spec, layout, layout_hash),
        shares=read_pool_shares(spec.get("shares")),
    )
    return obeying(pool, request)


def _declared(spec: Mapping[str, Any], layout: str | None, layout_hash: str) -> KnownLayout | None:
    """Returns the layout in the spec.

    If an older program wrote the pool, nodes can get the layout, but an undo cannot go back to it.
    """
    if layout is None:
        return None
    return read_layout(spec) or KnownLayout(mig_config=layout, layout_hash=layout_hash, desired="")


def unreadable_pool(raw: Mapping[str, Any], why: str, last: Pool | None = None) -> Pool:
    """Returns a stand-in for a pool that cannot be read: its last readable state, or its name
    alone.

    Raises KeyError or TypeError if not even its name can be read.
    """
    if last is not None:
        return replace(last, unreadable=why)
    meta = raw["metadata"]
    return missing_pool(name(meta), why, uid=text(meta.get("uid")))


def missing_pool(pool: str, why: str, *, uid: str = "") -> Pool:
    """Returns a stand-in for a pool that is known by name only. Its nodes carry its label."""
    return Pool(
        name=pool,
        uid=uid,
        generation=0,
        created=EPOCH_S,
        selector={POOL_LABEL: pool},
        layout_hash="",
        fewest=0,
        mig_config=None,
        status={},
        unreadable=why,
    )


def obeying(pool: Pool, annotation: str) -> Pool:
    """Applies the user request to the pool.

    annotation: the value of ROLLOUT_ANNOTATION.

    An impossible undo pauses the rollout: users who request an undo do not want it to go on.
    """
    pool = replace(pool, rollout_request=annotation)
    request, declared = read_rollout_request(annotation) or RolloutRequest(), pool.declared
    if declared is None:
        why = target_of_undo(None, pool.status) if request.undoes else ""
        return replace(pool, suspended=request.suspended, no_undo=str(why))
    if request.undoes != declared.mig_config:
        return _as_declared(pool, declared, request.suspended)
    target = target_of_undo(declared, pool.status)
    if isinstance(target, str):
        suspended = request.suspended or "paused"
        return replace(_as_declared(pool, declared, suspended), no_undo=target)
    return replace(
        _as_declared(pool, declared, request.suspended),
        mig_config=target.mig_config,
        layout_hash=target.layout_hash,
        desired_state_annotation=target.desired,
    )


def _as_declared(pool: Pool, declared: KnownLayout, suspended: str) -> Pool:
    return replace(
        pool,
        suspended=suspended,
        mig_config=declared.mig_config,
        layout_hash=declared.layout_hash,
        desired_state_annotation="",
        no_undo="",
    )

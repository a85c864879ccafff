"""The fields that pods need to run on a pool's nodes: tolerations, selectors, limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slicewright.apis.names import POOL_LABEL, STARTUP_TAINT, STARTUP_TAINT_KEY
from slicewright.apis.shares.engines import ENGINES
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import ExistingSettings, GkeSettings, PoolPlan, Taint, WorkloadPlan
from slicewright.infra.plan.partition.sharing import allocatable

_ANY_GPU_TAINT: JsonObject = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def tolerations(pools: Sequence[PoolPlan]) -> list[JsonObject]:
    """Tolerations for a pod that runs on all nodes of `pools`, before they are verified too.

    Never a toleration of everything: such a pod would stay on a node that is being drained.
    """
    return _tolerations(
        taint for pool in pools for taint in (*pool.tolerated, *_quarantine_taints(pool))
    )


def pod_request(pool: PoolPlan, workloads: Sequence[WorkloadPlan]) -> JsonObject:
    """The fields of a Pod that request one device of a pool.

    `limits` are alternatives, one for each resource of the nodes, or for each of `workloads` if the
    pool's GPUs are shared by fractions. `hostIPC` and `schedulerName` are only set if the pod needs
    them.
    """
    fractional = pool.offer.resources != allocatable(pool.offer.devices, pool.offer.sharing)
    return {
        "nodeSelector": dict(pool.settings.select)
        if isinstance(pool.settings, ExistingSettings)
        else {POOL_LABEL: pool.name},
        "tolerations": _tolerations(t for t in pool.tolerated if t.key != STARTUP_TAINT_KEY),
        "limits": [dict(workload.requests) for workload in workloads]
        if fractional
        else [{name: 1} for name in sorted(pool.offer.resources)],
        **({"hostIPC": True} if _reaches_mps_by_ipc(pool) else {}),
        **scheduler_name(pool),
    }


def scheduler_name(pool: PoolPlan) -> JsonObject:
    """The field of a Pod that names its scheduler, if an engine shares the pool's GPUs.

    HAMi's webhook would set it, but a pod passes unchanged while the webhook does not answer.
    """
    shares = pool.offer.expected.shares
    return {"schedulerName": ENGINES[shares.engine].scheduler} if shares is not None else {}


def _reaches_mps_by_ipc(pool: PoolPlan) -> bool:
    """True if pods must share the node's IPC namespace, to reach GKE's MPS daemon.

    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/nvidia-mps-gpus, "Deploy
    workloads that use NVIDIA MPS with GPUs". NVIDIA's operator gives pods the daemon's directory
    instead.
    """
    by_gke = isinstance(pool.settings, GkeSettings) and not pool.operated
    return by_gke and any(shared.strategy == "mps" for shared in pool.offer.sharing)


def _quarantine_taints(pool: PoolPlan) -> tuple[Taint, ...]:
    """A taint that ends pods on a faulty node must not end the pods that could repair it."""
    return tuple(
        Taint(key=STARTUP_TAINT_KEY, value=STARTUP_TAINT["value"], effect=effect)
        for effect in pool.rollout.policy.extra_taint_effects
    )


def _tolerations(taints: Iterable[Taint]) -> list[JsonObject]:
    listed: list[JsonObject] = [dict(_ANY_GPU_TAINT)]
    for taint in taints:
        toleration = {
            "key": taint.key,
            "operator": "Equal",
            "value": taint.value,
            "effect": taint.effect,
        }
        if taint.key == _ANY_GPU_TAINT["key"] and taint.effect == _ANY_GPU_TAINT["effect"]:
            continue
        if toleration not in listed:
            listed.append(toleration)
    return listed

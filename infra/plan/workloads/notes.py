"""Notes on workloads. None of them is a reason to refuse a workload."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slicewright.infra.plan.model.deployments import DeploymentPlan
from slicewright.infra.plan.model.pools import PoolPlan
from slicewright.infra.plan.workloads.model_disk import disk_note, download_gb
from slicewright.infra.plan.workloads.servers import triton_flags, vllm_flags
from slicewright.infra.plan.workloads.servers.server_flags import unknown_flags
from slicewright.infra.stack_file import NewVolume, TritonWorkload, VllmWorkload


def workload_notes(deployments: Sequence[DeploymentPlan], pools: Sequence[PoolPlan]) -> list[str]:
    """One sentence each, starting with the workload's name."""
    by_name = {pool.name: pool for pool in pools}
    return [
        note
        for deployment in deployments
        for note in _workload_notes(deployment, by_name[deployment.workload.pool])
    ]


def _workload_notes(plan: DeploymentPlan, pool: PoolPlan) -> list[str]:
    workload, at, notes = plan.workload, f"workload {plan.name}:", []
    if plan.share is not None:
        notes += _unplaced(plan)
    elif plan.room is not None and plan.room < min(plan.most, plan.offered // plan.devices):
        notes.append(
            f"{at} by what it requests of processor and memory, nodes of pool {workload.pool} have "
            f"room for {plan.room} of its {plan.most} replicas: "
            f"{_replicas(plan.pending)} Pending{_unawaited(plan)}"
        )
    elif plan.pending:
        notes.append(
            f"{at} {plan.demanded} {plan.resource} are asked for and pool {workload.pool} offers "
            f"{plan.offered} at most, so {_replicas(plan.pending)} Pending{_unawaited(plan)}"
        )
    elif not plan.awaited:
        notes.append(
            f"{at} nodes of pool {workload.pool} for all replicas do not come by themselves, so "
            "`pulumi up` does not wait for this workload"
        )
    if isinstance(workload, VllmWorkload):
        notes += [*_vllm(plan, workload), *disk_note(plan, workload, pool)]
        notes += _unknown_flags(workload, vllm_flags.CATALOG)
    if isinstance(workload, TritonWorkload):
        notes += [*_triton(workload), *_unknown_flags(workload, triton_flags.CATALOG)]
    cache = None if isinstance(workload, TritonWorkload) else workload.cache
    if isinstance(cache, NewVolume) and cache.access_mode == "ReadWriteMany":
        named = f"storage class {cache.storage_class}" if cache.storage_class else "default class"
        notes.append(
            f"{at} its pods wait until the cluster's {named} makes volumes that several nodes "
            "write: its driver is not part of the stack"
        )
    if workload.secrets:
        names = sorted({secret.name for secret in workload.secrets.values()})
        notes.append(
            f"{at} its pods wait until namespace {plan.namespace} has the Secret"
            f"{'s' if len(names) > 1 else ''} {', '.join(names)}"
        )
    return notes


def _unplaced(plan: DeploymentPlan) -> list[str]:
    if not plan.pending:
        return []
    return [
        f"workload {plan.name}: the shared GPUs have room for {plan.runs} of its {plan.most} "
        f"replicas beside the other workloads: {_replicas(plan.pending)} Pending{_unawaited(plan)}"
    ]


def _vllm(plan: DeploymentPlan, workload: VllmWorkload) -> list[str]:
    at, notes = f"workload {workload.name}:", _download(plan, workload)
    if workload.max_model_len is None or workload.model.attention is None:
        missing = [
            key
            for key, value in (
                ("max_model_len", workload.max_model_len),
                ("model.attention", workload.model.attention),
            )
            if value is None
        ]
        notes.append(
            f"{at} the memory of the context is not compared with the partition: for that, write "
            f"{' and '.join(missing)}"
        )
    if workload.service.type == "LoadBalancer" and "VLLM_API_KEY" not in workload.secrets:
        notes.append(
            f"{at} whoever reaches the load balancer's address can use it: write secrets: "
            "{VLLM_API_KEY: {name: …, key: …}}, or annotations that make the address internal"
        )
    return notes


def _unknown_flags(
    workload: VllmWorkload | TritonWorkload, flag_catalog: Collection[str]
) -> list[str]:
    """Newer versions of a server have flags that no list here has."""
    if not (flags := unknown_flags(workload.extra_args, flag_catalog)):
        return []
    return [
        f"workload {workload.name}: {', '.join(flags)}: no known flag of {workload.kind}, so its "
        "effect on address, readiness, memory and GPUs is not checked"
    ]


def _triton(workload: TritonWorkload) -> list[str]:
    """Triton has no key. Source: triton-inference-server/server,
    docs/customization_guide/deploy.md, secure deployment considerations.
    """
    if workload.service.type != "LoadBalancer":
        return []
    loads = ", and may load and unload its models" if workload.model_control == "explicit" else ""
    return [
        f"workload {workload.name}: whoever reaches the load balancer's address can use it and "
        f"read its metrics on port 8002{loads}, because Triton asks for no key: write annotations "
        "that make the address internal, or put a gateway in front of it"
    ]


def _download(plan: DeploymentPlan, workload: VllmWorkload) -> list[str]:
    if workload.cache is not None or plan.most < 2:
        return []
    together = download_gb(workload) * plan.most
    return [
        f"workload {workload.name}: each of {plan.most} replicas downloads its own copy of the "
        f"model, some {together:.0f} GB together at every start: write cache"
    ]


def _unawaited(plan: DeploymentPlan) -> str:
    return "" if plan.awaited else ", and `pulumi up` does not wait for this workload"


def _replicas(count: int) -> str:
    return "1 replica stays" if count == 1 else f"{count} replicas stay"

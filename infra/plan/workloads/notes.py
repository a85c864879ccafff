"""Notes on workloads. None of them is a reason to refuse a workload."""

from __future__ import annotations

from collections.abc import Sequence

from infra.plan.model.deployments import DeploymentPlan
from infra.plan.model.pools import PoolPlan
from infra.plan.workloads.model_disk import disk_note, download_gb
from infra.spec import NewVolume, TritonWorkload, VllmWorkload


def workload_notes(deployments: Sequence[DeploymentPlan], pools: Sequence[PoolPlan]) -> list[str]:
    """One sentence each, starting with the workload's name."""
    by_name = {pool.name: pool for pool in pools}
    return [note for one in deployments for note in _of(one, by_name[one.asked.pool])]


def _of(plan: DeploymentPlan, pool: PoolPlan) -> list[str]:
    asked, at, found = plan.asked, f"workload {plan.name}:", []
    if plan.room is not None and plan.room < min(plan.most, plan.offered // plan.devices):
        found.append(
            f"{at} by what it requests of processor and memory, nodes of pool {asked.pool} have "
            f"room for {plan.room} of its {plan.most} replicas at most: "
            f"{_replicas(plan.pending)} Pending{_unawaited(plan)}"
        )
    elif plan.pending:
        found.append(
            f"{at} {plan.wanted} {plan.resource} are asked for and pool {asked.pool} offers "
            f"{plan.offered} at most, so {_replicas(plan.pending)} Pending{_unawaited(plan)}"
        )
    elif not plan.awaited:
        found.append(
            f"{at} nodes of pool {asked.pool} for all replicas do not come by themselves, so "
            "`pulumi up` does not wait for this workload"
        )
    if isinstance(asked, VllmWorkload):
        found += [*_vllm(plan, asked), *disk_note(plan, asked, pool)]
    if isinstance(asked, TritonWorkload):
        found += _triton(asked)
    cache = None if isinstance(asked, TritonWorkload) else asked.cache
    if isinstance(cache, NewVolume) and cache.access_mode == "ReadWriteMany":
        named = f"storage class {cache.storage_class}" if cache.storage_class else "default class"
        found.append(
            f"{at} its pods wait until the cluster's {named} makes volumes that several nodes "
            "write: its driver is not part of the stack"
        )
    if asked.secrets:
        names = sorted({one.name for one in asked.secrets.values()})
        found.append(
            f"{at} its pods wait until namespace {plan.namespace} has the Secret"
            f"{'s' if len(names) > 1 else ''} {', '.join(names)}"
        )
    return found


def _vllm(plan: DeploymentPlan, asked: VllmWorkload) -> list[str]:
    at, found = f"workload {asked.name}:", _download(plan, asked)
    if asked.max_model_len is None or asked.model.attention is None:
        missing = [
            key
            for key, value in (
                ("max_model_len", asked.max_model_len),
                ("model.attention", asked.model.attention),
            )
            if value is None
        ]
        found.append(
            f"{at} the memory of the context is not compared with the partition: for that, write "
            f"{' and '.join(missing)}"
        )
    if asked.service.type == "LoadBalancer" and "VLLM_API_KEY" not in asked.secrets:
        found.append(
            f"{at} whoever reaches the load balancer's address can use it: write secrets: "
            "{VLLM_API_KEY: {name: …, key: …}}, or annotations that make the address internal"
        )
    return found


def _triton(asked: TritonWorkload) -> list[str]:
    """Triton has no key. Source: triton-inference-server/server,
    docs/customization_guide/deploy.md, secure deployment considerations.
    """
    if asked.service.type != "LoadBalancer":
        return []
    loads = ", and may load and unload its models" if asked.model_control == "explicit" else ""
    return [
        f"workload {asked.name}: whoever reaches the load balancer's address can use it and read "
        f"its metrics on port 8002{loads}, for Triton asks for no key: write annotations that make "
        "the address internal, or put a gateway in front of it"
    ]


def _download(plan: DeploymentPlan, asked: VllmWorkload) -> list[str]:
    if asked.cache is not None or plan.most < 2:
        return []
    together = download_gb(asked) * plan.most
    return [
        f"workload {asked.name}: each of {plan.most} replicas downloads its own copy of the "
        f"model, some {together:.0f} GB together at every start: write cache"
    ]


def _unawaited(plan: DeploymentPlan) -> str:
    return "" if plan.awaited else ", and `pulumi up` does not wait for this workload"


def _replicas(count: int) -> str:
    return "1 replica stays" if count == 1 else f"{count} replicas stay"

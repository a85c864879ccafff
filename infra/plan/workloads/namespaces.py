"""Checks the names of workloads, and the namespaces that they run in."""

from __future__ import annotations

from collections import Counter

from slicewright.apis.names import NAMESPACE
from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.pools import GkeSettings, PoolPlan


@rule("workload-name")
def check_names(fleet: stack_file.Fleet, stated: Stated) -> Checked[None]:
    """Refuses a name that several workloads have, of any kind."""
    named = [
        (i, w.name) for i, w in enumerate(fleet.workloads) if stated.has(("workloads", i, "name"))
    ]
    times = Counter(name for _, name in named)
    for i, name in named:
        if times[name] > 1:
            yield refuse(
                ("workloads", i, "name"),
                f"{name} is listed {times[name]} times",
                "name each workload once",
            )


@rule("workload-namespace")
def check_namespaces(fleet: stack_file.Fleet, stated: Stated) -> Checked[None]:
    operator = getattr(fleet, "gpu_operator", None)
    reserved = {NAMESPACE: "slicewright"} | (
        {operator.namespace: "the GPU operator"} if operator is not None else {}
    )
    namespaces: dict[str, tuple[int, bool]] = {}
    for i, workload in enumerate(fleet.workloads):
        if isinstance(workload, stack_file.Workload) or not stated.has(("workloads", i)):
            continue
        if workload.namespace in reserved or workload.namespace.startswith("kube-"):
            yield refuse(
                ("workloads", i, "namespace"),
                f"{workload.namespace} is reserved for "
                f"{reserved.get(workload.namespace, 'Kubernetes itself')}",
                "write another, for example models",
                "Kubernetes docs, namespaces",
            )
        first, create = namespaces.setdefault(workload.namespace, (i, workload.create_namespace))
        if create != workload.create_namespace and workload.namespace != "default":
            yield refuse(
                ("workloads", i, "create_namespace"),
                f"workloads[{first}] has {str(create).lower()} for the same namespace, "
                f"{workload.namespace}",
                "write the same in both",
            )


@rule("workload-pod-security")
def check_pod_security(
    workload: stack_file.ServedWorkload, path: stack_file.Path, pool: PoolPlan, stated: Stated
) -> Checked[None]:
    """Whether the namespace that the stack makes, for restricted pods, takes the pods of a pool."""
    needs_host_ipc = (
        isinstance(pool.settings, GkeSettings) and pool.settings.sharing_strategy == "MPS"
    )
    makes_namespace = workload.create_namespace and workload.namespace != "default"
    if needs_host_ipc and makes_namespace and stated.has((*path, "namespace")):
        yield refuse(
            (*path, "create_namespace"),
            f"a namespace that the stack makes takes restricted pods only, and pods of {pool.name} "
            "need hostIPC for GKE's MPS",
            f"create namespace {workload.namespace} with the label "
            "pod-security.kubernetes.io/enforce: privileged, decide who may create pods there, and "
            "write false",
            "Kubernetes docs, Pod Security Standards",
        )

"""Plans workloads that serve models: each against the pool that it runs on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from apis.names import NAMESPACE
from infra import spec
from infra.plan.findings import Checked, Stated, listed, nearest, refuse
from infra.plan.model.deployments import DeploymentPlan, Devices
from infra.plan.model.nodes import WHOLE_GPU
from infra.plan.model.pools import CloudSettings, GkeSettings, PoolPlan
from infra.plan.model.scaling import AutoscalingPlan
from infra.plan.partition.resource_names import resource_of
from infra.plan.workloads.autoscaling import Demand, check_autoscaling, plan_autoscaling
from infra.plan.workloads.gpus import check_gpu_memory, check_gpus
from infra.plan.workloads.model_memory import model_memory
from infra.plan.workloads.shared_memory import Tenant, check_shared_memory
from infra.plan.workloads.texts import check_texts
from infra.plan.workloads.triton import check_triton
from infra.plan.workloads.vllm import check_memory, check_vllm


def plan_deployments(
    fleet: spec.Fleet, built: Sequence[PoolPlan], stated: Stated
) -> Checked[tuple[DeploymentPlan, ...]]:
    """built: the pools that could be planned."""
    yield from _check_names(fleet, stated)
    yield from _check_namespaces(fleet, stated)
    pools = {pool.name: pool for pool in built}
    placed: list[tuple[spec.Path, spec.ServedWorkload, PoolPlan, Devices]] = []
    for i, asked in enumerate(fleet.workloads):
        path: spec.Path = ("workloads", i)
        if isinstance(asked, spec.Workload):
            continue
        yield from check_texts(asked, path, stated)
        yield from _check_host(asked, path)
        yield from check_autoscaling(asked, path, stated)
        match asked:
            case spec.VllmWorkload():
                yield from check_vllm(asked, path, stated)
            case spec.TritonWorkload():
                yield from check_triton(asked, path, stated)
            case spec.ContainerWorkload():
                yield from _check_ports(asked, path, stated)
        pool = yield from _pool_of(asked, path, fleet, pools, stated)
        if pool is None:
            continue
        yield from _check_pod_security(asked, path, pool, stated)
        devices = yield from _devices_of(asked, path, pool, stated)
        if devices is None:
            continue
        yield from _check_against_node(asked, path, pool)
        match asked:
            case spec.VllmWorkload():
                at = (*path, "tensor_parallel")
                yield from check_gpus(asked.tensor_parallel, at, pool, devices)
                yield from check_memory(asked, path, pool, devices, stated)
            case spec.TritonWorkload():
                yield from check_gpu_memory(asked, path, pool, devices, stated)
            case spec.ContainerWorkload():
                yield from check_gpus(asked.gpus, (*path, "gpus"), pool, devices)
                yield from check_gpu_memory(asked, path, pool, devices, stated)
        placed.append((path, asked, pool, devices))
    demands = [
        ((pool.name, devices.resource), Demand(asked=asked, devices=_devices(asked)))
        for _, asked, pool, devices in placed
    ]
    scaled = []
    for i, (path, asked, pool, devices) in enumerate(placed):
        on_one = _room_on_a_node(asked, pool)
        scaled.append(
            (
                yield from plan_autoscaling(
                    demands[i][1],
                    path,
                    pool=pool.name,
                    resource=devices.resource,
                    offered=pool.offer.resources[devices.resource] * pool.nodes.max,
                    room=None if on_one is None else on_one * pool.nodes.max,
                    others=[
                        other
                        for j, (of, other) in enumerate(demands)
                        if j != i and of == demands[i][0]
                    ],
                    stated=stated,
                )
            )
        )
    yield from check_shared_memory(
        [
            Tenant(
                path=path,
                asked=asked,
                pool=pool,
                devices=devices,
                replicas=autoscaling.max
                if autoscaling is not None
                else demand.most // demand.devices,
            )
            for (path, asked, pool, devices), (_, demand), autoscaling in zip(
                placed, demands, scaled, strict=True
            )
        ],
        stated,
    )
    most: dict[tuple[str, str], int] = defaultdict(int)
    at_first: dict[tuple[str, str], int] = defaultdict(int)
    for (of, demand), autoscaling in zip(demands, scaled, strict=True):
        most[of] += demand.most if autoscaling is None else autoscaling.max * demand.devices
        at_first[of] += _at_first(demand.asked) * demand.devices
    return tuple(
        _deployment(
            fleet,
            asked,
            pool,
            devices,
            autoscaling,
            wanted=most[pool.name, devices.resource],
            at_first=at_first[pool.name, devices.resource],
        )
        for (_, asked, pool, devices), autoscaling in zip(placed, scaled, strict=True)
    )


def _at_first(asked: spec.ServedWorkload) -> int:
    """The number of replicas when the workload is created."""
    return asked.replicas if asked.autoscaling is None else asked.autoscaling.min


def _deployment(
    fleet: spec.Fleet,
    asked: spec.ServedWorkload,
    pool: PoolPlan,
    devices: Devices,
    autoscaling: AutoscalingPlan | None,
    *,
    wanted: int,
    at_first: int,
) -> DeploymentPlan:
    """wanted, at_first: devices that all workloads of the resource have at most, and when they are
    made.
    """
    each, on_one = pool.offer.resources[devices.resource], _room_on_a_node(asked, pool)
    nodes = _nodes_that_come(pool, fleet)
    return DeploymentPlan(
        asked=asked,
        resource=devices.resource,
        devices=_devices(asked),
        profiles=devices.profiles,
        device_mib=devices.mib,
        node_labels={"cloud.google.com/gke-gpu-partition-size": pool.settings.partition_size}
        if isinstance(pool.settings, GkeSettings) and pool.settings.partition_size
        else {},
        offered=each * pool.nodes.max,
        wanted=wanted,
        room=None if on_one is None else on_one * pool.nodes.max,
        awaited=at_first <= each * nodes and (on_one is None or _at_first(asked) <= on_one * nodes),
        memory=model_memory(asked) if isinstance(asked, spec.VllmWorkload) else None,
        autoscaling=autoscaling,
    )


def _devices(asked: spec.ServedWorkload) -> int:
    """Devices of each pod."""
    match asked:
        case spec.VllmWorkload():
            return asked.tensor_parallel
        case spec.ContainerWorkload():
            return asked.gpus
        case spec.TritonWorkload():
            return 1


def _nodes_that_come(pool: PoolPlan, fleet: spec.Fleet) -> int:
    """The number of nodes once pods ask for them. GKE's autoscaler comes with its cluster, EKS's
    on request. Nodes of queued capacity only come for a ProvisioningRequest.
    """
    match fleet:
        case spec.GkeFleet():
            queued = isinstance(pool.settings, GkeSettings) and isinstance(
                pool.settings.capacity, spec.Queued
            )
            scaled = not queued
        case spec.EksFleet():
            scaled = fleet.cluster.autoscaler is not None
        case spec.ByoFleet():
            scaled = False
    return pool.nodes.max if scaled else pool.nodes.min


def _room_on_a_node(asked: spec.ServedWorkload, pool: PoolPlan) -> int | None:
    """Replicas that fit into one machine's processor and memory. None: unknown, or no limit."""
    if not isinstance(pool.settings, CloudSettings):
        return None
    machine, least = pool.settings.machine, asked.requests
    by_cpu = [machine.vcpus // least.cpu] if least.cpu is not None else []
    by_memory = (
        [machine.memory_gib * 1024 // spec.mebibytes(least.memory)]
        if least.memory is not None
        else []
    )
    return min([*by_cpu, *by_memory], default=None)


def _check_names(fleet: spec.Fleet, stated: Stated) -> Checked[None]:
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


def _check_namespaces(fleet: spec.Fleet, stated: Stated) -> Checked[None]:
    operator = getattr(fleet, "gpu_operator", None)
    taken = {NAMESPACE: "slicewright's own"} | (
        {operator.namespace: "the GPU operator's"} if operator is not None else {}
    )
    made: dict[str, tuple[int, bool]] = {}
    for i, asked in enumerate(fleet.workloads):
        if isinstance(asked, spec.Workload) or not stated.has(("workloads", i)):
            continue
        if asked.namespace in taken or asked.namespace.startswith("kube-"):
            yield refuse(
                ("workloads", i, "namespace"),
                f"{asked.namespace} is {taken.get(asked.namespace, 'of Kubernetes itself')}",
                "write another, for example models",
                "Kubernetes docs, namespaces",
            )
        first, create = made.setdefault(asked.namespace, (i, asked.create_namespace))
        if create != asked.create_namespace and asked.namespace != "default":
            yield refuse(
                ("workloads", i, "create_namespace"),
                f"workloads[{first}] says {str(create).lower()} of the same namespace, "
                f"{asked.namespace}",
                "write the same in both",
            )


def _check_pod_security(
    asked: spec.ServedWorkload, path: spec.Path, pool: PoolPlan, stated: Stated
) -> Checked[None]:
    """Whether the namespace that the stack makes, for restricted pods, takes the pods of a pool."""
    needs_host_ipc = (
        isinstance(pool.settings, GkeSettings) and pool.settings.sharing_strategy == "MPS"
    )
    makes_namespace = asked.create_namespace and asked.namespace != "default"
    if needs_host_ipc and makes_namespace and stated.has((*path, "namespace")):
        yield refuse(
            (*path, "create_namespace"),
            f"a namespace that the stack makes takes restricted pods only, and pods of {pool.name} "
            "need hostIPC for GKE's MPS",
            f"make namespace {asked.namespace} with the label pod-security.kubernetes.io/enforce: "
            "privileged, decide who may create pods there, and write false",
            "Kubernetes docs, Pod Security Standards",
        )


def _pool_of(
    asked: spec.ServedWorkload,
    path: spec.Path,
    fleet: spec.Fleet,
    pools: Mapping[str, PoolPlan],
    stated: Stated,
) -> Checked[PoolPlan | None]:
    at = (*path, "pool")
    if not stated.has(at) or not stated.has_for_all(fleet.node_pools, "name"):
        return None
    known = {pool.name: pool for pool in fleet.node_pools}
    if asked.pool not in known:
        yield refuse(
            at,
            f"no pool is named {asked.pool}",
            nearest(asked.pool, tuple(known)) if known else "add node_pools",
        )
        return None
    if isinstance(known[asked.pool].sharing, spec.FractionalSharing):
        yield refuse(
            at,
            f"the GPUs of {asked.pool} are shared by fractions, which this kind does not ask for",
            "write the name of another pool, or a workload with gpu_share",
        )
        return None
    return pools.get(asked.pool)


def _devices_of(
    asked: spec.ServedWorkload, path: spec.Path, pool: PoolPlan, stated: Stated
) -> Checked[Devices | None]:
    """The devices that a pod asks for: of the named resource, or of the only one."""
    at = (*path, "resource")
    if not stated.has(at):
        return None
    renamed = {one.resource: one.advertised for one in pool.offer.sharing}
    short = listed(sorted(name.removeprefix("nvidia.com/") for name in pool.offer.devices))
    if asked.resource is None and len(pool.offer.devices) > 1:
        yield refuse(
            at,
            f"is missing, and nodes of {pool.name} offer several",
            f"write one of {short}",
        )
        return None
    base = (
        f"nvidia.com/{asked.resource.removeprefix('nvidia.com/')}"
        if asked.resource is not None
        else next(iter(pool.offer.devices))
    )
    if base not in pool.offer.devices:
        why = ""
        if base != WHOLE_GPU and isinstance(pool.settings, GkeSettings) and not pool.operated:
            why = ": GKE advertises partitions as nvidia.com/gpu"
        elif base == WHOLE_GPU:
            why = ": all of its GPUs are partitioned"
        yield refuse(
            at,
            f"nodes of {pool.name} offer no {base}{why}",
            f"write {' or '.join(short.split(', '))}, or name another pool",
            "NVIDIA/k8s-device-plugin, internal/rm",
        )
        return None
    shared = next((one.replicas for one in pool.offer.sharing if one.resource == base), 1)
    behind = sorted(
        {
            profile
            for layout in pool.offer.layouts
            for profile in layout
            if (resource_of(profile) if resource_of(profile) in pool.offer.devices else WHOLE_GPU)
            == base
        }
    )
    sizes = [pool.gpu.profiles[name].memory_mib for name in behind] or [pool.gpu.memory_mib]
    known = [size for size in sizes if size is not None]
    return Devices(
        resource=renamed.get(base, base),
        profiles=tuple(behind),
        mib=min(known) if len(known) == len(sizes) else None,
        sharers=shared,
    )


def _check_against_node(
    asked: spec.ServedWorkload, path: spec.Path, pool: PoolPlan
) -> Checked[None]:
    """Processor, memory and volume: can one node have one pod at all?"""
    if isinstance(pool.settings, CloudSettings):
        machine = pool.settings.machine
        if asked.requests.cpu is not None and asked.requests.cpu >= machine.vcpus:
            yield refuse(
                (*path, "requests", "cpu"),
                f"{asked.requests.cpu} CPUs are never free on one {machine.name}, which has "
                f"{machine.vcpus} for all of its pods",
                f"write {machine.vcpus - 1} or less",
                machine.source,
            )
        asked_mib = spec.mebibytes(asked.requests.memory) if asked.requests.memory else 0
        if asked_mib >= machine.memory_gib * 1024:
            yield refuse(
                (*path, "requests", "memory"),
                f"{asked.requests.memory} are never free on one {machine.name}, which has "
                f"{machine.memory_gib}Gi for all of its pods",
                f"write less than {machine.memory_gib}Gi",
                machine.source,
            )
    cache = None if isinstance(asked, spec.TritonWorkload) else asked.cache
    if (
        isinstance(cache, spec.NewVolume)
        and cache.access_mode == "ReadWriteOnce"
        and pool.nodes.max > 1
        and (asked.replicas > 1 if asked.autoscaling is None else asked.autoscaling.max != 1)
    ):
        yield refuse(
            (*path, "cache", "access_mode"),
            f"such a volume is on one node at a time, and {pool.name} has up to {pool.nodes.max}: "
            "replicas on the others would never start",
            "write ReadWriteMany, with a storage class that has it",
            "Kubernetes docs, persistent volumes: access modes",
        )


def _check_host(asked: spec.ServedWorkload, path: spec.Path) -> Checked[None]:
    for name in ("cpu", "memory"):
        least, most = getattr(asked.requests, name), getattr(asked.limits, name)
        if least is None or most is None:
            continue
        if name == "memory":
            least, most = spec.mebibytes(least), spec.mebibytes(most)
        if least > most:
            yield refuse(
                (*path, "requests", name),
                f"{getattr(asked.requests, name)} is above the limit, "
                f"{getattr(asked.limits, name)}",
                f"write {getattr(asked.limits, name)} or less, or raise the limit",
                "Kubernetes docs, resource management",
            )
    limit = asked.limits.memory
    if limit is not None and spec.mebibytes(asked.shared_memory) >= spec.mebibytes(limit):
        yield refuse(
            (*path, "shared_memory"),
            f"{asked.shared_memory} counts as the pod's memory, whose limit is {limit}",
            f"write less than {limit}, or raise the limit",
            "Kubernetes docs, volumes: emptyDir",
        )


def _check_ports(asked: spec.ContainerWorkload, path: spec.Path, stated: Stated) -> Checked[None]:
    if not stated.has((*path, "ports")):
        return
    if asked.health is not None and asked.health.port not in asked.ports:
        yield refuse(
            (*path, "health", "port"),
            f"no port is named {asked.health.port}",
            f"write {' or '.join(asked.ports)}" if asked.ports else "add ports: {http: 8000}",
        )
    if "service" in asked.model_fields_set and not asked.ports:
        yield refuse(
            (*path, "service"),
            "there is no port for it",
            "add ports: {http: 8000}, or leave service out",
            in_key=True,
        )
    numbers = Counter(asked.ports.values())
    for name, number in asked.ports.items():
        if numbers[number] > 1:
            yield refuse(
                (*path, "ports", name),
                f"{number} has another name too",
                "name each port once",
            )

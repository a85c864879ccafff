"""Recording rules that alerts, dashboards and autoscaling share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from slicewright.infra.manifests.monitoring.rules import Group, Record, Source
from slicewright.infra.plan import PoolPlan

_SEVEN: Final = 7
GPU_RESOURCES: Final = "nvidia_com_.+"
"""GPUs and partitions, by the names that kube-state-metrics gives resources."""
_WORKLOAD: Final = "namespace, workload"
_LEAST_RATE: Final = 0.1
"""Requests per second. Below this rate a mean is damped, since few requests would make it jump."""
_ALIVE: Final = 'kube_pod_status_phase{phase=~"Pending|Running"}'


def recording(pools: Sequence[PoolPlan], *, window_s: int) -> list[Group]:
    """pools: their GPUs are weighted. window_s: the window of rates, at least 4 scrapes."""
    return [
        Group(name="slicewright-pools", rules=_pools()),
        Group(name="slicewright-devices", rules=_devices()),
        Group(name="slicewright-gpus", rules=[_engines(pools)]),
        Group(name="slicewright-workloads", rules=[*_triton(window_s), *_vllm(window_s)]),
    ]


def _pools() -> list[Record]:
    """Every node is `failing`, `unknown` or `verified`; it may be `changing` besides.

    One of the controller's two replicas reports the pools. If both do so in one scrape, `max`
    counts each node once.
    """
    needs = frozenset({Source.CONTROLLER})

    def nodes(states: str) -> str:
        return f'sum by (pool) (max by (pool, state) (slicewright_pool_nodes{{state=~"{states}"}}))'

    return [
        Record(
            name="pool:slicewright_nodes:sum", expr=nodes("verified|failing|unknown"), needs=needs
        ),
        Record(name="pool:slicewright_nodes_proven:sum", expr=nodes("verified"), needs=needs),
        Record(name="pool:slicewright_nodes_changing:sum", expr=nodes("changing"), needs=needs),
        Record(name="pool:slicewright_nodes_failing:sum", expr=nodes("failing"), needs=needs),
        Record(name="pool:slicewright_nodes_failed:sum", expr=nodes("failed"), needs=needs),
        Record(
            name="pool:slicewright_nodes_proven:ratio",
            expr="pool:slicewright_nodes_proven:sum / (pool:slicewright_nodes:sum > 0)",
            needs=needs,
        ),
    ]


def _devices() -> list[Record]:
    """GPUs and partitions of a node: offered by it, and requested by pods that have not ended."""
    needs = frozenset({Source.OBJECTS})
    requested = f'kube_pod_container_resource_requests{{resource=~"{GPU_RESOURCES}",node!=""}}'
    return [
        Record(
            name="node_resource:slicewright_devices_allocatable:sum",
            expr="sum by (node, resource) "
            f'(kube_node_status_allocatable{{resource=~"{GPU_RESOURCES}"}})',
            needs=needs,
        ),
        Record(
            name="node_resource:slicewright_devices_requested:sum",
            expr=f"sum by (node, resource) ({requested} * on (namespace, pod) group_left () "
            f"(max by (namespace, pod) ({_ALIVE}) == 1))",
            needs=needs,
        ),
        Record(
            name="node_resource:slicewright_devices_requested:ratio",
            # A node without any pod's request has no series above: it is empty, not unknown.
            expr="(node_resource:slicewright_devices_requested:sum or "
            "0 * node_resource:slicewright_devices_allocatable:sum) / "
            "(node_resource:slicewright_devices_allocatable:sum > 0)",
            needs=needs,
        ),
    ]


def _engines(pools: Sequence[PoolPlan]) -> Record:
    """How busy a GPU is: the sum of its partitions, each weighed with its compute slices.

    An average of the partitions would be wrong if they differ in size, or if some of the GPU is
    not partitioned. DCGM_FI_DEV_GPU_UTIL does not exist under MIG. Source:
    NVIDIA/dcgm-exporter #105, #216; NVIDIA MIG user guide, compute slices.
    """
    return Record(
        name="gpu:slicewright_engine_active:ratio",
        expr=f"sum by (node, UUID) ({' or '.join(_weighed(pools))})",
        needs=frozenset({Source.DCGM}),
    )


def _weighed(pools: Sequence[PoolPlan]) -> Iterator[str]:
    # Sharing pods of one device may have a series each: `max` counts it once.
    by = "max by (node, UUID, GPU_I_ID, GPU_I_PROFILE) (DCGM_FI_PROF_GR_ENGINE_ACTIVE{%s})"
    yield by % 'GPU_I_PROFILE=""'
    for models, slices, sizes in _families(pools):
        for size in sizes:
            matched = ",".join([f'GPU_I_PROFILE=~"(?:[0-9]c[.])?{size}g[.].+"', *models])
            yield f"{by % matched} * {size} / {slices}"


def _families(pools: Sequence[PoolPlan]) -> Iterator[tuple[list[str], int, Sequence[int]]]:
    """Matchers of the models, compute slices of a GPU, and compute slices of its instances."""
    models_of: dict[int, set[str]] = {}
    sizes: dict[int, set[int]] = {_SEVEN: {1, 2, 3, 4, 7}}
    for pool in pools:
        if (family := pool.gpu.family) is not None and family.compute != _SEVEN:
            models_of.setdefault(family.compute, set()).update(pool.gpu.products)
            sizes.setdefault(family.compute, set()).update(
                profile.kind.compute for profile in pool.gpu.profiles.values()
            )
    names: Mapping[int, str] = {n: "|".join(sorted(models)) for n, models in models_of.items()}
    apart = [f'modelName!~"{"|".join(names[n] for n in sorted(names))}"'] if names else []
    yield apart, _SEVEN, sorted(sizes[_SEVEN])
    for slices in sorted(names):
        yield [f'modelName=~"{names[slices]}"'], slices, sorted(sizes[slices])


def _triton(window_s: int) -> list[Record]:
    """The records for each model: a mean over several models would hide the slow one.

    `rate`, as a restart makes counters smaller. The means are weighed by requests. Nothing is
    added to the number of requests. With no traffic 0, with no replica nothing. Source:
    triton-inference-server/server, docs/user_guide/metrics.md: cumulative microseconds.
    """
    needs = frozenset({Source.TRITON})

    def rate(metric: str) -> str:
        return f"sum by ({_WORKLOAD}, model) (rate({metric}[{window_s}s]))"

    done = f"clamp_min({rate('nv_inference_request_success')}, {_LEAST_RATE})"
    return [
        Record(
            name="workload_model:triton_requests:rate",
            expr=rate("nv_inference_request_success"),
            needs=needs,
        ),
        Record(
            name="workload_model:triton_queue_seconds:mean",
            expr=f"{rate('nv_inference_queue_duration_us')} / {done} / 1e6",
            needs=needs,
        ),
        Record(
            name="workload_model:triton_request_seconds:mean",
            expr=f"{rate('nv_inference_request_duration_us')} / {done} / 1e6",
            needs=needs,
        ),
    ]


def _vllm(window_s: int) -> list[Record]:
    """Source: vLLM docs, production metrics."""
    needs = frozenset({Source.VLLM})

    def percentile_95(histogram: str) -> str:
        rates = f"sum by ({_WORKLOAD}, le) (rate({histogram}_bucket[{window_s}s]))"
        return f"histogram_quantile(0.95, {rates})"

    return [
        Record(
            name="workload:vllm_requests_waiting:sum",
            expr=f"sum by ({_WORKLOAD}) (vllm:num_requests_waiting)",
            needs=needs,
        ),
        Record(
            name="workload:vllm_requests_running:sum",
            expr=f"sum by ({_WORKLOAD}) (vllm:num_requests_running)",
            needs=needs,
        ),
        Record(
            name="workload:vllm_generated_tokens:rate",
            expr=f"sum by ({_WORKLOAD}) (rate(vllm:generation_tokens_total[{window_s}s]))",
            needs=needs,
        ),
        Record(
            name="workload:vllm_first_token_seconds:p95",
            expr=percentile_95("vllm:time_to_first_token_seconds"),
            needs=needs,
        ),
        Record(
            name="workload:vllm_kv_cache_used:max",
            # Older releases use the second name.
            expr=f"max by ({_WORKLOAD}) (vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc)",
            needs=needs,
        ),
    ]

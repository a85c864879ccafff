"""The dashboards: the fleet, a node with its slices, a workload, and a rollout."""

from __future__ import annotations

from typing import Final

from slicewright.apis.names import STARTUP_TAINT_KEY
from slicewright.infra.manifests.monitoring.grafana import Dashboard, Panel, Query, Variable

_POOL: Final = 'pool=~"$pool"'
_NODE: Final = 'node="$node"'
_SERVED: Final = 'namespace="$namespace",workload="$workload"'
_IN_POOL: Final = 'label_slicewright_io_pool=~"$pool"'
_POOLS: Final = Variable(name="pool", metric="slicewright_pool_nodes")


def _nodes(state: str, legend: str) -> Query:
    return Query(expr=f"sum(pool:slicewright_nodes{state}:sum{{{_POOL}}})", legend=legend)


_BY_STATE: Final = (
    _nodes("", "all"),
    _nodes("_proven", "verified"),
    _nodes("_changing", "changing"),
    _nodes("_failing", "failing"),
    _nodes("_failed", "failed in a rollout"),
)
_FLEET: Final = Dashboard(
    uid="slicewright-fleet",
    title="slicewright / Fleet",
    variables=(_POOLS,),
    panels=(
        Panel(
            title="Verified nodes, by pool",
            queries=(
                Query(expr=f"pool:slicewright_nodes_proven:ratio{{{_POOL}}}", legend="{{pool}}"),
            ),
            unit="percentunit",
            kind="bargauge",
            maximum=1,
        ),
        Panel(title="Nodes", queries=_BY_STATE),
        Panel(
            title="Devices in use",
            description="The share of the GPUs and partitions that nodes offer, by resource.",
            queries=(
                Query(
                    expr="sum by (resource) (node_resource:slicewright_devices_requested:sum) / "
                    "sum by (resource) (node_resource:slicewright_devices_allocatable:sum)",
                    legend="{{resource}}",
                ),
            ),
            unit="percentunit",
            maximum=1,
        ),
        Panel(
            title="GPU utilization",
            description="A GPU counts as the sum of its partitions, weighted by compute slices.",
            queries=(
                Query(expr="avg(gpu:slicewright_engine_active:ratio)", legend="mean"),
                Query(expr="max(gpu:slicewright_engine_active:ratio)", legend="busiest"),
            ),
            unit="percentunit",
            maximum=1,
        ),
        Panel(
            title="Power",
            queries=(
                Query(
                    expr=f"sum by (pool) (slicewright_gpu_power_watts{{{_POOL}}})",
                    legend="{{pool}}",
                ),
            ),
            unit="watt",
        ),
        Panel(
            title="Mismatched nodes",
            queries=(
                Query(expr=f"max by (pool, node, reason) (slicewright_mismatch{{{_POOL}}}) == 1"),
            ),
            kind="table",
        ),
        Panel(
            title="Alerts",
            queries=(
                Query(
                    expr='ALERTS{alertname=~"Slicewright.+",alertstate="firing"}',
                ),
            ),
            kind="table",
        ),
        Panel(
            title="Active fleet controllers",
            queries=(Query(expr="sum(slicewright_controller_leads)"),),
            kind="stat",
        ),
    ),
)
_ONE_NODE: Final = Dashboard(
    uid="slicewright-node",
    title="slicewright / Node",
    variables=(
        _POOLS,
        Variable(name="node", metric='slicewright_verdict{pool=~"$pool"}', multiple=False),
    ),
    panels=(
        Panel(
            title="Partitions",
            description="In the declared layout (desired), and in the driver (observed).",
            queries=tuple(
                Query(
                    expr=f"sum by (profile) (slicewright_partitions_{which}{{{_NODE}}})",
                    legend=f"{{{{profile}}}} {which}",
                )
                for which in ("desired", "observed")
            ),
            kind="bargauge",
        ),
        Panel(
            title="Mismatches",
            queries=(Query(expr=f"slicewright_mismatch{{{_NODE}}} == 1"),),
            kind="table",
        ),
        Panel(
            title="Memory in use, by partition",
            queries=(
                Query(
                    expr=f"slicewright_partition_memory_used_bytes{{{_NODE}}} / "
                    f"slicewright_partition_memory_bytes{{{_NODE}}}",
                    legend="GPU {{gpu}} {{profile}} {{gpu_instance}}",
                ),
            ),
            unit="percentunit",
            maximum=1,
        ),
        Panel(
            title="Partition utilization",
            description="From DCGM; and from the agent, a sample of 0.1 s every minute, if "
            "node_agent.utilization is on.",
            queries=(
                Query(
                    expr=f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{_NODE},GPU_I_PROFILE!=""}}',
                    legend="GPU {{gpu}} {{GPU_I_PROFILE}} {{GPU_I_ID}}",
                ),
                Query(
                    expr=f'slicewright_partition_utilization_ratio{{{_NODE},engine="graphics"}}',
                    legend="sample: GPU {{gpu}} {{profile}} {{gpu_instance}}",
                ),
            ),
            unit="percentunit",
            maximum=1,
        ),
        Panel(
            title="GPU utilization",
            queries=(
                Query(expr=f"gpu:slicewright_engine_active:ratio{{{_NODE}}}", legend="{{UUID}}"),
            ),
            unit="percentunit",
            maximum=1,
        ),
        Panel(
            title="Devices in use",
            queries=(
                Query(
                    expr=f"node_resource:slicewright_devices_requested:ratio{{{_NODE}}}",
                    legend="{{resource}}",
                ),
            ),
            unit="percentunit",
            maximum=1,
        ),
        Panel(
            title="Pods by partition",
            description="Needs node_agent.attribution.",
            queries=(Query(expr=f"slicewright_partition_pod_info{{{_NODE}}}"),),
            kind="table",
            width=24,
        ),
        Panel(
            title="Temperature",
            queries=(
                Query(expr=f"slicewright_gpu_temperature_celsius{{{_NODE}}}", legend="GPU {{gpu}}"),
            ),
            unit="celsius",
        ),
        Panel(
            title="Power",
            queries=(
                Query(expr=f"slicewright_gpu_power_watts{{{_NODE}}}", legend="GPU {{gpu}}"),
                Query(
                    expr=f"slicewright_gpu_power_limit_watts{{{_NODE}}}",
                    legend="GPU {{gpu}} limit",
                ),
            ),
            unit="watt",
        ),
        Panel(
            title="ECC errors and remapped memory rows",
            queries=(
                Query(
                    expr=f"sum by (gpu, kind) (slicewright_gpu_ecc_errors_total{{{_NODE}}})",
                    legend="GPU {{gpu}} {{kind}}",
                ),
                Query(
                    expr=f"sum by (gpu, cause) (slicewright_gpu_remapped_rows{{{_NODE}}})",
                    legend="GPU {{gpu}} rows, {{cause}}",
                ),
            ),
        ),
        Panel(
            title="Xids",
            queries=(
                Query(
                    expr=f"sum by (gpu, xid) (slicewright_gpu_xid_errors_total{{{_NODE}}})",
                    legend="GPU {{gpu}} Xid {{xid}}",
                ),
            ),
        ),
    ),
)
_WORKLOAD: Final = Dashboard(
    uid="slicewright-workload",
    title="slicewright / Workload",
    variables=(
        Variable(name="namespace", metric='up{workload!=""}', multiple=False),
        Variable(name="workload", metric='up{namespace="$namespace"}', multiple=False),
    ),
    panels=(
        Panel(
            title="Replicas",
            queries=tuple(
                Query(
                    expr=f"kube_deployment_{metric}"
                    '{namespace="$namespace",deployment="$workload"}',
                    legend=legend,
                )
                for metric, legend in (
                    ("spec_replicas", "desired"),
                    ("status_replicas_available", "ready"),
                )
            ),
        ),
        Panel(
            title="Replicas scraped",
            queries=(Query(expr=f"sum(up{{{_SERVED}}})", legend="reached"),),
        ),
        Panel(
            title="Requests (Triton)",
            queries=(
                Query(expr=f"workload_model:triton_requests:rate{{{_SERVED}}}", legend="{{model}}"),
            ),
            unit="reqps",
        ),
        Panel(
            title="Request time (Triton)",
            description="Means over requests. The time in the queue grows if replicas are too few.",
            queries=(
                Query(
                    expr=f"workload_model:triton_queue_seconds:mean{{{_SERVED}}}",
                    legend="{{model}} queue",
                ),
                Query(
                    expr=f"workload_model:triton_request_seconds:mean{{{_SERVED}}}",
                    legend="{{model}} total",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Requests (vLLM)",
            queries=(
                Query(expr=f"workload:vllm_requests_running:sum{{{_SERVED}}}", legend="running"),
                Query(expr=f"workload:vllm_requests_waiting:sum{{{_SERVED}}}", legend="waiting"),
            ),
        ),
        Panel(
            title="Tokens per second (vLLM)",
            queries=(
                Query(expr=f"workload:vllm_generated_tokens:rate{{{_SERVED}}}", legend="generated"),
            ),
        ),
        Panel(
            title="Time to first token (vLLM)",
            queries=(
                Query(
                    expr=f"workload:vllm_first_token_seconds:p95{{{_SERVED}}}",
                    legend="95th percentile",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="KV cache usage, fullest replica (vLLM)",
            queries=(Query(expr=f"workload:vllm_kv_cache_used:max{{{_SERVED}}}", legend="in use"),),
            unit="percentunit",
            maximum=1,
        ),
    ),
)
_ROLLOUT: Final = Dashboard(
    uid="slicewright-rollout",
    title="slicewright / Rollout",
    variables=(_POOLS,),
    panels=(
        Panel(title="Nodes", queries=_BY_STATE),
        Panel(
            title="Layouts",
            description="Nodes by the layout that mig-manager must apply.",
            queries=(
                Query(
                    expr=f"count by (label_nvidia_com_mig_config) (kube_node_labels{{{_IN_POOL}}})",
                    legend="{{label_nvidia_com_mig_config}}",
                ),
            ),
        ),
        Panel(
            title="mig-manager states",
            queries=(
                Query(
                    expr="count by (label_nvidia_com_mig_config_state) "
                    f"(kube_node_labels{{{_IN_POOL}}})",
                    legend="{{label_nvidia_com_mig_config_state}}",
                ),
            ),
        ),
        Panel(
            title="Nodes closed to pods",
            queries=(
                Query(expr="sum(kube_node_spec_unschedulable)", legend="cordoned"),
                Query(
                    expr=f'sum(kube_node_spec_taint{{key="{STARTUP_TAINT_KEY}"}})',
                    legend="unverified (startup taint)",
                ),
            ),
        ),
        Panel(
            title="Pool conditions",
            queries=(
                Query(
                    expr=f"max by (pool, condition) (slicewright_pool_condition{{{_POOL}}})",
                    legend="{{pool}} {{condition}}",
                ),
            ),
            maximum=1,
        ),
        Panel(
            title="Controller actions",
            description="Actions in the last 10 minutes.",
            queries=(
                Query(
                    expr="sum by (action, result) "
                    "(increase(slicewright_controller_actions_total[10m]))",
                    legend="{{action}} {{result}}",
                ),
            ),
        ),
    ),
)
DASHBOARDS: Final = (_FLEET, _ONE_NODE, _WORKLOAD, _ROLLOUT)

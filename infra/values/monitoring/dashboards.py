"""The dashboards: the fleet, a node with its slices, a workload, and a rollout."""

from __future__ import annotations

from typing import Final

from apis.names import STARTUP_TAINT_KEY
from infra.values.monitoring.grafana import Dashboard, Panel, Query, Variable

_POOL: Final = 'pool=~"$pool"'
_NODE: Final = 'node="$node"'
_SERVED: Final = 'namespace="$namespace",workload="$workload"'
_IN_POOL: Final = 'label_slicewright_io_pool=~"$pool"'
_POOLS: Final = Variable(name="pool", metric="slicewright_pool_nodes")


def _nodes(state: str, legend: str) -> Query:
    return Query(expr=f"sum(pool:slicewright_nodes{state}:sum{{{_POOL}}})", legend=legend)


_BY_STATE: Final = (
    _nodes("", "all"),
    _nodes("_proven", "proven"),
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
            title="Nodes that have proven their partitions",
            queries=(
                Query(expr=f"pool:slicewright_nodes_proven:ratio{{{_POOL}}}", legend="{{pool}}"),
            ),
            unit="percentunit",
            kind="bargauge",
            most=1,
        ),
        Panel(title="Nodes", queries=_BY_STATE),
        Panel(
            title="Devices in use",
            what="Of all GPUs and partitions that nodes offer, by resource.",
            queries=(
                Query(
                    expr="sum by (resource) (node_resource:slicewright_devices_requested:sum) / "
                    "sum by (resource) (node_resource:slicewright_devices_allocatable:sum)",
                    legend="{{resource}}",
                ),
            ),
            unit="percentunit",
            most=1,
        ),
        Panel(
            title="How busy GPUs are",
            what="A GPU is the sum of its partitions, each weighed with its compute slices.",
            queries=(
                Query(expr="avg(gpu:slicewright_engine_active:ratio)", legend="mean"),
                Query(expr="max(gpu:slicewright_engine_active:ratio)", legend="busiest"),
            ),
            unit="percentunit",
            most=1,
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
            title="Nodes that are not as declared",
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
            title="Replicas of the fleet controller that act",
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
        Variable(name="node", metric='slicewright_verdict{pool=~"$pool"}', several=False),
    ),
    panels=(
        Panel(
            title="Partitions",
            what="As the layout wants them, and as the driver has them.",
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
            title="What is wrong",
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
            most=1,
        ),
        Panel(
            title="How busy partitions are",
            what="Of DCGM. The agent's own is a sample of a tenth of a second each minute, where "
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
            most=1,
        ),
        Panel(
            title="How busy GPUs are",
            queries=(
                Query(expr=f"gpu:slicewright_engine_active:ratio{{{_NODE}}}", legend="{{UUID}}"),
            ),
            unit="percentunit",
            most=1,
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
            most=1,
        ),
        Panel(
            title="Which pod has which partition",
            what="Where node_agent.attribution is on.",
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
                    legend="limit of GPU {{gpu}}",
                ),
            ),
            unit="watt",
        ),
        Panel(
            title="Memory errors and rows that were replaced",
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
        Variable(name="namespace", metric='up{workload!=""}', several=False),
        Variable(name="workload", metric='up{namespace="$namespace"}', several=False),
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
                    ("spec_replicas", "wanted"),
                    ("status_replicas_available", "ready"),
                )
            ),
        ),
        Panel(
            title="Replicas that are scraped",
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
            title="Time of a request (Triton)",
            what="Means over requests. The queue is what grows when there are too few replicas.",
            queries=(
                Query(
                    expr=f"workload_model:triton_queue_seconds:mean{{{_SERVED}}}",
                    legend="{{model}} in the queue",
                ),
                Query(
                    expr=f"workload_model:triton_request_seconds:mean{{{_SERVED}}}",
                    legend="{{model}} in all",
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
            title="Time to the first token (vLLM)",
            queries=(
                Query(
                    expr=f"workload:vllm_first_token_seconds:p95{{{_SERVED}}}",
                    legend="95 % take no longer",
                ),
            ),
            unit="s",
        ),
        Panel(
            title="Cache of contexts, fullest replica (vLLM)",
            queries=(Query(expr=f"workload:vllm_kv_cache_used:max{{{_SERVED}}}", legend="in use"),),
            unit="percentunit",
            most=1,
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
            what="Nodes by the layout that mig-manager is to apply.",
            queries=(
                Query(
                    expr=f"count by (label_nvidia_com_mig_config) (kube_node_labels{{{_IN_POOL}}})",
                    legend="{{label_nvidia_com_mig_config}}",
                ),
            ),
        ),
        Panel(
            title="States of mig-manager",
            queries=(
                Query(
                    expr="count by (label_nvidia_com_mig_config_state) "
                    f"(kube_node_labels{{{_IN_POOL}}})",
                    legend="{{label_nvidia_com_mig_config_state}}",
                ),
            ),
        ),
        Panel(
            title="Nodes that take no pods",
            queries=(
                Query(expr="sum(kube_node_spec_unschedulable)", legend="cordoned"),
                Query(
                    expr=f'sum(kube_node_spec_taint{{key="{STARTUP_TAINT_KEY}"}})',
                    legend="not proven: startup taint",
                ),
            ),
        ),
        Panel(
            title="Conditions of pools",
            queries=(
                Query(
                    expr=f"max by (pool, condition) (slicewright_pool_condition{{{_POOL}}})",
                    legend="{{pool}} {{condition}}",
                ),
            ),
            most=1,
        ),
        Panel(
            title="What the controller does",
            what="In ten minutes.",
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

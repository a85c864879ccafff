"""The alerts: for nodes that are not in the desired state, and for problems that hide such nodes.

A node that is not ready, or whose driver or layout is being changed, is not reported for the
consequences. Separate alerts report a change that does not end.

Every expression keeps the labels of its subject only: those of the scraped pod change with the pod,
and a pending alert would begin to wait again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from infra.plan import DeploymentPlan
from infra.values.monitoring.recording import GPU_RESOURCES
from infra.values.monitoring.rules import Alert, Group, Source

_AGENT_INTERVAL_S: Final = 10
"""Between two looks of an agent: `slicewright-agent watch --interval`."""
_MANY: Final = 0.05
"""The share of all nodes."""
_STATE: Final = "label_nvidia_com_mig_config_state"
_PLUGIN: Final = "label_nvidia_com_gpu_deploy_device_plugin"
_DRIVER: Final = "label_nvidia_com_gpu_driver_upgrade_state"
_NOT_READY: Final = 'kube_node_status_condition{condition="Ready",status="true"} == 0'
_CHANGING: Final = f'kube_node_labels{{{_STATE}=~"pending|rebooting"}}'
_NEW_DRIVER: Final = f'kube_node_labels{{{_DRIVER}!~"|upgrade-done|upgrade-failed"}}'
"""Source: NVIDIA/gpu-operator docs, driver upgrades: states of the label."""


def alerts(
    deployments: Sequence[DeploymentPlan], *, jobs: Sequence[str], interval_s: int
) -> list[Group]:
    """jobs: values of the label `job` of the scrapes. interval_s: time between two scrapes."""
    return [
        Group(
            name="slicewright-alerts",
            rules=[*_nodes(interval_s), *_changes(), *_fleet(), *_gpus(), *_seen(jobs)],
        ),
        Group(name="slicewright-workload-alerts", rules=_workloads(deployments)),
    ]


def _settled(expr: str) -> str:
    """Limits an expression to nodes that are ready and not being changed."""
    return f"{expr} unless on (node) ({_NOT_READY} or {_CHANGING} or {_NEW_DRIVER})"


def _nodes(interval_s: int) -> list[Alert]:
    # An age is known as late as the last scrape.
    old_s = 3 * _AGENT_INTERVAL_S + 3 * interval_s
    success = "slicewright_last_success_timestamp_seconds"
    capacity, allocatable = (
        f'max by (node, resource) (kube_node_status_{what}{{resource=~"{GPU_RESOURCES}"}})'
        for what in ("capacity", "allocatable")
    )
    return [
        Alert(
            name="SlicewrightNodeMismatch",
            expr=_settled("max by (node, pool, reason) (slicewright_mismatch) > 0"),
            minutes=10,
            severity="warning",
            summary="Node {{ $labels.node }} of pool {{ $labels.pool }} is not partitioned as "
            "declared: {{ $labels.reason }}",
            description="The agent reads it from the driver. New pods do not come to the node, or "
            "get something else than they ask for.",
            needs=frozenset({Source.AGENT}),
        ),
        Alert(
            name="SlicewrightAgentAbsent",
            expr=_settled(
                "max by (node, label_slicewright_io_pool) "
                f'(kube_node_labels{{label_slicewright_io_pool!=""}}) unless on (node) {success}'
            ),
            minutes=10,
            severity="warning",
            summary="No agent reports on node {{ $labels.node }} of pool "
            "{{ $labels.label_slicewright_io_pool }}",
            description="Its pod does not run or is not reached, or the driver has never answered "
            "it. Whether the partitions are as declared is not known.",
            needs=frozenset({Source.AGENT, Source.OBJECTS}),
        ),
        Alert(
            name="SlicewrightAgentStale",
            expr=_settled(f"time() - max by (node, pool) ({success}) > {old_s}"),
            minutes=5,
            severity="warning",
            summary="The driver of node {{ $labels.node }} of pool {{ $labels.pool }} does not "
            "answer its agent",
            description="What is known of the node is old: it may have lost a GPU, or the driver "
            "hangs.",
            needs=frozenset({Source.AGENT}),
        ),
        Alert(
            name="SlicewrightDevicesNotAllocatable",
            expr=_settled(f"{capacity} - {allocatable} > 0"),
            minutes=15,
            severity="warning",
            summary="Node {{ $labels.node }} has {{ $labels.resource }} that no pod can get",
            description="Capacity and allocatable differ: the device plugin takes devices for "
            "unhealthy, or has ended.",
            needs=frozenset({Source.OBJECTS}),
        ),
    ]


def _changes() -> list[Alert]:
    """Longer than mig-manager takes, a reboot of a machine with eight GPUs included."""
    needs = frozenset({Source.OBJECTS})
    return [
        Alert(
            name="SlicewrightPartitioningStuck",
            expr=f'max by (node) (kube_node_labels{{{_STATE}="pending"}}) == 1',
            minutes=15,
            severity="warning",
            summary="mig-manager has not finished with node {{ $labels.node }}",
            description="The node is out of service, and the rollout of its pool waits for it.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightRebootStuck",
            expr=f'max by (node) (kube_node_labels{{{_STATE}="rebooting"}}) == 1',
            minutes=20,
            severity="warning",
            summary="Node {{ $labels.node }} has not come back from its reboot",
            description="mig-manager has rebooted it to change its MIG mode.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightOperandPaused",
            expr=f'max by (node) (kube_node_labels{{{_PLUGIN}="paused-for-mig-change"}}) == 1',
            minutes=15,
            severity="warning",
            summary="The device plugin of node {{ $labels.node }} has been left paused",
            description="The node offers no GPUs until its operands run again.",
            needs=needs,
        ),
    ]


def _fleet() -> list[Alert]:
    needs = frozenset({Source.CONTROLLER})
    return [
        Alert(
            name="SlicewrightFleetFailing",
            expr="sum(pool:slicewright_nodes_failing:sum) / (sum(pool:slicewright_nodes:sum) > 0) "
            f"> {_MANY}",
            minutes=10,
            severity="critical",
            summary=f"More than {_MANY:.0%} of the GPU nodes are not as declared",
            description="So many at a time have one cause: a driver, an image, an operator, or a "
            "layout that the GPUs refuse.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightRolloutStopped",
            expr="pool:slicewright_nodes_failed:sum > 0",
            minutes=0,
            severity="warning",
            summary="The rollout of pool {{ $labels.pool }} has stopped: nodes have failed",
            description="They are out of service, and no other node gets the layout until they are "
            "mended or the layout is taken back.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightPoolDegraded",
            expr='max by (pool) (slicewright_pool_condition{condition="Degraded"}) == 1',
            minutes=15,
            severity="warning",
            summary="Pool {{ $labels.pool }} has nodes that do not mend themselves",
            description="`kubectl describe gpupool` names them, with the reason.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightControllerNotActing",
            expr="(max(slicewright_controller_leads) or vector(0)) < 1",
            minutes=5,
            severity="critical",
            summary="No fleet controller acts",
            description="New nodes keep their startup taint and take no pods; nodes that reboot "
            "are not held back until they are proven again.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightControllerFailing",
            expr="sum by (action) "
            '(increase(slicewright_controller_actions_total{result=~"failed|refused"}[15m])) > 0',
            minutes=30,
            severity="warning",
            summary="The fleet controller fails again and again: {{ $labels.action }}",
            description="The API server refuses what it does, or does not answer; its log says "
            "why.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightObjectUnreadable",
            expr="max by (kind) (slicewright_controller_unreadable_objects) > 0",
            minutes=5,
            severity="warning",
            summary="The fleet controller cannot read objects of kind {{ $labels.kind }}",
            description="The nodes of such a pool are neither released nor changed. Its log and "
            "/readyz name the objects, with the reason.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightControllerFault",
            expr="sum by (part) (increase(slicewright_controller_faults_total[15m])) > 0",
            minutes=0,
            severity="warning",
            summary="The fleet controller met an error that it does not know: {{ $labels.part }}",
            description="It left alone the pool or the action that it was busy with. Its log "
            "names it, with the error; please report it.",
            needs=needs,
        ),
    ]


def _gpus() -> list[Alert]:
    needs = frozenset({Source.AGENT})
    by = "max by (node, pool, gpu, uuid"
    return [
        Alert(
            name="SlicewrightGpuWornOut",
            expr=f"{by}) (slicewright_gpu_row_remap_failed) == 1",
            minutes=5,
            severity="critical",
            summary="GPU {{ $labels.gpu }} ({{ $labels.uuid }}) of node {{ $labels.node }} has no "
            "spare memory rows left",
            description="The next memory error ends the pods on it. It has to be replaced.",
            needs=needs,
        ),
        Alert(
            name="SlicewrightGpuNeedsRecovery",
            expr=f"{by}, action) (slicewright_gpu_recovery_action) == 1",
            minutes=5,
            severity="warning",
            summary="The driver asks for a recovery of GPU {{ $labels.gpu }} "
            "({{ $labels.uuid }}) of node {{ $labels.node }}: {{ $labels.action }}",
            description="It has had an error that does not go away by itself.",
            needs=needs,
        ),
    ]


def _seen(jobs: Sequence[str]) -> list[Alert]:
    return [
        Alert(
            name="SlicewrightTargetDown",
            expr=f'up{{job=~"{"|".join(jobs)}"}} == 0',
            minutes=10,
            severity="warning",
            summary="Prometheus does not reach {{ $labels.pod }} in {{ $labels.namespace }}",
            description="What it measures is unknown, and alerts about it cannot fire; a workload "
            "is not scaled by what it says.",
            needs=frozenset(),
        )
    ]


def _workloads(deployments: Sequence[DeploymentPlan]) -> list[Alert]:
    if not deployments:
        return []
    namespaces, names = (
        "|".join(sorted(set(found)))
        for found in (
            (one.namespace for one in deployments),
            (one.name for one in deployments),
        )
    )
    ours = f'{{namespace=~"{namespaces}",deployment=~"{names}"}}'
    return [
        Alert(
            name="SlicewrightReplicasUnavailable",
            expr=f"max by (namespace, deployment) (kube_deployment_spec_replicas{ours}) - "
            "max by (namespace, deployment) "
            f"(kube_deployment_status_replicas_available{ours}) > 0",
            minutes=30,
            severity="warning",
            summary="Workload {{ $labels.deployment }} in {{ $labels.namespace }} has fewer "
            "replicas than wanted",
            description="They have no free partition, or do not become ready.",
            needs=frozenset({Source.OBJECTS}),
        )
    ]

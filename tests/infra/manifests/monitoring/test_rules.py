"""Every rule with promtool: what makes it fire or gives it a value, and what does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra.manifests.monitoring.objects import rule_groups
from slicewright.infra.manifests.monitoring.rules import Alert, Record, as_groups, runbook
from tests.infra.manifests.monitoring.promtool import Case, check, run
from tests.infra.manifests.monitoring.test_objects import TRITON, VLLM
from tests.infra.manifests.monitoring.test_settings import CLOUDS, STACK, planned

DOCS = Path(__file__).parents[4] / "docs"
OF_SHARES = {"SlicewrightPodWithoutShare", "SlicewrightCardOvercommitted"}
"""Only with an engine for fractions: test_share_rules.py."""
BASE = "https://git.example.com/slicewright/docs/"
A30 = {
    "name": "b",
    "gpu": {"model": "A30", "count": 1},
    "nodes": {"count": 1},
    "partition": {"mode": "operator", "layout": {"1g.6gb": 4}},
}
FLEET = planned(
    STACK,
    node_pools=[*CLOUDS["byo"]["node_pools"], A30],
    workloads=[TRITON, VLLM],
)
GROUPS = rule_groups(FLEET)
RULES = {rule.name: rule for group in GROUPS for rule in group.rules}
N = '{node="n"}'
READY = 'kube_node_status_condition{node="n",condition="Ready",status="true"}'
AT = {"node": "n", "pool": "a"}
STATE = 'kube_node_labels{node="n",pod="ksm",label_nvidia_com_mig_config_state="%s"}'
DRIVER = 'kube_node_labels{node="n",label_nvidia_com_gpu_driver_upgrade_state="%s"}'
MISMATCH = 'slicewright_mismatch{node="n",pool="a",reason="MissingPartition",pod="x"}'
SUCCESS = 'slicewright_last_success_timestamp_seconds{node="n",pool="a",pod="x"}'
IN_POOL = 'kube_node_labels{node="n",label_slicewright_io_pool="a",pod="ksm"}'
MIG = 'resource="nvidia_com_mig_1g_5gb"'
CAPACITY = f'kube_node_status_capacity{{node="n",{MIG},unit="integer"}}'
ALLOCATABLE = f'kube_node_status_allocatable{{node="n",{MIG},unit="integer"}}'
NODES = 'slicewright_pool_nodes{pool="%s",state="%s",pod="%s"}'
ENGINE = (
    'DCGM_FI_PROF_GR_ENGINE_ACTIVE{node="n",UUID="%s",modelName="%s",GPU_I_ID="%s",'
    'GPU_I_PROFILE="%s",exported_pod="%s"}'
)
PLUGIN = 'kube_node_labels{node="n",label_nvidia_com_gpu_deploy_device_plugin="%s"}'
A100_NAME = "NVIDIA A100-SXM4-40GB"
GPU = 'node="n",pool="a",gpu="0",uuid="GPU-1"'
OF_GPU = {"node": "n", "pool": "a", "gpu": "0", "uuid": "GPU-1"}
JOB = 'job="monitoring/node-agent",namespace="slicewright-system",pod="p"'
DONE = 'slicewright_controller_actions_total{action="untaint",result="%s",pod="one"}'
OTHERS = 'kube_deployment_%s{namespace="default",deployment="other"}'
REPLICAS = 'kube_deployment_%s{namespace="default",deployment="tritonserver",instance="ksm"}'
SERVED = 'namespace="default",workload="tritonserver",model="m",pod="%s"'
SPOKEN = 'namespace="models",workload="llm",pod="%s"'


def asked(pod: str, node: str = ',node="n"') -> str:
    return (
        f'kube_pod_container_resource_requests{{namespace="default",pod="{pod}",container="c",'
        f'{MIG},unit="integer"{node}}}'
    )


def phase(pod: str, name: str) -> str:
    return f'kube_pod_status_phase{{namespace="default",pod="{pod}",phase="{name}"}}'


def pool(state: str, count: int, *, name: str = "a", pod: str = "one") -> dict[str, str]:
    return {NODES % (name, state, pod): str(count)}


def nodes_of(*, verified: int, failing: int = 0, unknown: int = 0) -> dict[str, str]:
    return pool("verified", verified) | pool("failing", failing) | pool("unknown", unknown)


ALERTS = [
    Case(
        rule="SlicewrightNodeMismatch",
        why="a mismatch that stays",
        series={MISMATCH: "1", READY: "1"},
        labels=[AT | {"reason": "MissingPartition"}],
    ),
    Case(rule="SlicewrightNodeMismatch", why="none", series={MISMATCH: "0", READY: "1"}),
    Case(
        rule="SlicewrightNodeMismatch",
        why="the node is not ready",
        series={MISMATCH: "1", READY: "0"},
    ),
    Case(
        rule="SlicewrightNodeMismatch",
        why="its layout is being changed",
        series={MISMATCH: "1", STATE % "pending": "1"},
    ),
    Case(
        rule="SlicewrightNodeMismatch",
        why="its driver is being replaced",
        series={MISMATCH: "1", DRIVER % "pod-restart-required": "1"},
    ),
    Case(
        rule="SlicewrightNodeMismatch",
        why="its driver has been replaced",
        series={MISMATCH: "1", DRIVER % "upgrade-done": "1"},
        labels=[AT | {"reason": "MissingPartition"}],
    ),
    Case(
        rule="SlicewrightAgentAbsent",
        why="a node of a pool without an agent",
        series={IN_POOL: "1"},
        labels=[{"node": "n", "label_slicewright_io_pool": "a"}],
    ),
    Case(
        rule="SlicewrightAgentAbsent",
        why="its agent answers",
        series={IN_POOL: "1", SUCCESS: "0+10"},
    ),
    Case(
        rule="SlicewrightAgentAbsent",
        why="a node of no pool",
        series={'kube_node_labels{node="n"}': "1"},
    ),
    Case(
        rule="SlicewrightAgentAbsent",
        why="the node is not ready",
        series={IN_POOL: "1", READY: "0"},
    ),
    Case(
        rule="SlicewrightAgentStale",
        why="the driver has never answered again",
        series={SUCCESS: "5"},
        labels=[AT],
    ),
    Case(rule="SlicewrightAgentStale", why="it answers at each look", series={SUCCESS: "0+10"}),
    Case(
        rule="SlicewrightAgentStale",
        why="no look is taken while the node reboots",
        series={SUCCESS: "5", STATE % "rebooting": "1"},
    ),
    Case(
        rule="SlicewrightDevicesNotAllocatable",
        why="one of seven cannot be had",
        series={CAPACITY: "7", ALLOCATABLE: "6"},
        labels=[{"node": "n", "resource": "nvidia_com_mig_1g_5gb"}],
    ),
    Case(
        rule="SlicewrightDevicesNotAllocatable",
        why="all can be had",
        series={CAPACITY: "7", ALLOCATABLE: "7"},
    ),
    Case(
        rule="SlicewrightDevicesNotAllocatable",
        why="other resources",
        series={
            'kube_node_status_capacity{node="n",resource="cpu"}': "8",
            'kube_node_status_allocatable{node="n",resource="cpu"}': "7",
        },
    ),
    Case(
        rule="SlicewrightPartitioningStuck",
        why="pending for long",
        series={STATE % "pending": "1"},
        labels=[{"node": "n"}],
    ),
    Case(rule="SlicewrightPartitioningStuck", why="done", series={STATE % "success": "1"}),
    Case(
        rule="SlicewrightRebootStuck",
        why="rebooting for long",
        series={STATE % "rebooting": "1"},
        labels=[{"node": "n"}],
    ),
    Case(rule="SlicewrightRebootStuck", why="pending", series={STATE % "pending": "1"}),
    Case(
        rule="SlicewrightOperandPaused",
        why="paused for long",
        series={PLUGIN % "paused-for-mig-change": "1"},
        labels=[{"node": "n"}],
    ),
    Case(
        rule="SlicewrightOperandPaused",
        why="it runs",
        series={PLUGIN % "true": "1"},
    ),
    Case(
        rule="SlicewrightFleetFailing",
        why="two of twenty",
        series=nodes_of(verified=18, failing=2),
        labels=[{}],
    ),
    Case(
        rule="SlicewrightFleetFailing", why="one of twenty", series=nodes_of(verified=19, failing=1)
    ),
    Case(
        rule="SlicewrightFleetFailing",
        why="nodes that are being set up",
        series=nodes_of(verified=1, unknown=9),
    ),
    Case(rule="SlicewrightFleetFailing", why="no nodes", series=nodes_of(verified=0)),
    Case(
        rule="SlicewrightRolloutStopped",
        why="a node has failed",
        series=pool("failed", 1),
        labels=[{"pool": "a"}],
    ),
    Case(
        rule="SlicewrightRolloutStopped",
        why="none has",
        series=pool("failed", 0) | pool("changing", 1),
    ),
    Case(
        rule="SlicewrightPoolDegraded",
        why="it stays so",
        series={'slicewright_pool_condition{pool="a",condition="Degraded",pod="one"}': "1"},
        labels=[{"pool": "a"}],
    ),
    Case(
        rule="SlicewrightPoolDegraded",
        why="it is not, and other conditions are",
        series={
            'slicewright_pool_condition{pool="a",condition="Degraded",pod="one"}': "0",
            'slicewright_pool_condition{pool="a",condition="Verified",pod="one"}': "1",
        },
    ),
    Case(
        rule="SlicewrightControllerNotActing",
        why="both replicas stand by",
        series={
            'slicewright_controller_leads{pod="one"}': "0",
            'slicewright_controller_leads{pod="two"}': "0",
        },
        labels=[{}],
    ),
    Case(rule="SlicewrightControllerNotActing", why="there is no replica", series={}, labels=[{}]),
    Case(
        rule="SlicewrightControllerNotActing",
        why="one of two acts",
        series={
            'slicewright_controller_leads{pod="one"}': "0",
            'slicewright_controller_leads{pod="two"}': "1",
        },
    ),
    Case(
        rule="SlicewrightControllerFailing",
        why="it is refused again and again",
        series={DONE % "refused": "0+1"},
        labels=[{"action": "untaint"}],
    ),
    Case(
        rule="SlicewrightControllerFailing",
        why="what it does is done, and failed once long ago",
        series={
            DONE % "done": "0+1",
            DONE % "failed": "1",
        },
    ),
    Case(
        rule="SlicewrightObjectUnreadable",
        why="a pool cannot be read",
        series={'slicewright_controller_unreadable_objects{kind="GPUPool",pod="one"}': "1"},
        labels=[{"kind": "GPUPool"}],
    ),
    Case(
        rule="SlicewrightObjectUnreadable",
        why="all can be read",
        series={'slicewright_controller_unreadable_objects{kind="GPUPool",pod="one"}': "0"},
    ),
    Case(
        rule="SlicewrightControllerFault",
        why="an action failed unexpectedly",
        series={'slicewright_controller_faults_total{part="action",pod="one"}': "0+1"},
        labels=[{"part": "action"}],
    ),
    Case(
        rule="SlicewrightControllerFault",
        why="one failed long ago",
        series={'slicewright_controller_faults_total{part="action",pod="one"}': "1"},
    ),
    Case(
        rule="SlicewrightGpuWornOut",
        why="no spare row",
        series={f'slicewright_gpu_row_remap_failed{{{GPU},pod="x"}}': "1"},
        labels=[OF_GPU],
    ),
    Case(
        rule="SlicewrightGpuWornOut",
        why="rows left",
        series={f'slicewright_gpu_row_remap_failed{{{GPU},pod="x"}}': "0"},
    ),
    Case(
        rule="SlicewrightGpuNeedsRecovery",
        why="a reset is asked for",
        series={f'slicewright_gpu_recovery_action{{{GPU},action="gpu-reset",pod="x"}}': "1"},
        labels=[OF_GPU | {"action": "gpu-reset"}],
    ),
    Case(rule="SlicewrightGpuNeedsRecovery", why="nothing is", series={}),
    Case(
        rule="SlicewrightTargetDown",
        why="an agent is not reached",
        series={f"up{{{JOB}}}": "0"},
        labels=[{"job": "monitoring/node-agent", "namespace": "slicewright-system", "pod": "p"}],
    ),
    Case(
        rule="SlicewrightTargetDown",
        why="a server is not reached",
        series={'up{job="monitoring/workload-models-llm",namespace="models",pod="p"}': "0"},
        labels=[{"job": "monitoring/workload-models-llm", "namespace": "models", "pod": "p"}],
    ),
    Case(
        rule="SlicewrightTargetDown",
        why="it is reached, and somebody else's is not",
        series={f"up{{{JOB}}}": "1", 'up{job="monitoring/others",namespace="x",pod="p"}': "0"},
    ),
    Case(
        rule="SlicewrightReplicasUnavailable",
        why="two of seven are not there",
        series={REPLICAS % "spec_replicas": "7", REPLICAS % "status_replicas_available": "5"},
        labels=[{"namespace": "default", "deployment": "tritonserver"}],
    ),
    Case(
        rule="SlicewrightReplicasUnavailable",
        why="all are, and somebody else's are not",
        series={
            REPLICAS % "spec_replicas": "7",
            REPLICAS % "status_replicas_available": "7",
            OTHERS % "spec_replicas": "7",
            OTHERS % "status_replicas_available": "1",
        },
    ),
]
RECORDS = [
    Case(
        rule="pool:slicewright_nodes:sum",
        why="by pool, those that change counted once",
        series=nodes_of(verified=5, failing=2, unknown=1)
        | pool("changing", 3)
        | pool("verified", 4, name="b"),
        values={'{pool="a"}': 8, '{pool="b"}': 4},
    ),
    Case(
        rule="pool:slicewright_nodes:sum",
        why="two replicas that both speak",
        series=pool("verified", 5) | pool("verified", 5, pod="two"),
        values={'{pool="a"}': 5},
    ),
    Case(rule="pool:slicewright_nodes:sum", why="no controller", series={}),
    *(
        Case(
            rule=f"pool:slicewright_nodes_{name}:sum",
            why="by pool",
            series=pool(state, 3) | pool("unknown", 9),
            values={'{pool="a"}': 3},
        )
        for name, state in (
            ("proven", "verified"),
            ("changing", "changing"),
            ("failing", "failing"),
            ("failed", "failed"),
        )
    ),
    *(
        Case(
            rule=f"pool:slicewright_nodes_{name}:sum", why="other states", series=pool("unknown", 9)
        )
        for name in ("proven", "changing", "failing", "failed")
    ),
    Case(
        rule="pool:slicewright_nodes_proven:ratio",
        why="three of four",
        series=nodes_of(verified=3, failing=1),
        values={'{pool="a"}': 0.75},
    ),
    Case(
        rule="pool:slicewright_nodes_proven:ratio",
        why="a pool without nodes",
        series=nodes_of(verified=0),
    ),
    Case(
        rule="node_resource:slicewright_devices_allocatable:sum",
        why="partitions, not processors",
        series={ALLOCATABLE: "7", 'kube_node_status_allocatable{node="n",resource="cpu"}': "96"},
        values={f'{{node="n",{MIG}}}': 7},
    ),
    Case(
        rule="node_resource:slicewright_devices_allocatable:sum",
        why="a node without GPUs",
        series={'kube_node_status_allocatable{node="n",resource="cpu"}': "96"},
    ),
    Case(
        rule="node_resource:slicewright_devices_requested:sum",
        why="pods that run, or start",
        series={
            asked("a"): "1",
            phase("a", "Running"): "1",
            asked("b"): "2",
            phase("b", "Pending"): "1",
            phase("a", "Pending"): "0",
            phase("b", "Running"): "0",
        },
        values={f'{{node="n",{MIG}}}': 3},
    ),
    Case(
        rule="node_resource:slicewright_devices_requested:sum",
        why="pods that are over, or have no node",
        series={
            asked("a"): "1",
            phase("a", "Succeeded"): "1",
            phase("a", "Running"): "0",
            asked("b", ""): "1",
            phase("b", "Pending"): "1",
        },
    ),
    Case(
        rule="node_resource:slicewright_devices_requested:ratio",
        why="two of eight",
        series={ALLOCATABLE: "8", asked("a"): "2", phase("a", "Running"): "1"},
        values={f'{{node="n",{MIG}}}': 0.25},
    ),
    Case(
        rule="node_resource:slicewright_devices_requested:ratio",
        why="a node that nobody uses is empty",
        series={ALLOCATABLE: "8"},
        values={f'{{node="n",{MIG}}}': 0},
    ),
    Case(
        rule="node_resource:slicewright_devices_requested:ratio",
        why="a node that offers none",
        series={ALLOCATABLE: "0"},
    ),
    Case(
        rule="gpu:slicewright_engine_active:ratio",
        why="seven slices: 3/7 of 0.5 and 2/7 of 1, and 2/7 idle",
        series={
            ENGINE % ("G", A100_NAME, "1", "3g.20gb", ""): "0.5",
            ENGINE % ("G", A100_NAME, "3", "2g.10gb", ""): "1",
        },
        values={'{node="n",UUID="G"}': 3.5 / 7},
    ),
    Case(
        rule="gpu:slicewright_engine_active:ratio",
        why="one instance, of two pods that share it",
        series={ENGINE % ("G", A100_NAME, "1", "1g.5gb", pod): "0.7" for pod in "ab"},
        values={'{node="n",UUID="G"}': 0.7 * 1 / 7},
    ),
    Case(
        rule="gpu:slicewright_engine_active:ratio",
        why="four slices",
        series={ENGINE % ("G", "NVIDIA A30", "1", "1g.6gb", ""): "1"},
        values={'{node="n",UUID="G"}': 0.25},
    ),
    Case(
        rule="gpu:slicewright_engine_active:ratio",
        why="a whole GPU",
        series={ENGINE % ("G", A100_NAME, "", "", ""): "0.3"},
        values={'{node="n",UUID="G"}': 0.3},
    ),
    Case(rule="gpu:slicewright_engine_active:ratio", why="no exporter", series={}),
    Case(
        rule="workload_model:triton_requests:rate",
        why="of two replicas",
        series={f"nv_inference_request_success{{{SERVED % pod}}}": "0+20" for pod in "ab"},
        values={'{namespace="default",workload="tritonserver",model="m"}': 4},
    ),
    Case(rule="workload_model:triton_requests:rate", why="no replica", series={}),
    Case(
        rule="workload_model:triton_queue_seconds:mean",
        why="a mean over requests, not over replicas",
        # 1 request a second that waits 90 ms, and 9 that wait 10 ms.
        series={
            f"nv_inference_request_success{{{SERVED % 'a'}}}": "0+10",
            f"nv_inference_queue_duration_us{{{SERVED % 'a'}}}": "0+900000",
            f"nv_inference_request_success{{{SERVED % 'b'}}}": "0+90",
            f"nv_inference_queue_duration_us{{{SERVED % 'b'}}}": "0+900000",
        },
        values={'{namespace="default",workload="tritonserver",model="m"}': 0.018},
    ),
    Case(
        rule="workload_model:triton_queue_seconds:mean",
        why="idle is 0, and no replica is nothing",
        series={
            f"nv_inference_request_success{{{SERVED % 'a'}}}": "7",
            f"nv_inference_queue_duration_us{{{SERVED % 'a'}}}": "900000",
        },
        values={'{namespace="default",workload="tritonserver",model="m"}': 0},
    ),
    Case(rule="workload_model:triton_queue_seconds:mean", why="no replica", series={}),
    Case(
        rule="workload_model:triton_request_seconds:mean",
        why="2 requests a second of 50 ms",
        series={
            f"nv_inference_request_success{{{SERVED % 'a'}}}": "0+20",
            f"nv_inference_request_duration_us{{{SERVED % 'a'}}}": "0+1000000",
        },
        values={'{namespace="default",workload="tritonserver",model="m"}': 0.05},
    ),
    Case(rule="workload_model:triton_request_seconds:mean", why="no replica", series={}),
    *(
        Case(
            rule=f"workload:vllm_requests_{name}:sum",
            why="of two replicas",
            series={f"vllm:num_requests_{name}{{{SPOKEN % pod}}}": "3" for pod in "ab"},
            values={'{namespace="models",workload="llm"}': 6},
        )
        for name in ("waiting", "running")
    ),
    *(
        Case(rule=f"workload:vllm_requests_{name}:sum", why="no replica", series={})
        for name in ("waiting", "running")
    ),
    Case(
        rule="workload:vllm_generated_tokens:rate",
        why="of two replicas",
        series={f"vllm:generation_tokens_total{{{SPOKEN % pod}}}": "0+500" for pod in "ab"},
        values={'{namespace="models",workload="llm"}': 100},
    ),
    Case(rule="workload:vllm_generated_tokens:rate", why="no replica", series={}),
    Case(
        rule="workload:vllm_first_token_seconds:p95",
        why="19 of 20 within 0.1 s",
        series={
            f'vllm:time_to_first_token_seconds_bucket{{{SPOKEN % "a"},le="0.1"}}': "0+190",
            f'vllm:time_to_first_token_seconds_bucket{{{SPOKEN % "a"},le="1.0"}}': "0+200",
            f'vllm:time_to_first_token_seconds_bucket{{{SPOKEN % "a"},le="+Inf"}}': "0+200",
        },
        values={'{namespace="models",workload="llm"}': 0.1},
    ),
    Case(rule="workload:vllm_first_token_seconds:p95", why="no replica", series={}),
    Case(
        rule="workload:vllm_kv_cache_used:max",
        why="by its new name, and by its old one",
        series={
            f"vllm:kv_cache_usage_perc{{{SPOKEN % 'a'}}}": "0.2",
            f"vllm:gpu_cache_usage_perc{{{SPOKEN % 'b'}}}": "0.9",
        },
        values={'{namespace="models",workload="llm"}': 0.9},
    ),
    Case(rule="workload:vllm_kv_cache_used:max", why="no replica", series={}),
]
CASES = [*ALERTS, *RECORDS]


@pytest.fixture(scope="module")
def promtool(one_tool: Callable[[str], Path]) -> Path:
    return one_tool("promtool")


def speaks(case: Case) -> bool:
    return bool(case.labels or case.values)


def test_every_rule_has_a_case_with_a_result_and_a_case_without() -> None:
    loud = {case.rule for case in CASES if speaks(case)}
    silent = {case.rule for case in CASES if not speaks(case)}
    assert loud == silent == set(RULES)
    assert len(RULES) == sum(len(group.rules) for group in GROUPS), "a name twice"


def test_rules_fire_and_give_values_when_they_should_and_not_otherwise(
    promtool: Path, tmp_path: Path
) -> None:
    found = run(promtool, tmp_path, as_groups(GROUPS, runbooks=BASE), CASES)
    assert found.returncode == 0, found.stdout + found.stderr


def test_promtool_notices_each_case_that_is_wrong(promtool: Path, tmp_path: Path) -> None:
    """With the series of a case that gives the opposite: so none of them can pass by itself."""
    swapped = [
        replace(case, series=other.series)
        for case in CASES
        for other in CASES
        if other.rule == case.rule and speaks(other) is not speaks(case)
    ]
    found = run(promtool, tmp_path, as_groups(GROUPS, runbooks=BASE), swapped)
    assert found.returncode != 0
    failed = re.findall(r'(?:expr: "|alertname: )(\S+?)"?, time', found.stdout + found.stderr)
    assert Counter(failed) == Counter(case.rule for case in swapped)


@pytest.mark.parametrize("cloud", list(CLOUDS))
def test_promtool_accepts_the_rules_of_every_fleet(
    cloud: str, promtool: Path, tmp_path: Path
) -> None:
    asked_for: list[dict[str, Any]] = [STACK]
    if cloud == "gke":
        asked_for.append({"prometheus": "managed"})
    for monitoring in asked_for:
        groups = as_groups(rule_groups(planned(monitoring, cloud)), runbooks="")
        assert check(promtool, tmp_path, groups) == ""


def test_only_rules_whose_metrics_exist_are_created() -> None:
    names = {
        r.name for g in rule_groups(planned({"prometheus": "managed"}, "gke")) for r in g.rules
    }
    assert "SlicewrightNodeMismatch" in names
    assert not {n for n in names if n.startswith(("gpu:", "node_resource:", "workload"))}
    assert "SlicewrightPartitioningStuck" not in names, "GKE collects no labels of nodes"


def test_every_alert_links_to_its_runbook() -> None:
    page = (DOCS / "reference" / "alerts.md").read_text(encoding="utf-8")
    headings = {line[3:].strip() for line in page.splitlines() if line.startswith("## ")}
    alerts = [rule for rule in RULES.values() if isinstance(rule, Alert)]
    for alert in alerts:
        assert alert.name in headings
        assert runbook(alert, BASE) == f"{BASE}reference/alerts.md#{alert.name.lower()}"
        assert runbook(alert, "") == f"docs/reference/alerts.md#{alert.name.lower()}"
        assert "{{ $labels." in alert.summary or not any(
            labels for case in ALERTS if case.rule == alert.name for labels in case.labels
        ), "which one it is"
    stale = {name for name in headings if name.startswith("Slicewright")}
    assert stale == {alert.name for alert in alerts} | OF_SHARES
    for record in (rule for rule in RULES.values() if isinstance(rule, Record)):
        assert f"`{record.name}`" in page

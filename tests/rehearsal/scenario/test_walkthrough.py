"""The workloads that whole runs apply are those of the published walkthroughs."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.cluster.control_plane.process_images import runs_as_process
from slicewright.rehearsal.scenario import walkthrough
from slicewright.rehearsal.scenario.walkthrough import WALKTHROUGHS


def container(stack: str) -> dict[str, Any]:
    (only,) = walkthrough.pod_spec(WALKTHROUGHS[stack])["containers"]
    return dict(only)


def test_s0_requests_sixteen_in_a_separate_namespace() -> None:  # S0-36
    s0 = WALKTHROUGHS["gke-h100"]
    assert (s0.namespace, s0.deployment, s0.asked) == ("ai", "llm-deployment", 16)


def test_s0_pods_have_shared_memory_and_a_minute_to_end() -> None:  # S0-37, -38
    spec = walkthrough.pod_spec(WALKTHROUGHS["gke-h100"])
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["volumes"] == [
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "10Gi"}}
    ]
    assert container("gke-h100")["volumeMounts"] == [{"name": "dshm", "mountPath": "/dev/shm"}]


def test_s0_runs_one_model_server_with_one_partition_each() -> None:  # S0-39, -41 to -46
    server = container("gke-h100")
    assert (server["name"], server["image"], server["imagePullPolicy"]) == (
        "llm-chat",
        "vllm/vllm-openai:v0.6.2",
        "IfNotPresent",
    )
    assert server["args"] == [
        "--host=0.0.0.0",
        "--port=8000",
        "--model=mistralai/Mistral-Nemo-Instruct-2407",
        "--dtype=bfloat16",
        "--tensor-parallel-size=1",
        "--gpu-memory-utilization=0.9",
        "--swap-space=16",
        "--max-model-len=8192",
        "--max-num-seqs=256",
    ]
    assert server["ports"] == [{"name": "http", "containerPort": 8000}]


def test_s0_takes_its_tokens_from_a_secret() -> None:  # S0-40, corrected: not in plain text
    variables = {
        e["name"]: e["valueFrom"]["secretKeyRef"]["name"] for e in container("gke-h100")["env"]
    }
    assert variables == {"HUGGING_FACE_HUB_TOKEN": "llm", "VLLM_API_KEY": "llm"}


def test_s0_has_an_hour_to_start_and_is_then_asked_every_twenty_seconds() -> None:  # S0-47, -48
    server = container("gke-h100")
    health = {"path": "/health", "port": "http"}
    for probe in ("readinessProbe", "livenessProbe"):
        assert server[probe] == {"httpGet": health, "periodSeconds": 20}
    assert server["startupProbe"] == {
        "httpGet": health,
        "initialDelaySeconds": 300,
        "periodSeconds": 30,
        "failureThreshold": 120,
    }


def test_s0_requests_a_partition_by_gkes_resource_name() -> None:  # S0-49, -50
    assert container("gke-h100")["resources"] == {
        "requests": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "24", "memory": "100Gi", "nvidia.com/gpu": "1"},
    }


def test_s0_chooses_its_nodes_by_their_partition_size_and_tolerates_both_taints() -> None:
    """S0-51, -52"""
    spec = walkthrough.pod_spec(WALKTHROUGHS["gke-h100"])
    affinity = spec["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "cloud.google.com/gke-gpu-partition-size", "operator": "In", "values": ["3g.40gb"]}
    ]
    assert spec["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        {"key": "nvidia/share", "operator": "Equal", "value": "nvidia-mig", "effect": "NoSchedule"},
    ]


def test_s4_runs_eight_model_servers_on_slices_of_partitions() -> None:  # S4-16 to -18, -63
    s4, server = WALKTHROUGHS["existing-a100-t4"], container("existing-a100-t4")
    assert (s4.deployment, s4.asked, s4.fits) == ("tritonserver-timeslicing-mig", 8, 8)
    assert server["image"] == "nvcr.io/nvidia/tritonserver:23.05-py3"
    assert server["command"] == [
        "/opt/tritonserver/bin/tritonserver",
        "--model-repository=/models",
        "--allow-gpu-metrics=false",
    ]
    assert {port["name"]: port["containerPort"] for port in server["ports"]} == {
        "http-triton": 8000,
        "grpc-triton": 8001,
        "metrics-triton": 8002,
    }
    assert server["resources"] == {"limits": {"nvidia.com/mig-1g.5gb": "1"}}


def test_s1_requests_more_than_the_pool_offers() -> None:  # S1-30, -31
    s1, one = WALKTHROUGHS["eks-a100"], container("eks-a100")
    assert (s1.deployment, s1.asked, s1.fits) == ("mig1.5", 100, 56)
    assert (one["name"], one["image"]) == ("vectoradd", "nvidia/cuda:8.0-runtime")
    assert (one["command"], one["args"]) == (["/bin/sh", "-c"], ["nvidia-smi && tail -f /dev/null"])
    assert one["resources"] == {"limits": {"nvidia.com/mig-1g.5gb": "1"}}


@pytest.mark.parametrize("stack", WALKTHROUGHS)
def test_the_table_knows_whether_a_walkthroughs_program_is_run(stack: str) -> None:
    one = container(stack)
    assert WALKTHROUGHS[stack].is_run is runs_as_process(one["image"], one["name"])


def replica(**changed: Any) -> dict[str, Any]:
    """A pod that is Running and Ready, changed."""
    restarts = changed.pop("restarts", 0)
    state = changed.pop("state", {"running": {}})
    ready = changed.pop("ready", "True")
    return {
        "metadata": {"name": "llm-1"},
        "spec": {"nodeName": "n"},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": restarts, "state": state}],
            **changed,
        },
    }


BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("pod", "trouble"),
    [
        (replica(), ""),
        (replica(ready="False"), "llm-1: Running, not Ready"),
        (replica(phase="Pending", ready="False"), "llm-1: Pending"),
        (replica(state=BACK_OFF, restarts=2), "llm-1: CrashLoopBackOff, 2 restarts"),
        (replica(restarts=1), "llm-1: Running, 1 restart"),
        (replica(phase="Failed", ready="False"), "llm-1: Failed"),
    ],
)
def test_a_pod_works_when_it_is_running_and_ready_and_has_not_restarted(
    pod: dict[str, Any], trouble: str
) -> None:
    assert walkthrough.trouble_of(pod) == trouble


def test_a_server_that_is_ready_for_a_moment_and_restarts_is_not_healthy() -> None:
    looks = iter([[replica()], [replica()], [replica(state=BACK_OFF, restarts=1)]])
    health = walkthrough.healthy(lambda: next(looks), timeout_s=60, lasting_s=30)
    assert health == walkthrough.Health(0, "llm-1: CrashLoopBackOff, 1 restart")


def test_servers_are_healthy_once_that_has_lasted() -> None:
    health = walkthrough.healthy(lambda: [replica(), replica()], timeout_s=60, lasting_s=0.3)
    assert health == walkthrough.Health(2, "")


def test_a_server_that_never_becomes_ready_is_told_after_the_timeout() -> None:
    health = walkthrough.healthy(lambda: [replica(ready="False")], timeout_s=0.3, lasting_s=0.1)
    assert health == walkthrough.Health(0, "llm-1: Running, not Ready")

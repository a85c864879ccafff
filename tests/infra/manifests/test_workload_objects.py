"""The Kubernetes objects of workloads, and the resources that the program makes of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import pulumi_kubernetes as k8s
import pytest
import yaml

from slicewright.apis import names as api
from slicewright.infra import manifests, stack_file
from slicewright.infra.components import existing_cluster
from slicewright.infra.manifests import WorkloadObjects
from tests.infra.plan.test_workloads import CONTAINER, STACK, TRITON, planned, stack, written

Record = Callable[..., list[Any]]


def objects(*changes: tuple[str, Any], **where: Any) -> WorkloadObjects:
    """where: the arguments of `written`."""
    ((_, made),) = manifests.workloads_of(planned(written(*changes, **where)))
    return made


def pod(*changes: tuple[str, Any], **where: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = objects(*changes, **where).deployment["spec"]["template"]["spec"]
    return found


def container(*changes: tuple[str, Any], **where: Any) -> Mapping[str, Any]:
    (only,) = pod(*changes, **where)["containers"]
    found: Mapping[str, Any] = only
    return found


def test_s0_is_a_deployment_of_16_in_its_namespace() -> None:  # S0-36
    fleet = planned(written())
    (namespace,) = manifests.workload_namespaces(fleet)
    assert namespace["metadata"]["name"] == "ai"
    made = objects().deployment
    assert (made["metadata"]["name"], made["metadata"]["namespace"]) == ("llm-deployment", "ai")
    assert made["spec"]["replicas"] == 16


def test_s0_pods_have_shared_memory_and_a_minute_to_end() -> None:  # S0-37, -38
    assert pod()["terminationGracePeriodSeconds"] == 60
    shared = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "10Gi"}}
    assert shared in pod()["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in container()["volumeMounts"]


def test_s0_runs_vllm_with_the_arguments_of_the_walkthrough() -> None:  # S0-39, -41 to -46
    server = container()
    assert (server["image"], server["imagePullPolicy"]) == (
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
        "--max-model-len=8192",
        "--max-num-seqs=256",
        "--swap-space=16",
    ]
    assert server["ports"] == [{"name": "http", "containerPort": 8000, "protocol": "TCP"}]


def test_s0_takes_its_tokens_from_a_secret_by_name() -> None:  # S0-40
    variables = {e["name"]: e.get("valueFrom") for e in container()["env"]}
    assert variables["HUGGING_FACE_HUB_TOKEN"] == {
        "secretKeyRef": {"name": "llm", "key": "hf-token"}
    }
    assert variables["VLLM_API_KEY"] == {"secretKeyRef": {"name": "llm", "key": "api-key"}}
    assert not any(made["kind"] == "Secret" for made in objects().all)


def test_s0_is_probed_every_twenty_seconds_once_started() -> None:  # S0-47
    for probe in ("readinessProbe", "livenessProbe"):
        asked = container()[probe]
        assert asked["httpGet"] == {"path": "/health", "port": "http"}
        assert asked["periodSeconds"] == 20


def test_the_server_is_not_ended_before_the_start_up_budget_of_the_file() -> None:
    # S0-48
    startup = container()["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 65 * 60
    made = objects()
    # Else the Deployment is given up, and `up` with it, while the model is loaded.
    assert made.deployment["spec"]["progressDeadlineSeconds"] > 65 * 60
    assert made.start_minutes > 65
    assert made.update_minutes == 16 * made.start_minutes
    assert objects(("max_unavailable", 4)).update_minutes == 4 * made.start_minutes
    assert objects(("replicas", 0)).update_minutes == made.start_minutes


def test_s0_requests_a_partition_by_gkes_resource_name() -> None:  # S0-49, -50
    assert container()["resources"] == {
        "requests": {"cpu": "10", "memory": "30Gi", "nvidia.com/gpu": "1"},
        "limits": {"cpu": "24", "memory": "100Gi", "nvidia.com/gpu": "1"},
    }


def test_s0_chooses_its_nodes_by_pool_and_by_partition_size() -> None:  # S0-51
    assert pod()["nodeSelector"] == {api.POOL_LABEL: "h100-partition-3g"}
    affinity = pod()["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "cloud.google.com/gke-gpu-partition-size", "operator": "In", "values": ["3g.40gb"]}
    ]
    assert "affinity" not in pod(of=1)


def test_the_pools_taints_are_tolerated_and_that_of_unverified_nodes_is_not() -> None:  # S0-52
    assert pod()["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "nvidia/share", "operator": "Equal", "value": "nvidia-mig", "effect": "NoSchedule"},
    ]
    assert api.STARTUP_TAINT_KEY not in json.dumps(pod())


def test_a_pod_passes_the_restricted_standard_and_has_no_token() -> None:
    """Kubernetes docs, Pod Security Standards: restricted."""
    for of, fleet in itertools.product((0, 1), (STACK, TRITON, CONTAINER)):
        spec = pod(of=of, stack=fleet)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(of=of, stack=fleet)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        allowed = {"emptyDir", "persistentVolumeClaim"}
        assert all(set(volume) - {"name"} <= allowed for volume in spec["volumes"])
        assert not any(spec.get(host) for host in ("hostNetwork", "hostPID", "hostIPC"))
        assert spec["automountServiceAccountToken"] is False
    account, *_ = objects().before
    assert account["automountServiceAccountToken"] is False
    assert not any("Role" in made["kind"] for made in objects().all)


def test_a_service_named_vllm_gives_the_server_no_variables() -> None:
    assert pod()["enableServiceLinks"] is False


def test_replicas_share_one_volume_whose_claim_belongs_to_the_workload() -> None:
    (claim,) = (o for o in objects().before if o["kind"] == "PersistentVolumeClaim")
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "100Gi"}},
        "storageClassName": "filestore",
    }
    volume = {"name": "cache", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    assert volume in pod()["volumes"]
    # Where downloads go is on it.
    (mount,) = (m for m in container()["volumeMounts"] if m["name"] == "cache")
    (home,) = (e["value"] for e in container()["env"] if e["name"] == "HF_HOME")
    assert home.startswith(mount["mountPath"] + "/")


def test_an_existing_claim_is_mounted_and_not_created() -> None:
    assert not any(o["kind"] == "PersistentVolumeClaim" for o in objects(of=1).all)
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": "models"}} in pod(of=1)[
        "volumes"
    ]
    assert "--model=/cache/mixtral/v1" in container(of=1)["args"]


def test_no_pod_is_added_for_an_update_and_a_drain_takes_no_more_than_the_file_says() -> None:
    made = objects(("max_unavailable", 3))
    assert made.deployment["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": 0,
        "maxUnavailable": 3,
    }
    (budget,) = (o for o in made.before if o["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 3
    assert budget["spec"]["selector"] == made.deployment["spec"]["selector"]


def test_pods_are_spread_over_several_nodes_and_zones() -> None:
    assert "topologySpreadConstraints" not in pod()
    assert [one["topologyKey"] for one in pod(of=1)["topologySpreadConstraints"]] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]


def test_up_does_not_wait_for_replicas_that_have_no_place() -> None:
    skip = {"pulumi.com/skipAwait": "true"}
    for many, expected in ((16, None), (17, skip)):
        made = objects(("replicas", many))
        assert made.service is not None
        for one in (made.deployment, made.service):
            assert one["metadata"].get("annotations") == expected


def test_a_service_that_is_not_awaited_keeps_its_annotations() -> None:
    made = objects(("replicas", 9), of=1).service
    assert made is not None
    assert made["spec"]["type"] == "LoadBalancer"
    assert set(made["metadata"]["annotations"]) == {
        "networking.gke.io/load-balancer-type",
        "pulumi.com/skipAwait",
    }


def test_a_variable_of_the_file_overrides_that_of_slicewright() -> None:
    env = [e for e in container(("env", {"HF_HOME": "/x"}))["env"] if e["name"] == "HF_HOME"]
    assert env == [{"name": "HF_HOME", "value": "/x"}]


def test_a_namespace_is_created_once_unless_the_file_says_it_exists() -> None:
    raw = written()
    raw["workloads"].append(raw["workloads"][0] | {"name": "second"})
    assert len(manifests.workload_namespaces(planned(raw))) == 1
    assert manifests.workload_namespaces(planned(written(("create_namespace", False)))) == []
    assert manifests.workload_namespaces(planned(written(of=1))) == []  # default


@pytest.mark.parametrize("name", ["vllm", "triton", "container"])
def test_the_program_creates_each_workload_object_once(
    name: str, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_cluster, "provider", lambda *_: k8s.Provider("kubernetes"))
    fleet = stack(name)
    recorded = record(name, fleet=yaml.safe_dump(fleet))
    made = [m for m in recorded if m.type.startswith("kubernetes:")]
    rendered = [
        *manifests.workload_namespaces(planned(fleet)),
        *(o for _, each in manifests.workloads_of(planned(fleet)) for o in each.all),
    ]
    for manifest in rendered:
        (one,) = (
            m
            for m in made
            if m.inputs.get("kind") == manifest["kind"]
            and m.inputs.get("metadata") == manifest["metadata"]
        )
        assert {**one.inputs} == manifest
    names = [(m.type, m.name) for m in made]
    assert len(set(names)) == len(names)


def test_a_fleet_without_workloads_has_no_component_for_them(record: Record) -> None:
    assert not any("workload" in m.name for m in record("gke-h100"))


def test_triton_is_started_as_in_s4_with_its_models() -> None:  # S4-15 to S4-18
    assert objects(("replicas", 2), stack=TRITON).deployment["spec"]["replicas"] == 2
    server = container(stack=TRITON)
    assert server["image"] == "nvcr.io/nvidia/tritonserver:23.05-py3"
    assert server["command"] == ["/opt/tritonserver/bin/tritonserver"]
    assert server["args"] == [
        "--model-repository=/models",
        "--model-control-mode=none",
        "--exit-timeout-secs=55",
        "--allow-gpu-metrics=false",
    ]
    assert {port["name"]: port["containerPort"] for port in server["ports"]} == {
        "http": 8000,
        "grpc": 8001,
        "metrics": 8002,
    }
    assert container(of=1, stack=TRITON)["args"] == [
        "--model-repository=/models",
        "--model-control-mode=explicit",
        "--load-model=densenet_onnx",
        "--exit-timeout-secs=25",
        "--log-verbose=1",
    ]


def test_triton_is_ready_when_its_models_are_and_alive_as_long_as_it_answers() -> None:
    server = container(stack=TRITON)
    assert server["startupProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert server["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert server["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"


def test_the_share_is_mounted_by_a_volume_and_a_claim_of_each_other() -> None:  # S4-07, -19
    volume, claim = (
        next(one for one in objects(stack=TRITON).before if one["kind"] == kind)
        for kind in ("PersistentVolume", "PersistentVolumeClaim")
    )
    assert volume["spec"]["nfs"] == {
        "server": "10.222.1.60",
        "path": "/shares/share-1/server/docs/examples/model_repository",
        "readOnly": True,
    }
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["claimRef"] == {
        "namespace": "default",
        "name": claim["metadata"]["name"],
    }
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert claim["spec"]["storageClassName"] == volume["spec"]["storageClassName"] == ""
    mounted = {"name": "models", "mountPath": "/models", "readOnly": True}
    assert mounted in container(stack=TRITON)["volumeMounts"]
    assert {
        "name": "models",
        "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]},
    } in pod(stack=TRITON)["volumes"]


def test_another_share_is_another_volume_and_another_claim() -> None:
    """A volume is replaced for it, and could not be deleted while a claim that stays is bound."""
    names = [
        {one["metadata"]["name"] for one in objects(*changes, stack=TRITON).before}
        for changes in ([], [("model_repository.path", "/other")])
    ]
    assert len(names[0] & names[1]) == 1  # account and budget, which have one name
    claimed = objects(of=1, stack=TRITON).before
    assert [one["kind"] for one in claimed] == ["ServiceAccount", "PodDisruptionBudget"]


def test_s4_asks_for_one_device_and_its_service_has_three_ports() -> None:  # S4-20, -24
    assert container(stack=TRITON)["resources"] == {
        "requests": {"nvidia.com/mig-1g.5gb": "1"},
        "limits": {"nvidia.com/mig-1g.5gb": "1"},
    }
    assert container(of=1, stack=TRITON)["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    service = objects(stack=TRITON).service
    assert service is not None
    assert service["spec"]["type"] == "LoadBalancer"
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == {
        "http": 8000,
        "grpc": 8001,
        "metrics": 8002,
    }


def test_a_container_workload_has_the_settings_of_the_file() -> None:
    server = container(stack=CONTAINER)
    assert "command" not in server
    assert server["args"] == ["--model-id=BAAI/bge-large-en-v1.5", "--port=8080"]
    assert {port["name"]: port["containerPort"] for port in server["ports"]} == {
        "http": 8080,
        "metrics": 9000,
    }
    for probe, path in (("startup", "/health"), ("readiness", "/health"), ("liveness", "/info")):
        assert server[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "http"}
    assert {"name": "cache", "mountPath": "/cache"} in server["volumeMounts"]


def test_a_container_without_ports_and_health_has_no_service_and_no_probes() -> None:
    assert objects(of=1, stack=CONTAINER).service is None
    server = container(of=1, stack=CONTAINER)
    assert server["command"] == ["python3", "-m", "worker"]
    assert server["resources"]["limits"] == {"nvidia.com/gpu": "4"}
    assert not any(key.endswith("Probe") for key in server)
    assert not any(mount["name"] == "cache" for mount in server["volumeMounts"])


def test_pods_of_a_gke_pool_shared_by_mps_are_in_their_nodes_ipc_namespace() -> None:
    raw = written(("replicas", 4), ("gpu_memory_percent", 45))
    raw["node_pools"][0]["sharing"] = {"mode": "mps", "replicas": 2}
    raw["workloads"][0]["model"]["parameters"] = "1B"
    raw["workloads"][0]["create_namespace"] = False
    ((_, made),) = manifests.workloads_of(planned(raw))
    assert made.deployment["spec"]["template"]["spec"]["hostIPC"] is True


@pytest.mark.parametrize(
    ("mode", "namespace", "creates", "refused"),
    [
        ("mps", "models", True, True),
        ("mps", "models", False, False),
        ("mps", "default", True, False),
        ("time-slicing", "models", True, False),
    ],
)
def test_pods_that_a_namespace_of_the_stack_would_refuse_are_refused_first(
    mode: str, namespace: str, creates: bool, refused: bool
) -> None:
    """It is labelled for restricted pods, and GKE's MPS needs hostIPC."""
    raw = written(("replicas", 4), ("gpu_memory_percent", 45))
    raw["node_pools"][0]["sharing"] = {"mode": mode, "replicas": 2}
    raw["workloads"][0]["model"]["parameters"] = "1B"
    raw["workloads"][0] |= {"namespace": namespace, "create_namespace": creates}
    if not refused:
        planned(raw)
        return
    with pytest.raises(stack_file.SpecError) as error:
        planned(raw)
    (line,) = (one for one in str(error.value).splitlines() if "hostIPC" in one)
    assert "create_namespace" in line
    assert "create namespace models with the label pod-security.kubernetes.io/enforce" in line

"""GKE: a pool that GKE partitions and two that it shares, beside one that NVIDIA's operator
partitions and shares.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from slicewright.apis.names import POOL_LABEL
from slicewright.kubeapi import Client
from slicewright.rehearsal.clouds.gcp.gke import addons
from slicewright.rehearsal.scenario import proof
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "NVIDIA's operator on GKE nodes: tests/rehearsal/cluster/gpu_operator/test_gke.py"
    ),
]
STACK = """\
config:
  gcp:project: slicewright-both
  pulumi:disable-default-providers: ["*"]
  slicewright:fleet:
    cloud: gke
    cluster: { name: main, location: us-central1-c }
    verify_timeout_minutes: 6
    node_pools:
      - name: native
        machine_type: a3-highgpu-1g
        nodes: { count: 1 }
        partition: { mode: native, profile: 3g.40gb }
        taints: [{ key: team, value: web, effect: NoSchedule }]
      - name: cut
        machine_type: a2-highgpu-1g
        nodes: { count: 1 }
        partition: { mode: operator, layout: { 3g.20gb: 1, 1g.5gb: 3 } }
        sharing: { mode: time-slicing, replicas: { mig-1g.5gb: 2 } }
        taints: [{ key: team, value: ml, effect: NoSchedule }]
      - name: sliced
        machine_type: g2-standard-4
        nodes: { count: 1 }
        sharing: { mode: time-slicing, replicas: 4 }
      - name: mps
        machine_type: g2-standard-4
        nodes: { count: 1 }
        sharing: { mode: mps, replicas: 3 }
"""
OFFERED = {
    "native": {"nvidia.com/gpu": 2},
    "cut": {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 6},
    "sliced": {"nvidia.com/gpu": 4},
    "mps": {"nvidia.com/gpu": 3},
}
PODS = "/api/v1/namespaces/default/pods"
PLUGIN = "nvidia-device-plugin-daemonset"
OPERANDS = (
    PLUGIN,
    "gpu-feature-discovery",
    "nvidia-container-toolkit-daemonset",
    "nvidia-dcgm-exporter",
    "nvidia-mig-manager",
    "nvidia-operator-validator",
)
INSTALLER = "nvidia-driver-installer-cos"


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("gke-both")
    environment.stack_file("gke-h100").write_text(STACK)
    engine = Engine(environment, "gke-h100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def up(engine: Engine) -> Outcome:
    return engine.up()


@pytest.fixture(scope="module")
def client(engine: Engine, up: Outcome) -> Client:
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


def nodes(client: Client) -> Mapping[str, str]:
    """Pool -> its node."""
    return {node.pool: node.name for node in proof.read_fleet(client)}


def offered(client: Client) -> Mapping[str, Mapping[str, int]]:
    return {node.pool: dict(node.advertised()) for node in proof.read_fleet(client)}


def daemon_sets_on(client: Client, node: str) -> set[str]:
    pods = client.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    owners = [o for pod in pods for o in pod["metadata"].get("ownerReferences", ())]
    return {o["name"] for o in owners if o["kind"] == "DaemonSet"}


def test_every_node_of_both_kinds_is_proven(client: Client, up: Outcome) -> None:
    assert up.code == 0, up.output
    fleet = proof.read_released_fleet(client)
    assert all(check.holds for check in proof.of_fleet("both", fleet)), proof.of_fleet("", fleet)
    assert offered(client) == OFFERED


def test_each_node_has_one_device_plugin_and_one_installer_of_the_driver(client: Client) -> None:
    on = {pool: daemon_sets_on(client, node) for pool, node in nodes(client).items()}
    cut = on.pop("cut")
    for pool, native in on.items():
        assert addons.NAME in native, pool
        assert not native & {*OPERANDS, INSTALLER}, pool
    assert addons.NAME not in cut
    assert cut >= {PLUGIN, INSTALLER, "nvidia-mig-manager", "nvidia-container-toolkit-daemonset"}


def test_the_operators_namespace_admits_critical_pods_by_its_own_quota(client: Client) -> None:
    """They all run. How many the quota counts is not compared: its controller may count while a
    pod is admitted and not stored yet, and counts again at the next deletion or after 5 minutes
    (k8s.io/kubernetes v1.36.2, pkg/controller/resourcequota/resource_quota_monitor.go).
    """
    parts = (*OPERANDS, "gpu-operator", INSTALLER)
    deadline = time.monotonic() + 240
    phases: dict[str, str] = {}
    while set(phases.values()) != {"Running"}:
        assert time.monotonic() < deadline, phases
        phases = {
            pod["metadata"]["name"]: pod["status"]["phase"]
            for pod in client.get("/api/v1/namespaces/gpu-operator/pods")["items"]
            if pod["spec"].get("priorityClassName", "").endswith("-critical")
        }
        time.sleep(0.2)
    assert [part for part in parts if not any(name.startswith(part) for name in phases)] == []
    quota = client.get("/api/v1/namespaces/gpu-operator/resourcequotas/critical-pods")["status"]
    assert int(quota["used"]["pods"]) > 0


@pytest.fixture(scope="module")
def running(client: Client) -> Mapping[str, list[str]]:
    """Pool -> logs of the pods that run on it: of one more than fit, all but one."""
    wanted = {pool: next(reversed(resources.items())) for pool, resources in OFFERED.items()}
    for pool, (resource, fit) in wanted.items():
        for i in range(fit + 1):
            client.create(PODS, pod(f"{pool}-{i}", pool, resource))
    expected = Counter({pool: fit for pool, (_, fit) in wanted.items()})
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 240
    while Counter(of_pool(one) for one in found) != expected:
        assert time.monotonic() < deadline, Counter(of_pool(one) for one in found)
        time.sleep(0.2)
        pods = client.get(PODS)["items"]
        found = [one for one in pods if one["status"].get("phase") == "Running"]
    logs: dict[str, list[str]] = {pool: [] for pool in wanted}
    for one in found:
        path = f"{PODS}/{one['metadata']['name']}/log"
        said = until(lambda at=path: log if "UUID" in (log := client.text(at)) else "", path)
        logs[of_pool(one)].append(said)
    for pool, (_, fit) in wanted.items():
        for i in range(fit + 1):
            client.delete(f"{PODS}/{pool}-{i}", gracePeriodSeconds="0")
    return logs


def of_pool(one: Mapping[str, Any]) -> str:
    return str(one["spec"]["nodeSelector"][POOL_LABEL])


def test_pods_of_each_pool_run_and_one_too_many_waits(
    running: Mapping[str, list[str]],
) -> None:
    assert {pool: len(logs) for pool, logs in running.items()} == {
        pool: next(reversed(resources.values())) for pool, resources in OFFERED.items()
    }


@pytest.mark.parametrize(
    ("pool", "kind", "together"),
    [("native", "MIG", [1, 1]), ("cut", "MIG", [2, 2, 2]), ("sliced", "GPU", [4])],
)
def test_each_pod_sees_its_one_device_and_shares_it_with_as_many_as_declared(
    running: Mapping[str, list[str]], pool: str, kind: str, together: list[int]
) -> None:
    seen = [re.findall(rf"UUID: ({kind}-[-0-9a-f]+)", log) for log in running[pool]]
    assert [len(one) for one in seen] == [1] * sum(together), seen
    assert sorted(Counter(uuid for one in seen for uuid in one).values()) == together


def test_each_client_of_gkes_mps_sees_the_gpu_and_its_third_of_it(
    running: Mapping[str, list[str]],
) -> None:  # S4-57
    logs = running["mps"]
    assert len({tuple(re.findall(r"UUID: (GPU-[-0-9a-f]+)", log)) for log in logs}) == 1
    for log in logs:
        assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33" in log
        assert re.search(r"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=\d+M", log)


def pod(name: str, pool: str, resource: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "nvcr.io/nvidia/cuda:12.8.1-base-ubuntu22.04",
        "command": ["sh", "-c", "env | grep CUDA_MPS; nvidia-smi -L; exec sleep infinity"],
        # Where GKE mounts the driver.
        "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
        "resources": {"limits": {resource: "1"}},
    }
    tolerations = [{"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", "team")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeSelector": {POOL_LABEL: pool},
            "tolerations": tolerations,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def test_a_second_up_reports_no_changes(engine: Engine, client: Client) -> None:
    outcome = engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_a_layout_changes_in_place_on_the_operators_node_alone(
    engine: Engine, client: Client
) -> None:
    before = nodes(client)
    stack_file = engine.environment.stack_file("gke-h100")
    changed = stack_file.read_text().replace("1g.5gb: 3", "2g.10gb: 1")
    stack_file.write_text(changed.replace("mig-1g.5gb: 2", "mig-2g.10gb: 2"))
    outcome = engine.up()
    assert outcome.code == 0, outcome.output
    assert nodes(client) == before
    assert offered(client) == {
        **OFFERED,
        "cut": {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-2g.10gb": 2},
    }


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
    assert list(engine.environment.root.glob("clusters/*")) == []

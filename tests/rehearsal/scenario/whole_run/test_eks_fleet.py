"""eks-a100, from a push to git to an empty cloud: an EKS fleet cut by NVIDIA's own mig-manager, and
back; beside it a time-sliced pool, and one with Bottlerocket, which cuts by itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.apis import names as api
from slicewright.apis.desired_state import digest
from slicewright.apis.names import CHANGE_ANNOTATION, NODE_CONDITION, POOL_LABEL
from slicewright.infra import plan
from slicewright.kubeapi import Client
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.scenario import faults, proof, walkthrough
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.walkthrough import WALKTHROUGHS
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run import inside
from tests.rehearsal.scenario.whole_run.from_git import Pushed, Repository, slicewright
from tests.rehearsal.scenario.whole_run.waiting import until
from tests.rights_used import differences, without_sweep

pytestmark = [pytest.mark.rehearsal]
EKS_A100 = WALKTHROUGHS["eks-a100"]
# With a taint of its own, which neither the pods of the walkthrough nor those that ask for a whole
# GPU tolerate.
SHARED_POOL = """\
      - name: shared
        machine_type: g5.xlarge
        nodes: { count: 1 }
        sharing: { mode: time-slicing, replicas: { gpu: 4 } }
        taints: [{ key: team, value: web, effect: NoSchedule }]
      - name: bottlerocket
        machine_type: p4d.24xlarge
        ami_type: BOTTLEROCKET_x86_64_NVIDIA
        nodes: { count: 1 }
        partition: { mode: native, profile: 3g.20gb }
        taints: [{ key: team, value: web, effect: NoSchedule }]
    gpu_operator:
"""
STAYS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stays", "namespace": "default"},
    "spec": {
        "nodeSelector": {POOL_LABEL: "shared"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {"name": "c", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        ],
    },
}
"""On a slice of the GPU that is shared."""
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
BUDGET = {
    "metadata": {"name": "none-may-go"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "mig1-5"}}},
}
"""Of the walkthrough's pods: without it they would leave by eviction."""

_LEFT: Mapping[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/services": {
        "metadata": {
            "name": "triton",
            # Of a controller that is gone.
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
        },
        "spec": {"type": "LoadBalancer", "ports": [{"port": 8000}]},
    },
    "/api/v1/persistentvolumes": {
        "metadata": {"name": "models"},
        "spec": {
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0123456789abcdef0"},
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
        },
    },
}


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("eks-a100")
    stack_file = environment.stack_file("eks-a100")
    text, changed = re.subn(
        r"^( *)cloud: eks$",
        r"\1cloud: eks\n\1node_agent: {attribution: true}",
        stack_file.read_text(),
        flags=re.M,
    )
    assert changed == 1
    text, changed = re.subn(r"^    gpu_operator:\n", SHARED_POOL, text, flags=re.M)
    assert changed == 1
    text, changed = re.subn(r"^( *)region: .*$", r"\g<0>\n\1tags: {owner: ml}", text, flags=re.M)
    assert changed == 1
    stack_file.write_text(text)
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def eager(engine: Engine, ask_early: Callable[[Environment], Any]) -> Any:
    """Asks for a whole GPU before there is a node: mig-manager's nodes offer whole GPUs until they
    are cut.
    """
    return ask_early(engine.environment)


@pytest.fixture(scope="module")
def pushed(engine: Engine, eager: Any, policy_environment: Path) -> Pushed:
    return Repository.of(engine.environment, engine.stack).push()


@pytest.fixture(scope="module")
def client(engine: Engine, eager: Any, pushed: Pushed) -> Client:
    assert pushed.deploy.code == 0, pushed.deploy.output
    eager.end(moment_s=5)
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


def test_pushed_commit_is_reported_and_checked_before_up(pushed: Pushed) -> None:
    assert pushed.report.code == 0, pushed.report.output
    assert pushed.text.startswith("<!-- slicewright preview-report eks-a100 -->")
    assert "demo-gpu-workers" in pushed.text
    assert pushed.rules.code == 0, pushed.rules.output
    assert "cluster-endpoint" in pushed.rules.output, "the program did not pass the pack"
    assert pushed.inventory == {}


def test_status_says_that_the_fleet_is_as_declared(client: Client, engine: Engine) -> None:
    (kubeconfig,) = engine.environment.kubeconfigs().values()
    done = _slicewright(engine, "status", "-s", engine.stack, "--kubeconfig", str(kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_node_is_proven_and_released(client: Client) -> None:
    fleet = proof.read_released_fleet(client)
    assert all(check.holds for check in proof.of_fleet("eks-a100", fleet)), proof.of_fleet(
        "eks-a100", fleet
    )
    (node,) = (n for n in fleet if n.pool == "demo-gpu-workers")
    assert {k: v for k, v in node.allocatable.items() if v} == {"nvidia.com/mig-1g.5gb": 56}
    assert [dict(gpu["instances"]) for gpu in node.gpus] == [{"1g.5gb": 7}] * 8


def test_time_sliced_pool_offers_the_declared_replicas(client: Client) -> None:
    assert _allocatable(client, "shared") == {"nvidia.com/gpu": "4"}


def test_a_pod_that_asks_for_a_whole_gpu_is_never_bound(client: Client, eager: Any) -> None:
    assert eager.made, "the pod was never made: the test saw nothing"
    assert eager.node_when_bound is None
    pod = client.get("/api/v1/namespaces/default/pods/whole-gpu")
    assert not pod["spec"].get("nodeName")
    client.delete("/api/v1/namespaces/default/pods/whole-gpu", gracePeriodSeconds="0")


def test_nvidias_own_programs_did_the_cutting(client: Client) -> None:
    labels = _node(client)["metadata"]["labels"]
    assert labels["nvidia.com/mig.config.state"] == "success"
    assert labels["nvidia.com/mig.config"] == "all-1g.5gb"
    # Written by GPU feature discovery from NVML, not by the stand-in; `up` does not wait for it.
    told = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/mig-1g.5gb.count": "56"}
    until(lambda: told.items() <= _node(client)["metadata"]["labels"].items(), "it is labelled")


def test_a_running_pod_sees_its_one_partition_and_no_other(client: Client, engine: Engine) -> None:
    """S1-32: the published pod has 14 SMs and 4864 MiB."""
    paths = [inside.pod_of(client, EKS_A100, f"look-{n}") for n in range(2)]
    uuids = []
    for path in paths:
        (gpu,) = inside.seen_by(engine.environment, client, path)["gpus"]
        (device,) = gpu["devices"]
        assert (gpu["mig"], device["name"].rpartition(" ")[2]) == ("enabled", "1g.5gb")
        assert (device["multiprocessors"], device["memory_mib"]) == (14, 4864)
        uuids.append(device["uuid"])
    assert len(set(uuids)) == 2
    inside.delete(client, *paths)


def test_56_of_100_pods_are_bound(client: Client) -> None:
    walkthrough.apply(client, EKS_A100)
    landing = walkthrough.wait_until_landed(client, EKS_A100, 100)
    assert (landing.bound, landing.pending) == (56, 44)
    assert "Insufficient nvidia.com/mig-1g.5gb" in landing.why_pending


def agents_pod(client: Client) -> dict[str, Any]:
    pods = client.get(
        "/api/v1/namespaces/slicewright-system/pods",
        labelSelector="app.kubernetes.io/name=node-agent",
        fieldSelector=f"spec.nodeName={_node(client)['metadata']['name']}",
    )
    (pod,) = pods["items"]
    return dict(pod)


def told(client: Client, pods: set[str]) -> dict[str, str]:
    """Pod -> UUID, as the container beside the agent tells Prometheus, as soon as it tells exactly
    these pods.
    """
    agent = agents_pod(client)
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(
                f"http://{agent['status']['podIP']}:9472/metrics", timeout=60
            ) as answer:
                page = answer.read().decode()
        except OSError as e:
            page = str(e)
        found = re.findall(
            r'pod_info\{uuid="([^"]+)",resource="nvidia.com/mig-1g.5gb",.*pod="([^"]+)"', page
        )
        if {pod for _, pod in found} == pods:
            assert len(found) == len(pods)
            return {pod: uuid for uuid, pod in found}
        assert time.monotonic() < deadline, page
        time.sleep(0.5)


def test_each_of_the_56_pods_is_reported_with_its_partition(client: Client, engine: Engine) -> None:
    pods = client.get(f"/api/v1/namespaces/{EKS_A100.namespace}/pods")["items"]
    bound = {p["metadata"]["name"] for p in pods if p["spec"].get("nodeName")}
    assert len(bound) == 56
    node = _node(client)["metadata"]["name"]
    (silicon,) = engine.environment.root.glob(f"clusters/*/nodes/{node}/silicon/state")
    partitions = [
        ci.uuid
        for gpu in state.load(silicon).gpus
        for gi in gpu.instances
        for ci in gi.compute_instances
    ]
    assert sorted(told(client, bound).values()) == sorted(partitions)


def test_deleted_pods_are_not_reported(client: Client) -> None:
    walkthrough.delete(client, EKS_A100)
    assert told(client, set()) == {}


def test_the_container_that_reads_the_kubelets_socket_has_no_token(client: Client) -> None:
    agent = agents_pod(client)
    mounts = {
        c["name"]: {m["mountPath"] for m in c["volumeMounts"]} for c in agent["spec"]["containers"]
    }
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert token in mounts["node-agent"]
    assert token not in mounts["attribution"]


def test_the_agent_ended_by_itself_if_at_all(client: Client) -> None:
    """It starts before mig-manager partitions, and a container keeps its device nodes."""
    (status,) = (
        s for s in agents_pod(client)["status"]["containerStatuses"] if s["name"] == "node-agent"
    )
    assert status.get("lastState", {}).get("terminated", {"exitCode": 0})["exitCode"] == 0


def test_a_second_up_reports_no_changes(client: Client, engine: Engine) -> None:
    outcome = engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_a_refresh_finds_no_drift(client: Client, engine: Engine) -> None:
    outcome = engine.refresh("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def _node(client: Client, pool: str = "demo-gpu-workers") -> dict[str, Any]:
    (node,) = client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={pool}")["items"]
    return dict(node)


@pytest.fixture(scope="module")
def mig_manager(client: Client) -> tuple[str, int]:
    return _mig_manager(client)


def _mig_manager(client: Client) -> tuple[str, int]:
    """Its pod, and how often its container has restarted."""
    (pod,) = client.get(
        "/api/v1/namespaces/gpu-operator/pods", labelSelector="app=nvidia-mig-manager"
    )["items"]
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def _edit(engine: Engine, pattern: str, new: str) -> None:
    stack_file = engine.environment.stack_file("eks-a100")
    text, changed = re.subn(pattern, new, stack_file.read_text(), count=1)
    assert changed == 1
    stack_file.write_text(text)


def _partition(engine: Engine, config: str) -> None:
    _edit(engine, r"partition: \{.*?\}", config)


@dataclass(frozen=True, kw_only=True)
class Held:
    """An `up` that changes the layout of the one pool while pods that a disruption budget protects
    hold its node, and the replicas of the other.
    """

    up: Outcome
    labels: Mapping[str, str]
    """Of the node that pods hold, when the other pool's change was done."""
    cordoned: bool
    why: str
    """Message of its condition."""
    report: Mapping[str, Any]
    """Of the agent, which compares with the new layout."""
    mig_manager: tuple[str, int]
    restarted: frozenset[str]
    """Owners of the pods that were not at that moment as they were before: gone, or restarted."""


@pytest.fixture(scope="module")
def held(client: Client, engine: Engine, mig_manager: tuple[str, int]) -> Held:
    walkthrough.apply(client, EKS_A100)
    walkthrough.wait_until_landed(client, EKS_A100, 100)
    client.create(BUDGETS, BUDGET)
    # A budget protects no pod that has not begun to run.
    until(lambda: _running(client) == EKS_A100.fits, "all that are bound run")
    client.create("/api/v1/namespaces/default/pods", STAYS)
    path = "/api/v1/namespaces/default/pods/stays"
    until(lambda: client.get(path)["status"].get("phase") == "Running", "a pod shares the GPU")
    before = _lives(client)
    _partition(engine, "partition: { mode: operator, config: all-balanced }")
    _edit(engine, "gpu: 4", "gpu: 2")
    with ThreadPoolExecutor() as pool:
        up = pool.submit(engine.up)
        try:
            until(
                lambda: (
                    _verdict(client) == "ChangeHeldByPods"
                    and _report(client)["reason"] != "PartitionsMatch"
                    and _allocatable(client, "shared") == {"nvidia.com/gpu": "2"}
                    and _restarted(before, _lives(client)) >= SHARING_READERS
                ),
                "one pool's change is held, and the other's is done",
                timeout_s=300,
            )
            node, manager, report = _node(client), _mig_manager(client), _report(client)
            after = _lives(client)
        finally:
            walkthrough.delete(client, EKS_A100)
        outcome = up.result()
    client.delete(f"{BUDGETS}/none-may-go")
    client.delete(path, gracePeriodSeconds="0")
    return Held(
        up=outcome,
        labels=node["metadata"]["labels"],
        cordoned=node["spec"].get("unschedulable", False),
        why=_condition(node)["message"],
        report=report,
        mig_manager=manager,
        restarted=_restarted(before, after),
    )


SHARING_READERS = frozenset({"nvidia-device-plugin-daemonset", "gpu-feature-discovery"})


def _restarted(
    before: Mapping[str, tuple[str, int]], after: Mapping[str, tuple[str, int]]
) -> frozenset[str]:
    """Owners of the pods that are not as they were before."""
    return frozenset(owner for uid, (owner, n) in before.items() if after.get(uid) != (owner, n))


def _lives(client: Client) -> dict[str, tuple[str, int]]:
    """Uid of each pod -> its owner, and how often its containers have restarted."""
    return {
        pod["metadata"]["uid"]: (
            (pod["metadata"].get("ownerReferences") or [pod["metadata"]])[0]["name"],
            sum(c["restartCount"] for c in pod["status"].get("containerStatuses") or ()),
        )
        for pod in client.get("/api/v1/pods")["items"]
    }


def test_a_node_that_pods_hold_keeps_its_layout_and_mig_manager_knows_it(
    held: Held, mig_manager: tuple[str, int]
) -> None:
    """Its ConfigMap has every layout, so that it is not even restarted."""
    assert held.up.code == 0, held.up.output
    assert held.cordoned
    assert "The disruption budget none-may-go needs 100 healthy pods" in held.why
    assert held.labels["nvidia.com/mig.config"] == "all-1g.5gb"
    assert held.labels["nvidia.com/mig.config.state"] == "success"
    assert held.mig_manager == mig_manager
    assert "mig-layouts" not in held.up.output


def test_its_agent_reports_that_the_change_waits_and_advises_no_repair(held: Held) -> None:
    assert held.report["reason"] == "LayoutChangePending"
    assert "mig-manager" not in held.report["message"]


def test_sharing_change_restarts_only_the_readers_of_its_config(held: Held, client: Client) -> None:
    """Not mig-manager, toolkit, validator or exporter, and no pod that uses a GPU. The agents'
    pods are new where what they verify is.
    """
    assert _allocatable(client, "shared") == {"nvidia.com/gpu": "2"}
    agents = {"node-agent-shared", "node-agent-demo-gpu-workers"}
    assert SHARING_READERS <= held.restarted <= SHARING_READERS | agents


def _verdict(client: Client) -> str:
    return str(_condition(_node(client))["reason"])


def _report(client: Client) -> dict[str, Any]:
    name = _node(client)["metadata"]["name"]
    return dict(client.get(f"/apis/{api.API_VERSION}/{api.REPORT_PLURAL}/{name}")["report"])


def _condition(node: Mapping[str, Any]) -> dict[str, Any]:
    return next(c for c in node["status"]["conditions"] if c["type"] == NODE_CONDITION)


def _running(client: Client) -> int:
    pods = client.get("/api/v1/namespaces/default/pods", labelSelector="app=mig1-5")["items"]
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _allocatable(client: Client, pool: str = "demo-gpu-workers") -> dict[str, str]:
    found = _node(client, pool)["status"]["allocatable"]
    return {k: v for k, v in found.items() if k.startswith("nvidia.com/") and v != "0"}


BALANCED = {"nvidia.com/mig-1g.5gb": 16, "nvidia.com/mig-2g.10gb": 8, "nvidia.com/mig-3g.20gb": 8}


def test_changed_node_has_the_new_layout_and_is_in_service(client: Client) -> None:  # S1-37, -38
    assert _allocatable(client) == {name: str(count) for name, count in BALANCED.items()}
    node = _node(client)
    assert node["metadata"]["labels"]["nvidia.com/mig.config.state"] == "success"
    assert CHANGE_ANNOTATION not in node["metadata"]["annotations"]
    assert not node["spec"].get("unschedulable"), "back in service"


def test_bound_pods_of_each_size_equal_its_partitions(
    client: Client,
) -> None:
    """S1-39, -40"""
    asked = {name: _ask_for_twenty(client, name) for name in BALANCED}
    for resource, fits in BALANCED.items():
        landed = walkthrough.landed(partial(_pods_of, client, resource), 20, fits=fits)
        assert (landed.bound, landed.pending) == (fits, 20 - fits), resource
        assert f"Insufficient {resource}" in landed.why_pending
    for path in asked.values():
        client.delete(path, propagationPolicy="Background")
    until(lambda: not any(_pods_of(client, resource) for resource in BALANCED), "pods are gone")


def _ask_for_twenty(client: Client, resource: str) -> str:
    """A Deployment as the first one's, of another size; its API path."""
    app = _app(resource)
    spec = walkthrough.pod_spec(EKS_A100)
    (container,) = spec["containers"]
    container["resources"] = {"limits": {resource: "1"}}
    template = {"metadata": {"labels": {"app": app}}, "spec": spec}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    client.create(
        deployments,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": app, "namespace": "default"},
            "spec": {
                "replicas": 20,
                "selector": {"matchLabels": {"app": app}},
                "template": template,
            },
        },
    )
    return f"{deployments}/{app}"


def _pods_of(client: Client, resource: str) -> list[dict[str, Any]]:
    listed = client.get("/api/v1/namespaces/default/pods", labelSelector=f"app={_app(resource)}")
    return list(listed["items"])


def _app(resource: str) -> str:
    """`mig2-10` for nvidia.com/mig-2g.10gb."""
    compute, memory = re.findall(r"\d+", resource)
    return f"mig{compute}-{memory}"


def test_every_pod_of_the_operator_runs_or_has_completed(client: Client) -> None:
    """S1-02, -21."""
    parts = (
        "gpu-operator",
        "gpu-operator-node-feature-discovery-master",
        "gpu-operator-node-feature-discovery-worker",
        "gpu-feature-discovery",
        "nvidia-dcgm-exporter",
        "nvidia-device-plugin-daemonset",
        "nvidia-mig-manager",
        "nvidia-operator-validator",
    )

    def at_work() -> bool:
        pods = client.get("/api/v1/namespaces/gpu-operator/pods")["items"]
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods}
        return set(phases.values()) <= {"Running", "Succeeded"} and all(
            any(name.startswith(part) for name in phases) for part in parts
        )

    until(at_work, "every pod of the operator runs")


SMALL = {"nvidia.com/mig-1g.5gb": "56"}
WORKERS = f"/apis/{api.API_VERSION}/{api.POOL_PLURAL}/demo-gpu-workers"


def _slicewright(engine: Engine, *arguments: str) -> subprocess.CompletedProcess[str]:
    return slicewright(engine.environment, *arguments)


def _rollout(engine: Engine, verb: str) -> str:
    kubeconfig = next(iter(engine.environment.kubeconfigs().values()))
    done = _slicewright(
        engine, "rollout", verb, "demo-gpu-workers", "--kubeconfig", str(kubeconfig)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _is_undone(client: Client) -> bool:
    conditions = client.get(WORKERS)["status"]["conditions"]
    verified = next(c for c in conditions if c["type"] == api.VERIFIED)
    return bool(verified["reason"] == "RolloutUndone") and _in_service(client)


def _in_service(client: Client) -> bool:
    spec = _node(client)["spec"]
    held = any(taint["key"] == api.STARTUP_TAINT_KEY for taint in spec.get("taints", ()))
    return not held and not spec.get("unschedulable")


def test_a_change_that_has_ended_is_undone_without_the_stack_file(
    client: Client, engine: Engine
) -> None:
    """The agent proves what its Node tells, in place of its file, and reports that hash."""
    said = _rollout(engine, "undo")
    assert "change back to all-1g.5gb" in said
    assert "the stack file still declares all-balanced" in said
    until(lambda: _is_undone(client), "the node is in service as before", timeout_s=600)
    node = _node(client)
    assert _allocatable(client) == SMALL
    assert node["metadata"]["labels"]["nvidia.com/mig.config"] == "all-1g.5gb"
    told = node["metadata"]["annotations"][api.DESIRED_ANNOTATION]
    path = f"/apis/{api.API_VERSION}/{api.REPORT_PLURAL}/{node['metadata']['name']}"
    report = client.get(path)["report"]
    assert (report["verdict"], report["observedHash"]) == ("Match", digest(told))
    assert report["observedHash"] != client.get(WORKERS)["spec"]["layoutHash"]


@pytest.mark.long(
    "a change that has ended is undone: tests/rehearsal/scenario/whole_run/test_eks_fleet.py"
)
def test_one_in_the_middle_is_undone_too_though_mig_manager_is_at_work(
    client: Client, engine: Engine
) -> None:
    assert "changes to layout all-balanced" in _rollout(engine, "resume")
    until(
        lambda: _node(client)["metadata"]["labels"]["nvidia.com/mig.config"] == "all-balanced",
        "the change forward has reached mig-manager",
        timeout_s=600,
    )
    assert "change back to all-1g.5gb" in _rollout(engine, "undo")
    until(lambda: _is_undone(client), "the node is in service as before", timeout_s=600)
    assert _allocatable(client) == SMALL


def test_up_reports_an_undone_rollout_and_changes_nothing(client: Client, engine: Engine) -> None:
    up = engine.up()
    assert up.code != 0
    assert "RolloutUndone" in up.output
    assert "The stack file still declares all-balanced" in up.output
    assert _in_service(client)
    assert _allocatable(client) == SMALL


def test_up_with_the_old_layout_succeeds_and_changes_no_node(
    client: Client, engine: Engine
) -> None:
    before = _node(client)["metadata"]["labels"]["nvidia.com/mig.config"]
    _partition(engine, "partition: { mode: operator, config: all-1g.5gb }")
    up = engine.up()
    assert up.code == 0, up.output
    assert before == _node(client)["metadata"]["labels"]["nvidia.com/mig.config"]
    assert _in_service(client)
    until(
        lambda: api.DESIRED_ANNOTATION not in _node(client)["metadata"]["annotations"],
        "the agent goes by its file again",
    )


def _bring_up(engine: Engine, strategy: str, **pools: Mapping[str, Any]) -> None:
    """With another strategy, and other keys of pools by name. mig-manager leaves the kubelet
    running: a stopped one would start no other mig-manager before the reboot.
    """
    with edited_fleet(engine.environment.stack_file("eks-a100")) as fleet:
        fleet["gpu_operator"]["mig_strategy"] = strategy
        fleet["gpu_operator"]["mig_manager"]["stop_kubelet"] = False
        for pool in fleet["node_pools"]:
            pool |= pools.get(pool["name"].partition("-")[0], {})
    up = engine.up()
    assert up.code == 0, up.output


def _mig_state(client: Client) -> str | None:
    labels: dict[str, str] = _node(client)["metadata"]["labels"]
    return labels.get("nvidia.com/mig.config.state")


def _layout(client: Client) -> str:
    """Its name, once mig-manager has succeeded with it."""
    labels = _node(client)["metadata"]["labels"]
    assert labels["nvidia.com/mig.config.state"] == "success"
    return str(labels["nvidia.com/mig.config"])


def test_strategy_single_offers_the_56_partitions_as_gpus(
    client: Client, engine: Engine
) -> None:  # S1-24
    _bring_up(engine, "single")
    assert _allocatable(client) == {"nvidia.com/gpu": "56"}
    assert _allocatable(client, "shared") == {"nvidia.com/gpu": "2"}
    assert _layout(client) == "all-1g.5gb"
    path = inside.pod_of(client, EKS_A100, "single", wants="nvidia.com/gpu")
    (gpu,) = inside.seen_by(engine.environment, client, path)["gpus"]
    assert [device["name"].rpartition(" ")[2] for device in gpu["devices"]] == ["1g.5gb"]
    inside.delete(client, path)


@pytest.mark.long("a layout that has changed: tests/rehearsal/scenario/whole_run/test_eks_fleet.py")
def test_custom_layout_needs_no_restart_of_mig_manager(
    client: Client, engine: Engine
) -> None:  # S1-34
    before = _mig_manager(client)
    own = {"mode": "operator", "layout": {"3g.20gb": 1, "1g.5gb": 4}}
    _bring_up(engine, "mixed", demo={"partition": own})
    assert _allocatable(client) == {"nvidia.com/mig-3g.20gb": "8", "nvidia.com/mig-1g.5gb": "32"}
    assert _layout(client) == "3g.20gb-1_1g.5gb-4"
    assert _mig_manager(client) == before


@pytest.mark.long("a layout that has changed: tests/rehearsal/scenario/whole_run/test_eks_fleet.py")
def test_layouts_by_gpu_index_replace_one_another(client: Client, engine: Engine) -> None:
    """mig-manager's ConfigMap has such a layout only while the stack file does: `previous` keeps
    the one of before until every node has changed.
    """
    rest = {"index": [2, 3, 4, 5, 6, 7], "layout": {"1g.5gb": 7}}
    first = [{"index": [0, 1], "layout": {"7g.40gb": 1}}, rest]
    _bring_up(engine, "mixed", demo={"partition": {"mode": "operator", "gpus": first}})
    assert _allocatable(client) == {"nvidia.com/mig-7g.40gb": "2", "nvidia.com/mig-1g.5gb": "42"}
    names = {_layout(client)}
    then = [{"index": [0, 1], "layout": {"3g.20gb": 2}}, rest]
    both = {"mode": "operator", "gpus": then, "previous": [first]}
    _bring_up(engine, "mixed", demo={"partition": both})
    assert _allocatable(client) == {"nvidia.com/mig-3g.20gb": "4", "nvidia.com/mig-1g.5gb": "42"}
    names |= {_layout(client)}
    policy = client.get("/apis/nvidia.com/v1/clusterpolicies/cluster-policy")["spec"]
    name = policy["migManager"]["config"]["name"]
    known = client.get(f"/api/v1/namespaces/gpu-operator/configmaps/{name}")["data"]
    assert len(names) == 2
    assert names <= set(yaml.safe_load(known["config.yaml"])["mig-configs"])


def test_partition_none_makes_the_gpus_whole_again(client: Client, engine: Engine) -> None:
    """Though mig-manager is restarted between its label `rebooting` and the reboot, which the new
    one calls `failed`.
    """
    node = _node(client)["metadata"]["name"]
    faults.hold(client, node, Holds(reboot=True))
    with ThreadPoolExecutor() as pool:
        up = pool.submit(_bring_up, engine, "mixed", demo={"partition": "none"})
        try:
            until(lambda: _mig_state(client) == "rebooting", "mig-manager asks for the reboot")
            mig_managers = {"labelSelector": "app=nvidia-mig-manager"}
            client.delete("/api/v1/namespaces/gpu-operator/pods", **mig_managers)
            until(lambda: _mig_state(client) == "failed", "the new one calls that a failure")
            until(lambda: _verdict(client) == "RebootMayFollow", "the controller waits")
        finally:
            faults.hold(client, node, None)
        up.result()
    assert _allocatable(client) == {"nvidia.com/gpu": "8"}
    assert _node(client)["metadata"]["labels"]["nvidia.com/mig.config"] == "all-disabled"
    path = inside.pod_of(client, EKS_A100, "whole", wants="nvidia.com/gpu")  # S1-22
    (gpu,) = inside.seen_by(engine.environment, client, path)["gpus"]
    assert (gpu["mig"], gpu["devices"]) == ("disabled", [])
    inside.delete(client, path)


def test_mps_on_all_pools_offers_each_gpu_four_times(
    client: Client, engine: Engine
) -> None:  # S4-57
    """With whole GPUs; and strategy mixed excludes MPS."""
    mps = {"sharing": {"mode": "mps", "replicas": {"gpu": 4}}}
    _bring_up(engine, "single", demo=mps, shared=mps)
    assert _allocatable(client, "shared") == {"nvidia.com/gpu": "4"}
    assert _allocatable(client) == {"nvidia.com/gpu": "32"}
    told = {
        "nvidia.com/gpu.product": "NVIDIA-A10G-SHARED",
        "nvidia.com/gpu.sharing-strategy": "mps",
        "nvidia.com/mps.capable": "true",
    }
    until(
        lambda: told.items() <= _node(client, "shared")["metadata"]["labels"].items(),
        "it is labelled",
    )


def test_four_of_five_pods_on_the_a10g_run_as_clients_of_nvidias_daemon(
    client: Client,
) -> None:
    script = "echo $CUDA_MPS_PIPE_DIRECTORY has $(cd $CUDA_MPS_PIPE_DIRECTORY; ls -d control)"
    pods = "/api/v1/namespaces/default/pods"
    for number in range(5):
        container = {
            "name": "c",
            "image": "nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04",
            "command": ["sh", "-c", f"{script}; nvidia-smi -L; sleep infinity"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        metadata = {"name": f"part-{number}", "labels": {"app": "part"}}
        spec = {**STAYS["spec"], "containers": [container]}
        client.create(pods, {**STAYS, "metadata": metadata, "spec": spec})

    def running() -> list[str]:
        found = client.get(pods, labelSelector="app=part")["items"]
        return [p["metadata"]["name"] for p in found if p["status"].get("phase") == "Running"]

    run = until(lambda: found if len(found := running()) == 4 else None, "four run")
    for name in run:
        path = f"{pods}/{name}/log"
        said = until(lambda at=path: log if "UUID" in (log := client.text(at)) else "", name)
        first, *seen = said.splitlines()
        assert first == "/mps/nvidia.com/gpu/pipe has control"
        assert len(seen) == 1
    (left,) = {f"part-{number}" for number in range(5)} - set(run)
    assert "Insufficient nvidia.com/gpu" in inside.why_pending(client, f"{pods}/{left}")
    client.delete(pods, labelSelector="app=part")


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    """By `slicewright destroy`, although the cluster leaves a disk, a load balancer and its
    security group: nothing here does what the controllers of load balancers and disks would.
    """
    for path, body in _LEFT.items():
        client.create(path, body)
    environment = engine.environment
    done = _slicewright(
        engine,
        *("destroy", "-s", engine.stack, "--yes"),
        *("--disks", "delete", "--drain-wait", "0.2", "--json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert {"disk", "load balancer", "security group"} <= {one["kind"] for one in told["deleted"]}
    assert environment.inventory() == {}
    assert list(environment.root.glob("clusters/*")) == []


def test_listed_rights_equal_the_used_ones(engine: Engine) -> None:
    """`slicewright rights`; after `destroy`, so that the log has the whole life of the stack. The
    sweep has rights of its own.
    """
    fleet = plan.read_file(engine.environment.stack_file("eks-a100"))
    assert isinstance(fleet, plan.EksFleetPlan)
    calls = without_sweep(fleet, call_log.read(engine.environment.root))
    assert differences(fleet, calls) == []

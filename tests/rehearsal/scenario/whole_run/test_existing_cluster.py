"""existing-a100-t4: an A100 and a T4 of a cluster that exists, shared by NVIDIA's own device
plugin, and back.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from slicewright import cli
from slicewright.apis.names import API_VERSION, NODE_CONDITION, POOL_LABEL, REPORT_PLURAL
from slicewright.exit_codes import VERIFIED
from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario import existing_cluster, proof, walkthrough
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import PROJECT, Environment
from slicewright.rehearsal.scenario.existing_cluster.nodes import node_objects
from slicewright.rehearsal.scenario.walkthrough import WALKTHROUGHS
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run import inside
from tests.rehearsal.scenario.whole_run.from_git import slicewright
from tests.rehearsal.scenario.whole_run.waiting import is_held, until, until_serving_again

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "NVIDIA's plugin that shares a GPU: "
        "tests/rehearsal/cluster/gpu_operator/test_sharing.py and "
        "tests/rehearsal/scenario/existing_cluster/test_making.py"
    ),
]
EXISTING_A100_T4 = WALKTHROUGHS["existing-a100-t4"]
PODS = "/api/v1/namespaces/default/pods"
PRODUCT = "nvidia.com/gpu.product"
A100, T4 = "a100-40gb", "tesla-t4"
OLD_DRIVER, NEW_DRIVER = "580.95.05", "590.48.01"
CUDA = "nvcr.io/nvidia/cuda:12.8.1-base-ubuntu22.04"


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    """The cluster is there, with MIG off; the operator brings the driver, too."""
    environment = make_environment("existing-a100-t4")
    # Its owner has labelled one node for us, and selects the others by a label of their own.
    with edited_fleet(environment.stack_file("existing-a100-t4")) as fleet:
        assert fleet["startup_taint"] == "admission-policy"
        (pool,) = (pool for pool in fleet["node_pools"] if pool["name"] == T4)
        pool |= {"select": {"rack": "t4"}, "nodes": {"min": 1, "max": 2}}
        driver = {"enabled": True, "version": OLD_DRIVER}
        fleet["gpu_operator"] |= {"driver": driver, "toolkit": {"enabled": True}}
    existing_cluster.make(environment, fleet_of(environment))
    engine = Engine(environment, "existing-a100-t4", print)
    assert engine.init().code == 0
    return engine


def fleet_of(environment: Environment) -> ExistingFleetPlan:
    fleet = plan.read_file(environment.stack_file("existing-a100-t4"))
    assert isinstance(fleet, ExistingFleetPlan)
    return fleet


def doctor(engine: Engine) -> tuple[int, str]:
    """`slicewright doctor`, with the user's own kubeconfig."""
    asked = subprocess.run(
        [
            sys.executable,
            "-m",
            "slicewright.cli",
            "doctor",
            engine.environment.stack_file("existing-a100-t4"),
        ],
        env={**os.environ, "KUBECONFIG": str(engine.environment.user_kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.returncode, asked.stdout + asked.stderr


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    """By the user's own kubeconfig."""
    return Client.from_kubeconfig(engine.environment.user_kubeconfig)


def bring_up(engine: Engine, *, strategy: str, **a100: Any) -> None:
    """The stack with another strategy, and with `partition` and `sharing` of the A100's pool."""
    with edited_fleet(engine.environment.stack_file("existing-a100-t4")) as fleet:
        fleet["gpu_operator"]["mig_strategy"] = strategy
        (pool,) = (pool for pool in fleet["node_pools"] if pool["name"] == A100)
        for key in ("partition", "sharing"):
            pool.pop(key, None)
        pool.update(a100)
    up = engine.up()
    assert up.code == 0, up.output


def node_of(client: Client, pool: str) -> dict[str, Any]:
    (node,) = client.get("/api/v1/nodes", labelSelector=f"slicewright.io/pool={pool}")["items"]
    return dict(node)


def offered(client: Client, pool: str) -> Mapping[str, str]:
    found = node_of(client, pool)["status"]["allocatable"]
    return {k: v for k, v in found.items() if k.startswith("nvidia.com/") and v != "0"}


def labels(client: Client, pool: str) -> Mapping[str, str]:
    return dict(node_of(client, pool)["metadata"]["labels"])


def run_pods(
    client: Client, prefix: str, count: int, resource: str, *, amount: int = 1, **where: str
) -> None:
    """Pods that print what nvidia-smi finds, and stay. where: labels of their node."""
    for number in range(count):
        container = {
            "name": "c",
            "image": CUDA,
            "command": ["sh", "-c", "nvidia-smi -L && exec sleep infinity"],
            "resources": {"limits": {resource: str(amount)}},
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{prefix}-{number}", "labels": {"app": prefix}},
            "spec": {
                "containers": [container],
                "nodeSelector": where,
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            },
        }
        client.create(PODS, pod)


def pods_of(client: Client, app: str) -> list[dict[str, Any]]:
    return list(client.get(PODS, labelSelector=f"app={app}")["items"])


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def wait_for_ready(client: Client, app: str, count: int) -> list[dict[str, Any]]:
    """The pods that are Running and Ready, as soon as there are exactly so many."""
    deadline = time.monotonic() + 180
    while True:
        pods = pods_of(client, app)
        ready = [p for p in pods if p["status"].get("phase") == "Running" and is_ready(p)]
        if len(ready) == count:
            return ready
        assert time.monotonic() < deadline, [(p["metadata"]["name"], p["status"]) for p in pods]
        time.sleep(0.2)


def seen_by(client: Client, pod: Mapping[str, Any], *, what: str) -> list[str]:
    """UUIDs in the pod's log, which has the output of `nvidia-smi -L`. what: GPU or MIG."""
    deadline = time.monotonic() + 180
    # Without a probe, a pod is Ready before its program has printed anything.
    while not (log := client.text(f"{PODS}/{pod['metadata']['name']}/log")).endswith("\n"):
        assert time.monotonic() < deadline, log
        time.sleep(0.2)
    return re.findall(rf"UUID: ({what}-[-0-9a-f]+)", log)


def delete_pods(client: Client, app: str) -> None:
    client.delete(PODS, labelSelector=f"app={app}")
    deadline = time.monotonic() + 180
    while pods_of(client, app):
        assert time.monotonic() < deadline, app
        time.sleep(0.1)


def why_pending(client: Client, app: str) -> str:
    """The scheduler's message for the only pod that is not bound."""
    deadline = time.monotonic() + 180
    while True:
        why = [
            str(condition["message"])
            for pod in pods_of(client, app)
            for condition in pod["status"].get("conditions") or ()
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        ]
        if len(why) == 1:
            return why[0]
        assert time.monotonic() < deadline, why
        time.sleep(0.2)


def test_doctor_names_the_clouds_own_device_plugin_with_the_command_that_removes_it(
    client: Client, engine: Engine
) -> None:  # S4-10
    daemonsets = "/apis/apps/v1/namespaces/kube-system/daemonsets"
    name = "nvidia-device-plugin-daemonset"
    labels = {"app": name}
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.14.1"}
    client.create(
        daemonsets,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "nodeSelector": {"rack": "t4"}},
                },
            },
        },
    )
    deadline = time.monotonic() + 180
    while not client.get(f"{daemonsets}/{name}").get("status", {}).get("desiredNumberScheduled"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    code, said = doctor(engine)
    assert code == 1, said
    assert f"kubectl delete daemonset {name} -n kube-system" in said
    assert "1 would fail, 0 could not be checked" in said
    client.delete(f"{daemonsets}/{name}")
    code, said = doctor(engine)
    assert code == 0, said
    assert "nodes of pool" in said


def test_only_one_of_two_pods_runs_with_mig_off(client: Client, engine: Engine) -> None:  # S4-21
    bring_up(engine, strategy="mixed")
    assert offered(client, A100) == {"nvidia.com/gpu": "1"}
    assert offered(client, T4) == {"nvidia.com/gpu": "14"}
    run_pods(client, "whole", 2, "nvidia.com/gpu", **{POOL_LABEL: A100})
    (pod,) = wait_for_ready(client, "whole", 1)
    assert len(seen_by(client, pod, what="GPU")) == 1
    assert "1 Insufficient nvidia.com/gpu" in why_pending(client, "whole")
    delete_pods(client, "whole")


def test_seven_of_eight_pods_run_on_7_partitions_with_strategy_single(
    client: Client, engine: Engine
) -> None:  # S4-12, S4-22, S4-23
    bring_up(engine, strategy="single", partition={"mode": "operator", "config": "all-1g.5gb"})
    assert offered(client, A100) == {"nvidia.com/gpu": "7"}
    assert offered(client, T4) == {"nvidia.com/gpu": "14"}
    run_pods(client, "seventh", 8, "nvidia.com/gpu", **{POOL_LABEL: A100})
    seen = [seen_by(client, pod, what="MIG") for pod in wait_for_ready(client, "seventh", 7)]
    assert [len(one) for one in seen] == [1] * 7, seen
    assert len({uuid for one in seen for uuid in one}) == 7
    assert "1 Insufficient nvidia.com/gpu" in why_pending(client, "seventh")
    delete_pods(client, "seventh")


@pytest.fixture(scope="module")
def shared(client: Client, engine: Engine) -> Client:
    """The cluster with the stack file as it is in the repository."""
    own = yaml.safe_load((PROJECT / "stacks" / "Pulumi.existing-a100-t4.yaml").read_text())
    fleet = own["config"]["slicewright:fleet"]
    (pool,) = (pool for pool in fleet["node_pools"] if pool["name"] == A100)
    bring_up(
        engine,
        strategy=fleet["gpu_operator"]["mig_strategy"],
        partition=pool["partition"],
        sharing=pool["sharing"],
    )
    return client


def test_both_pools_are_proven_and_their_nodes_released(shared: Client) -> None:
    fleet = proof.read_released_fleet(shared)
    assert [node.pool for node in fleet] == [A100, T4]
    assert all(check.holds for check in proof.of_fleet("existing-a100-t4", fleet)), proof.of_fleet(
        "existing-a100-t4", fleet
    )


def test_the_a100_offers_8_3_and_4_while_the_t4_offers_14(shared: Client) -> None:  # S4-55, S4-62
    assert offered(shared, A100) == {
        "nvidia.com/mig-1g.5gb": "8",
        "nvidia.com/mig-2g.10gb": "3",
        "nvidia.com/mig-3g.20gb": "4",
    }
    assert offered(shared, T4) == {"nvidia.com/gpu": "14"}


def test_both_from_one_config_map_with_a_key_per_pool(shared: Client) -> None:  # S4-51, S4-58
    policy = shared.get("/apis/nvidia.com/v1/clusterpolicies/cluster-policy")["spec"]
    name = policy["devicePlugin"]["config"]["name"]
    config = shared.get(f"/api/v1/namespaces/gpu-operator/configmaps/{name}")
    assert set(config["data"]) == {A100, T4, "not.shared"}
    for pool in (A100, T4):
        assert labels(shared, pool)["nvidia.com/device-plugin.config"] == pool


def test_labels_have_the_shared_resource_and_its_replicas(shared: Client) -> None:  # S4-56, S4-61
    t4 = {
        "nvidia.com/gpu.product": "Tesla-T4-SHARED",
        "nvidia.com/gpu.replicas": "14",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    a100 = {"nvidia.com/mig.config": "all-balanced"}
    for profile, replicas in (("1g.5gb", "4"), ("2g.10gb", "3"), ("3g.20gb", "4")):
        product = f"NVIDIA-A100-SXM4-40GB-MIG-{profile}-SHARED"
        a100[f"nvidia.com/mig-{profile}.product"] = product
        a100[f"nvidia.com/mig-{profile}.replicas"] = replicas
    # By GPU feature discovery, for which `up` does not wait.
    for pool, wanted in ((T4, t4), (A100, a100)):
        deadline = time.monotonic() + 180
        while not wanted.items() <= (found := labels(shared, pool)).items():
            assert time.monotonic() < deadline, found
            time.sleep(0.2)


def test_agent_sees_both_devices_and_shared_replicas(shared: Client) -> None:
    """4 partitions and not 8 + 3 + 4: a replica is no device."""
    by_pool = {node.pool: node for node in proof.read_fleet(shared)}
    assert by_pool[A100].found() == Counter({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1})
    assert by_pool[T4].found() == Counter({"whole GPU": 1})
    desired = by_pool[A100].desired
    assert desired is not None
    assert {one.resource: one.replicas for one in desired.sharing} == {
        "nvidia.com/mig-1g.5gb": 4,
        "nvidia.com/mig-2g.10gb": 3,
        "nvidia.com/mig-3g.20gb": 4,
    }


def test_8_triton_servers_run_at_most_4_on_a_partition_and_see_no_other(
    shared: Client, engine: Engine
) -> None:  # S4-63
    walkthrough.apply(shared, EXISTING_A100_T4)
    landing = walkthrough.wait_until_landed(shared, EXISTING_A100_T4, 8)
    assert (landing.bound, landing.pending) == (8, 0)
    pods = wait_for_ready(shared, "tritonserver", 8)
    seen = [seen_by(shared, pod, what="MIG") for pod in pods]
    assert [len(one) for one in seen] == [1] * 8, seen
    assert sorted(Counter(uuid for one in seen for uuid in one).values()) == [4, 4]
    path = f"{PODS}/{pods[0]['metadata']['name']}"
    assert seen[0][0] in inside.kubectl_exec(engine.environment, path, "nvidia-smi", "-L")


def test_the_ninth_finds_no_place(shared: Client) -> None:
    walkthrough.scale(shared, EXISTING_A100_T4, 9)
    landing = walkthrough.wait_until_landed(shared, EXISTING_A100_T4, 9)
    assert (landing.bound, landing.pending) == (8, 1)
    assert "Insufficient nvidia.com/mig-1g.5gb" in landing.why_pending
    walkthrough.delete(shared, EXISTING_A100_T4)


def test_four_pods_run_on_the_labelled_t4(shared: Client) -> None:  # S4-56
    run_pods(shared, "t4", 4, "nvidia.com/gpu", **{PRODUCT: "Tesla-T4-SHARED"})
    pods = wait_for_ready(shared, "t4", 4)
    seen = {uuid for pod in pods for uuid in seen_by(shared, pod, what="GPU")}
    assert len(seen) == 1
    assert offered(shared, T4) == {"nvidia.com/gpu": "14"}
    delete_pods(shared, "t4")


def test_two_slices_of_a_partition_are_refused(shared: Client) -> None:
    """They would be no more compute: fail_requests_greater_than_one."""
    run_pods(shared, "two", 1, "nvidia.com/mig-2g.10gb", amount=2)
    deadline = time.monotonic() + 180
    while (pod := pods_of(shared, "two")[0])["status"]["phase"] != "Failed":
        assert time.monotonic() < deadline, pod["status"]
        time.sleep(0.2)
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1" in pod["status"]["message"]
    delete_pods(shared, "two")


def test_a_second_up_reports_no_changes(shared: Client, engine: Engine) -> None:
    outcome = engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def drivers(client: Client) -> dict[str, str]:
    """Pool -> the driver that the agent of its node reports."""
    reports = client.get(f"/apis/{API_VERSION}/{REPORT_PLURAL}")["items"]
    return {one["report"]["pool"]: one["report"].get("driver", "") for one in reports}


def test_another_driver_waits_for_a_disruption_budget_and_then_each_node_is_proven_with_it(
    shared: Client, engine: Engine
) -> None:
    assert drivers(shared) == {A100: OLD_DRIVER, T4: OLD_DRIVER}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "server"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "server"}}},
    }
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    shared.create(budgets, budget)
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    shared.create(deployments, _deployment("server", "nvidia.com/mig-2g.10gb"))
    (before,) = wait_for_ready(shared, "server", 1)
    with edited_fleet(engine.environment.stack_file("existing-a100-t4")) as fleet:
        fleet["gpu_operator"]["driver"]["version"] = NEW_DRIVER

    def held_by_the_budget() -> bool:
        conditions = {c["type"]: c for c in node_of(shared, A100)["status"]["conditions"]}
        said = conditions[NODE_CONDITION]
        return said["reason"] == "ChangeHeldByPods" and "disruption budget" in said["message"]

    with ThreadPoolExecutor(1) as beside:
        upgrade = beside.submit(engine.up)
        until(held_by_the_budget, "the pod's budget holds the upgrade")
        assert drivers(shared)[A100] == OLD_DRIVER
        (still,) = pods_of(shared, "server")
        assert still["metadata"]["uid"] == before["metadata"]["uid"]
        shared.delete(f"{budgets}/server")
        outcome = upgrade.result()
    assert outcome.code == 0, outcome.output
    assert drivers(shared) == {A100: NEW_DRIVER, T4: NEW_DRIVER}
    (after,) = wait_for_ready(shared, "server", 1)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    for pool in (A100, T4):
        assert "unschedulable" not in node_of(shared, pool)["spec"]
    test_the_a100_offers_8_3_and_4_while_the_t4_offers_14(shared)
    again = engine.up("--expect-no-changes")
    assert again.code == 0, again.output
    shared.delete(f"{deployments}/server")


def _deployment(name: str, resource: str) -> dict[str, Any]:
    """One pod that uses one of these, and can be recreated."""
    container = {
        "name": "c",
        "image": CUDA,
        "command": ["sleep", "infinity"],
        "resources": {"limits": {resource: "1"}},
    }
    pod = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
        },
    }


def test_a_node_that_loses_a_gpu_in_service_is_held_until_it_is_repaired(
    shared: Client, engine: Engine
) -> None:
    """By the commands that people type; nothing but the rehearsal could break this cluster."""
    before = node_of(shared, A100)
    name, root = before["metadata"]["name"], engine.environment.root
    where = ("--stack", root.name, "--directory", str(root.parent))

    def held() -> bool:
        node = node_of(shared, A100)
        conditions = {c["type"]: c for c in node["status"]["conditions"]}
        return is_held(node) and conditions[NODE_CONDITION]["reason"] == "GpuLost"

    broken = cli.main(["rehearse", "break", "--fault", "lost-gpu", "--node", name, *where])
    assert broken == VERIFIED
    until(held, f"{name} is held")
    assert cli.main(["rehearse", "repair", *where]) == VERIFIED
    until_serving_again(shared, name, before["status"]["nodeInfo"]["bootID"])


def test_a_node_that_joins_later_is_held_by_the_api_server_until_it_is_verified(
    shared: Client, engine: Engine
) -> None:
    fleet = fleet_of(engine.environment)
    (pool,) = (pool for pool in fleet.pools if pool.name == T4)
    grown = dataclasses.replace(pool, nodes=dataclasses.replace(pool.nodes, min=2))
    *_, node = node_objects(dataclasses.replace(fleet, pools=(grown,)))
    made = shared.create("/api/v1/nodes", node)
    path = f"/api/v1/nodes/{made['metadata']['name']}"
    # Beside node.kubernetes.io/not-ready, which the API server gives every new node.
    assert is_held(made)
    assert POOL_LABEL not in made["metadata"]["labels"]
    deadline = time.monotonic() + 300
    while is_held(now := shared.get(path)):
        assert time.monotonic() < deadline, now
        time.sleep(0.2)
    assert now["status"]["allocatable"]["nvidia.com/gpu"] == "14"
    assert now["metadata"]["labels"][POOL_LABEL] == T4
    shared.delete(path)


def test_destroy_restores_the_cluster(client: Client, engine: Engine) -> None:
    """But for what NVIDIA's chart leaves, and the layout that stays on the A100; and not while
    somebody else has anything in a namespace that goes.
    """
    others = "/apis/apps/v1/namespaces/gpu-operator/deployments"
    container = {"name": "c", "image": "example.org/dashboard:1"}
    app = {"app": "dashboard"}
    theirs = {
        "metadata": {"name": "dashboard"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": {"containers": [container]}},
        },
    }
    client.create(others, theirs)
    refused = slicewright(engine.environment, "destroy", "-s", "existing-a100-t4", "--yes")
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "Deployment gpu-operator/dashboard does not belong to this stack" in refused.stderr
    assert refused.stderr.count("does not belong to this stack") == 1, refused.stderr
    client.delete(f"{others}/dashboard")
    destroyed = slicewright(
        engine.environment, "destroy", "-s", "existing-a100-t4", "--yes", "--json"
    )
    assert destroyed.returncode == 0, destroyed.stdout + destroyed.stderr
    left = existing_cluster.differences(engine.environment)
    assert left.others == (), "\n".join(left.others)
    layout = [line for line in left.of_operator if "nvidia.com/mig.config]" in line]
    assert layout == [
        "nodes/a100-40gb-1: metadata.labels[nvidia.com/mig.config] is new: 'all-balanced'"
    ]
    assert engine.environment.inventory() == {}

"""Reboots of an A100 and of an H100 node, a restart of the container toolkit, and a layout change
on a living node: whole GPUs are never bindable in between, and nobody has to help.

mig-manager is kept back after each reboot until what is left of the partitioning has been seen.

With the controller's earlier rule, which held a node for a change of its label alone,
`test_no_pod_ever_got_a_whole_gpu` fails after the reboot of the H100 node: its plugin advertises
eight whole GPUs before mig-manager has partitioned them again. Seen on 2026-11-22 with
fleet_controller/ as of commit 258d2a5.
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.names import (
    API_VERSION,
    NODE_CONDITION,
    POOL_LABEL,
    POOL_PLURAL,
    REPORT_PLURAL,
    STARTUP_TAINT_KEY,
    VERIFIED_BOOT_ANNOTATION,
)
from slicewright.kubeapi import Client
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.node import containerd
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "a node that comes back from a reboot: "
        "tests/rehearsal/cluster/kubelet/test_reboot_moments.py and "
        "tests/fleet_controller/api_server/test_api_server.py"
    ),
]

A100, H100 = "demo-gpu-workers", "h100"
PARTITIONS = {A100: ("nvidia.com/mig-1g.5gb", 56), H100: ("nvidia.com/mig-3g.40gb", 16)}
MIG_MODE_AFTER_REBOOT = {A100: "enabled", H100: "disabled"}
"""Hopper and later lose the mode at a reboot; instances are lost on every GPU. Source: NVIDIA MIG
user guide, "Enable MIG mode".
"""
LAYOUT, OTHER_LAYOUT = "{3g.40gb: 2}", "{1g.10gb: 7}"
H100_POOL = f"""\
      - name: {H100}
        machine_type: p5.48xlarge
        nodes: {{ count: 1 }}
        partition: {{ mode: operator, layout: {LAYOUT} }}
        ami_type: AL2023_x86_64_NVIDIA
        disk: {{ size_gb: 200 }}
"""
REPLICAS = 5
MIG_MANAGER = "nvidia-mig-manager"


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("reboot")
    edit(environment, "    gpu_operator:\n", f"{H100_POOL}    gpu_operator:\n")
    # Where both machine types are.
    stack_file = environment.stack_file("eks-a100")
    stack_file.write_text(stack_file.read_text().replace("eu-west-1", "us-west-2"))
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def eager(engine: Engine, ask_throughout: Callable[[Environment], Any]) -> Iterator[Any]:
    pods = ask_throughout(engine.environment)
    yield pods
    pods.end()


@pytest.fixture(scope="module")
def client(engine: Engine, eager: Any) -> Client:
    up = engine.up()
    assert up.code == 0, up.output
    client = Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))
    for pool, (resource, _) in PARTITIONS.items():
        client.create("/apis/apps/v1/namespaces/default/deployments", workload(pool, resource))
    for pool in PARTITIONS:
        wait_for_workload(client, pool)
    return client


def edit(environment: Environment, old: str, new: str) -> None:
    stack_file = environment.stack_file("eks-a100")
    text = stack_file.read_text()
    assert text.count(old) == 1
    stack_file.write_text(text.replace(old, new))


def workload(pool: str, resource: str) -> dict[str, Any]:
    container = {"name": "c", "image": "example.org/w:1", "resources": {"limits": {resource: "1"}}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    spec = {"nodeSelector": {POOL_LABEL: pool}, "containers": [container]}
    template = {"metadata": {"labels": {"app": pool}}, "spec": {**spec, "tolerations": tolerations}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": pool},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": pool}},
            "template": template,
        },
    }


def wait_for_workload(client: Client, pool: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/deployments/{pool}"
    until(
        lambda: (client.get(path).get("status") or {}).get("readyReplicas") == REPLICAS,
        f"{REPLICAS} pods of {pool} run",
    )


def node_of(client: Client, pool: str) -> dict[str, Any]:
    (node,) = client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={pool}")["items"]
    return dict(node)


def boot_id(node: dict[str, Any]) -> str:
    return str(node["status"]["nodeInfo"]["bootID"])


def is_open(node: dict[str, Any]) -> bool:
    """Whether new pods may come to it."""
    return all(taint["key"] != STARTUP_TAINT_KEY for taint in node["spec"].get("taints") or ())


def verified_again(client: Client, pool: str, boot: str) -> dict[str, Any] | None:
    """The pool's node, if it is verified in another boot than `boot`, and open."""
    node = node_of(client, pool)
    name = node["metadata"]["name"]
    report = report_of(client, name)
    conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
    proven = conditions.get(NODE_CONDITION) == conditions.get("Ready") == "True"
    of_this_boot = boot_id(node) == report["bootID"] != boot
    resource, count = PARTITIONS[pool]
    partitioned = node["status"]["allocatable"].get(resource) == str(count)
    return node if proven and of_this_boot and is_open(node) and partitioned else None


def agent_of(client: Client, node: str) -> dict[str, Any]:
    """The state of the agent's container on a node, with uid and address of its pod."""
    pods = client.get(
        "/api/v1/namespaces/slicewright-system/pods",
        labelSelector="app.kubernetes.io/name=node-agent",
        fieldSelector=f"spec.nodeName={node}",
    )["items"]
    (pod,) = [p for p in pods if "deletionTimestamp" not in p["metadata"]]
    (status,) = pod["status"]["containerStatuses"]
    return {**status, "uid": pod["metadata"]["uid"], "podIP": pod["status"]["podIP"]}


def report_of(client: Client, node: str) -> dict[str, Any]:
    return dict(client.get(path_of(API_VERSION, REPORT_PLURAL, node))["report"])


def files_of(engine: Engine, node: str) -> NodeFiles:
    found: list[Path] = list(engine.environment.root.glob(f"clusters/*/nodes/{node}"))
    (directory,) = found
    return NodeFiles(directory)


def probes_of(agent: dict[str, Any]) -> int:
    """How often the agent has probed the GPUs since it started."""
    with urllib.request.urlopen(f"http://{agent['podIP']}:9470/metrics", timeout=120) as answer:
        page = answer.read().decode()
    (count,) = re.findall(r"^slicewright_probe_duration_seconds_count (\d+)$", page, re.MULTILINE)
    return int(count)


def said_after(client: Client, node: str, boot: str, reason: str) -> dict[str, Any] | None:
    """The node's report, if it is of another boot than `boot` and has this reason."""
    report = report_of(client, node)
    return report if report["bootID"] != boot and report["reason"] == reason else None


@pytest.mark.parametrize(
    ("pool", "down_s", "reason"),
    [(A100, 6.0, "DeviceNodesOutdated"), (H100, 0.0, "NotPartitioned")],
)
def test_after_a_reboot_the_node_is_verified_and_its_workload_runs_again(
    client: Client, engine: Engine, pool: str, down_s: float, reason: str
) -> None:
    """The A100 node stays down long enough to be NotReady; the H100 node is back before that.

    reason: of the agent while mig-manager is kept back. The label of before the reboot still says
    that its work is done: with MIG mode on there may be partitions that this container does not
    see, with MIG mode off there are none.
    """
    before = node_of(client, pool)
    name = before["metadata"]["name"]
    agent = agent_of(client, name)
    faults.hold(client, name, Holds(pods=(MIG_MANAGER,)))
    faults.reboot(engine.environment, name, down_s=down_s)
    until(lambda: boot_id(node_of(client, pool)) != boot_id(before), f"{name} boots")
    report = until(lambda: said_after(client, name, boot_id(before), reason), f"{name} is {reason}")
    gpus = state.load(files_of(engine, name).silicon).gpus
    kept = MIG_MODE_AFTER_REBOOT[pool]
    assert [("enabled" if gpu.mig else "disabled", gpu.instances) for gpu in gpus] == [
        (kept, ())
    ] * 8
    assert [(gpu["mig"], gpu.get("instances")) for gpu in report["gpus"]] == [(kept, None)]
    if pool == H100:
        # Eight whole GPUs are there to be had, but for the taint.
        until(
            lambda: node_of(client, pool)["status"]["allocatable"].get("nvidia.com/gpu") == "8",
            f"{name} advertises whole GPUs",
        )
    assert not is_open(node_of(client, pool))
    faults.hold(client, name, None)
    node = until(lambda: verified_again(client, pool, boot_id(before)), f"{name} is verified")
    resource, count = PARTITIONS[pool]
    allocatable = {k: v for k, v in node["status"]["allocatable"].items() if "nvidia" in k}
    assert {k: v for k, v in allocatable.items() if v != "0"} == {resource: str(count)}
    assert node["metadata"]["uid"] == before["metadata"]["uid"]
    wait_for_workload(client, pool)
    # The reboot ended its container, and it ended itself to see the partitions. Once more for each
    # minute that mig-manager was kept back.
    until(lambda: agent_of(client, name)["restartCount"] >= agent["restartCount"] + 2, "it ended")
    again = agent_of(client, name)
    assert again["uid"] == agent["uid"]
    last = again["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (0, "Completed")


def test_pods_that_held_partitions_were_refused_and_replaced(client: Client) -> None:
    """As by a real kubelet: the device plugin has not registered when it admits them again."""
    pods = client.get("/api/v1/namespaces/default/pods", labelSelector=f"app={H100}")["items"]
    refused = [p for p in pods if p["status"].get("reason") == "UnexpectedAdmissionError"]
    # More where the scheduler bound one's successor before it knew that the node has none left.
    assert len(refused) >= REPLICAS
    assert all("no healthy devices present" in p["status"]["message"] for p in refused)


def test_the_pools_are_verified_and_the_boots_recorded(client: Client) -> None:
    none = dict.fromkeys(("failing", "unknown", "changing", "failed"), 0)
    all_verified = {"total": 1, "verified": 1, **none}

    def nodes(pool: str) -> Any:
        return client.get(path_of(API_VERSION, POOL_PLURAL, pool))["status"]["nodes"]

    for pool in PARTITIONS:
        until(lambda pool=pool: nodes(pool) == all_verified, f"{pool} is verified")  # type: ignore[misc]
        node = node_of(client, pool)
        assert node["metadata"]["annotations"][VERIFIED_BOOT_ANNOTATION] == boot_id(node)


def test_a_restart_of_the_toolkit_changes_nothing_for_a_verified_agent(
    client: Client, engine: Engine
) -> None:
    """The toolkit takes its configuration out of containerd, and puts it back. Containers that run
    keep their devices; the agents go on looking meanwhile, and end nothing.
    """
    nodes = {pool: node_of(client, pool)["metadata"]["name"] for pool in PARTITIONS}
    configured = {
        pool: files_of(engine, name).root / containerd.DROP_IN for pool, name in nodes.items()
    }
    agents = {pool: agent_of(client, name) for pool, name in nodes.items()}
    conditions = {pool: condition_of(client, pool) for pool in nodes}

    def look_again() -> None:
        for pool, agent in agents.items():
            probes = probes_of(agent)
            until(lambda a=agent, n=probes: probes_of(a) >= n + 2, f"the agent of {pool} looks")

    assert all(path.exists() for path in configured.values())
    for name in nodes.values():
        faults.hold(client, name, Holds(toolkit=True))
    until(lambda: not any(p.exists() for p in configured.values()), "the toolkit is away")
    look_again()
    for name in nodes.values():
        faults.hold(client, name, None)
    until(lambda: all(p.exists() for p in configured.values()), "the toolkit is back")
    look_again()
    for pool, name in nodes.items():
        agent = agent_of(client, name)
        for key in ("uid", "containerID", "restartCount"):
            assert agent[key] == agents[pool][key]
        assert report_of(client, name)["verdict"] == "Match"
        assert is_open(node_of(client, pool))
        # Equal to the second: it was never anything else in between.
        assert condition_of(client, pool) == conditions[pool]


def condition_of(client: Client, pool: str) -> tuple[str, str]:
    """Status of the node's verdict, and since when."""
    (found,) = [
        c for c in node_of(client, pool)["status"]["conditions"] if c["type"] == NODE_CONDITION
    ]
    return found["status"], found["lastTransitionTime"]


def test_a_layout_changes_on_a_living_node(client: Client, engine: Engine) -> None:
    path = f"/apis/apps/v1/namespaces/default/deployments/{H100}"
    client.patch(path, {"spec": {"replicas": 0}}, kind="merge")
    edit(engine.environment, LAYOUT, OTHER_LAYOUT)
    boot = boot_id(node_of(client, H100))
    up = engine.up()
    assert up.code == 0, up.output
    resource = "nvidia.com/mig-1g.10gb"
    node = until(
        lambda: (
            node
            if is_open(node := node_of(client, H100))
            and node["status"]["allocatable"].get(resource) == "56"
            else None
        ),
        "the node has its new partitions",
    )
    assert boot_id(node) == boot
    agent = agent_of(client, node["metadata"]["name"])
    if agent["restartCount"]:
        assert agent["lastState"]["terminated"]["reason"] == "Completed"


def test_no_pod_ever_got_a_whole_gpu(client: Client, eager: Any) -> None:
    eager.end()
    assert eager.watched >= eager.made > 100, "too few pods were made, or seen"
    assert eager.bound == []


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}

"""eks-a100 on eight nodes in service, with pods under a disruption budget, and everything that can
happen to it: what must hold is watched from outside at every moment.

First what can be foreseen, scene by scene; then faults drawn from a seed, for as long as
SLICEWRIGHT_SOAK_MINUTES says (30 by default). SLICEWRIGHT_SOAK_SEED repeats a run's choices.
NVIDIA's programs are simulated: what they do is shown by the other runs.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.fleet_faults import Drawn, Fleet, Layout
from tests.rehearsal.scenario.whole_run.fleet_watcher import (
    NODES,
    PODS,
    Watcher,
    documented_reasons,
)
from tests.rehearsal.scenario.whole_run.invariants import (
    STATE,
    TAINT,
    Invariants,
    read_node,
    summary,
)

pytestmark = [pytest.mark.rehearsal, pytest.mark.soak, pytest.mark.timeout(7200)]

MINUTES = float(os.environ.get("SLICEWRIGHT_SOAK_MINUTES", "30"))
SEED = int(os.environ.get("SLICEWRIGHT_SOAK_SEED", "0") or 0) or random.SystemRandom().randrange(
    10**6
)
GPU_POOL = "demo-gpu-workers"
LIMIT = 2
"""maxUnavailable."""
OLD, NEW = "all-1g.5gb", "all-balanced"
SLICE = "nvidia.com/mig-1g.5gb"
REPLICAS, MIN_AVAILABLE = 20, 14
"""Four slices each: 14 of them fit on a node cut in the old way, four in the new one, so that all
fit on six nodes.
"""
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/load"
PROTECTED = {"app": "load"}
_ROUND_S = 150.0
"""Seconds of faults; then everything is put right, and the pool must come to rest."""
_AT_REST_S = 1500.0


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment], simulated_programs: None) -> Engine:
    environment = make_environment("s1-faults")
    with edited_fleet(environment.stack_file("eks-a100")) as fleet:
        (pool,) = fleet["node_pools"]
        pool |= {
            "nodes": {"min": 8, "max": 9},
            "rollout": {"max_unavailable": LIMIT, "canary": 1},
        }
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def fleet(engine: Engine) -> Fleet:
    up = engine.up()
    assert up.code == 0, up.output
    (kubeconfig,) = engine.environment.kubeconfigs().values()
    client = Client.from_kubeconfig(kubeconfig)
    invariants = Invariants(
        pool=GPU_POOL,
        limit=LIMIT,
        min_available=MIN_AVAILABLE,
        protected=PROTECTED,
        documented=documented_reasons(),
    )
    made = Fleet(
        environment=engine.environment, client=client, pool=GPU_POOL, invariants=invariants
    )
    client.create(DEPLOYMENT.rpartition("/")[0], load())
    budget = {
        "metadata": {"name": "load"},
        "spec": {"minAvailable": MIN_AVAILABLE, "selector": {"matchLabels": PROTECTED}},
    }
    client.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    until(lambda: ready(made) == REPLICAS, "the load runs")
    return made


@pytest.fixture(scope="module")
def watcher(fleet: Fleet) -> Iterator[Watcher]:
    made = Watcher(fleet.client, fleet.invariants)
    yield made
    made.end()


def load() -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "example.org/load:1",
        "resources": {"limits": {SLICE: "4"}},
    }
    labels = {"matchLabels": PROTECTED}
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": labels,
            }
        ],
    }
    return {
        "metadata": {"name": "load"},
        "spec": {
            "replicas": REPLICAS,
            "selector": labels,
            "template": {"metadata": {"labels": PROTECTED}, "spec": spec},
        },
    }


def ready(fleet: Fleet) -> int:
    found: int = (fleet.client.get(DEPLOYMENT).get("status") or {}).get("readyReplicas", 0)
    return found


def until(holds: Callable[[], Any], what: str, timeout_s: float = 600) -> Any:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if found := holds():
                return found
        except (ApiError, Unreachable):
            pass  # it is restarted, or the object is gone: asked again
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.2)


def changes(fleet: Fleet, *phases: str) -> list[str]:
    """Nodes in these phases of a change; in any, where none is named."""
    found = [read_node(raw, 0.0) for raw in fleet.nodes()]
    return [node.name for node in found if (node.phase in phases if phases else node.phase)]


def at_rest(fleet: Fleet) -> bool:
    """Everything is as wanted: every node is there, verified, open, and nothing is under way."""
    fleet.kubelets_report()
    nodes = [read_node(raw, 0.0) for raw in fleet.nodes()]
    wanted = fleet.status()["spec"]["migConfig"]
    return (
        fleet.condition("Verified")[0] == "True"
        and len(nodes) >= 8
        and all(not node.out and not node.unproven for node in nodes)
        and all(node.layout == wanted for node in nodes)
        and ready(fleet) == REPLICAS
    )


def comes_to_rest(fleet: Fleet, watcher: Watcher, history: str) -> float:
    """Seconds until it was at rest; then what was seen is judged."""
    began = time.monotonic()
    try:
        until(lambda: at_rest(fleet), "the pool comes to rest", _AT_REST_S)
    except AssertionError as e:
        raise AssertionError(f"{e}\n{told(fleet)}\n{history}") from None
    violations = watcher.judged()
    assert violations == [], "\n".join([*violations, history])
    return time.monotonic() - began


def told(fleet: Fleet) -> str:
    """Where it stands, for people."""
    pool = fleet.status().get("status") or {}
    conditions = [f"{c['type']} {c['status']} {c['reason']}" for c in pool["conditions"]]
    nodes = [read_node(raw, 0.0) for raw in fleet.nodes()]
    failing = [f"{n['name']} {n['reason']}: {n['message']}" for n in pool.get("failingNodes") or ()]
    return "\n".join([*conditions, *map(str, nodes), *failing, f"{ready(fleet)} pods ready"])


@pytest.fixture(scope="module")
def layouts(fleet: Fleet, watcher: Watcher, engine: Engine) -> tuple[Layout, Layout]:
    """Of before and after the change of the first test."""
    before = fleet.layout()
    stack_file = engine.environment.stack_file("eks-a100")
    text = stack_file.read_text()
    assert text.count(OLD) == 1
    stack_file.write_text(text.replace(OLD, NEW))
    up = engine.up()
    assert up.code == 0, up.output
    return before, fleet.layout()


def test_eight_nodes_change_their_layout_under_pods_with_a_budget(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    comes_to_rest(fleet, watcher, "")
    assert [layout.pool["migConfig"] for layout in layouts] == [OLD, NEW]
    seen = fleet.invariants
    assert sorted({name for _, name in seen.begun}) == [
        n["metadata"]["name"] for n in fleet.nodes()
    ]
    assert len(seen.begun) == 8, "each node is changed once"
    assert 1 <= seen.most_changing <= LIMIT
    assert seen.evictions > 0


def test_a_canary_that_fails_is_the_only_node_that_changes(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    """A process of nobody's pod keeps a partition on every node, so that whichever is the first
    cannot be cut.
    """
    for node in fleet.nodes():
        assert fleet.use(node["metadata"]["name"])
    before = len(fleet.invariants.begun)
    fleet.want(layouts[0])
    until(lambda: fleet.condition("Progressing") == ("False", "RolloutStopped"), "it stops")
    (failed,) = changes(fleet)
    (node,) = (n for n in fleet.nodes() if n["metadata"]["name"] == failed)
    assert node["metadata"]["labels"][STATE] == "failed"
    assert node["spec"]["unschedulable"]
    assert fleet.condition("Degraded") == ("True", "NodesFailing")
    told_of = fleet.status()["status"]["failingNodes"]
    assert [(one["name"], one["reason"]) for one in told_of[:1]] == [(failed, "ChangeFailed")]
    # Whoever takes over stops at it, too: the other one, or the same pod's next run.
    holder = fleet.holder()
    assert fleet.kill(fleet.leader())
    until(lambda: fleet.holder() not in ("", holder), "another one acts")
    until(lambda: ready(fleet) == REPLICAS, "its pods run elsewhere")
    assert changes(fleet) == [failed]
    assert len(fleet.invariants.begun) == before + 1


def test_when_the_cause_has_gone_the_controller_mends_the_node_and_goes_on_by_itself(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    """mig-manager has given up, and tries again only when it is restarted."""
    (stuck,) = changes(fleet, "Failed")
    before = fleet.mig_managers(stuck)
    fleet.stray_programs_end()
    until(lambda: not set(before) & set(fleet.mig_managers(stuck)), "it is restarted", 1500)
    comes_to_rest(fleet, watcher, f"{stuck} was stuck")
    assert labels_of(fleet) == {OLD}
    fleet.broken.clear()


def test_a_change_goes_on_whatever_happens_to_nodes_and_controllers(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    """A Node is deleted in the middle of its drain, a machine is taken in the middle of its change,
    another one reboots; and a controller is killed every few seconds.
    """
    fleet.want(layouts[1])
    history = []

    def draining() -> str:
        """A node that still has pods of the load."""
        for name in changes(fleet, "Draining"):
            of_load = {"labelSelector": "app=load", "fieldSelector": f"spec.nodeName={name}"}
            if fleet.client.get(PODS, **of_load)["items"]:
                return name
        return ""

    def kill_the_leader() -> None:
        leader = until(fleet.leader, "somebody acts")
        fleet.kill(leader)
        history.append(f"{watcher.now:7.1f} s  {leader} is killed")

    deleted = until(draining, "a node is drained")
    fleet.client.delete(f"{NODES}/{deleted}")
    history.append(f"{watcher.now:7.1f} s  Node {deleted} is deleted in mid-drain")
    kill_the_leader()
    taken = until(lambda: changes(fleet, "Draining", "Applying"), "a node changes")[0]
    before = uids(fleet)
    assert fleet.preempt(taken)
    history.append(f"{watcher.now:7.1f} s  the machine of {taken} is taken")
    # Another one may have its name.
    until(lambda: before[taken] not in uids(fleet).values(), "it is gone")
    kill_the_leader()
    rebooted = until(lambda: changes(fleet, "Applying"), "a node is cut")[0]
    faults.reboot(fleet.environment, rebooted, down_s=6.0)
    history.append(f"{watcher.now:7.1f} s  {rebooted} reboots in its change")
    for _ in range(3):
        time.sleep(4)  # every few seconds: the fault itself
        kill_the_leader()
    # Its machine runs, and registers no more: it is ended in the cloud.
    assert fleet.preempt(deleted)
    comes_to_rest(fleet, watcher, "\n".join(history))
    assert labels_of(fleet) == {NEW}


def test_the_api_server_is_restarted_in_the_middle_of_a_change(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    """Ended in order, and killed; its data stay, in etcd."""
    before = len(fleet.invariants.begun)
    fleet.want(layouts[0])
    until(lambda: changes(fleet, "Applying"), "a node is cut")
    fleet.restart_api_server(signal.SIGTERM)
    until(lambda: len(fleet.invariants.begun) > before + 1, "another node begins")
    until(lambda: changes(fleet, "Draining", "Applying"), "it changes")
    fleet.restart_api_server(signal.SIGKILL)
    comes_to_rest(fleet, watcher, "the API server was restarted twice")
    begun = {name for _, name in fleet.invariants.begun[before:]}
    assert len(begun) == 8, "each node has changed"


def test_a_change_is_undone_under_pods_with_a_budget(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    """Nodes that have changed, or are about to, go back; no other one changes."""
    before, evicted = len(fleet.invariants.begun), fleet.invariants.evictions
    fleet.want(layouts[1])
    until(lambda: NEW in labels_of(fleet), "a node has the new layout")
    fleet.ask(f"undo:{NEW}")
    until(lambda: is_undone(fleet), "every node is in service with the old layout", _AT_REST_S)
    assert watcher.judged() == []
    begun = {name for _, name in fleet.invariants.begun[before:]}
    assert 1 <= len(begun) < 8
    assert fleet.invariants.evictions > evicted
    # With the old layout in the stack file again the pool is as declared, and nothing changes.
    begun_so_far = len(fleet.invariants.begun)
    fleet.want(layouts[0])
    comes_to_rest(fleet, watcher, "the change was undone")
    assert len(fleet.invariants.begun) == begun_so_far
    fleet.ask(None)


def labels_of(fleet: Fleet) -> set[str]:
    return {node["metadata"]["labels"]["nvidia.com/mig.config"] for node in fleet.nodes()}


def is_undone(fleet: Fleet) -> bool:
    fleet.kubelets_report()
    nodes = [read_node(raw, 0.0) for raw in fleet.nodes()]
    return (
        fleet.condition("Verified") == ("False", "RolloutUndone")
        and all(not node.out and not node.unproven for node in nodes)
        and labels_of(fleet) == {OLD}
        and ready(fleet) == REPLICAS
    )


def test_pod_gets_a_whole_gpu_only_without_the_taint(fleet: Fleet, watcher: Watcher) -> None:
    """NVIDIA/gpu-operator #2670: the device plugin advertises whole GPUs before mig-manager has
    partitioned them. While the pool's rollout is paused, nothing else keeps the pod away.
    """
    fleet.ask("paused")
    (like, *_) = fleet.nodes()
    notes = like["metadata"]["annotations"]
    kept = ("kwok.x-k8s.io/node", "rehearsal.slicewright.io/machine")
    labels = {k: v for k, v in like["metadata"]["labels"].items() if not k.startswith("nvidia.com")}
    name = "ip-10-9-9-9.eu-west-1.compute.internal"
    taints = [t for t in like["spec"]["taints"] if t["key"] != TAINT]
    status = {
        "capacity": {"cpu": "8", "memory": "64Gi", "pods": "110"},
        "nodeInfo": like["status"]["nodeInfo"] | {"bootID": "made-by-hand"},
    }
    fleet.invariants.open_on_purpose.add(name)
    fleet.client.create(
        NODES,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": labels | {"kubernetes.io/hostname": name},
                "annotations": {key: notes[key] for key in kept},
            },
            "spec": {"taints": taints, "providerID": "aws:///eu-west-1a/i-0made0by0hand"},
            "status": status | {"allocatable": status["capacity"]},
        },
    )
    whole = f"{PODS}/whole"
    spec = {
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "c",
                "image": "example.org/w:1",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    }
    fleet.client.create(PODS, {"metadata": {"name": "whole"}, "spec": spec})
    until(lambda: fleet.client.get(whole)["spec"].get("nodeName") == name, "it has a whole GPU")
    # And a machine with the taint takes none: it is cut, and only then open.
    fleet.client.delete(whole)
    until(
        lambda: fleet.client.get(PODS, fieldSelector="metadata.name=whole")["items"] == [], "gone"
    )
    fleet.client.delete(f"{NODES}/{name}")
    fleet.client.create(PODS, {"metadata": {"name": "whole"}, "spec": spec})
    taken, *_ = before = uids(fleet)
    assert fleet.preempt(taken)
    new = until(
        lambda: [n for n, uid in uids(fleet).items() if uid not in before.values()], "a new node"
    )[0]
    until(lambda: is_open(fleet, new), "it is proven")
    assert "nodeName" not in fleet.client.get(whole)["spec"]
    fleet.client.delete(whole)
    fleet.ask(None)
    comes_to_rest(fleet, watcher, "")


def uids(fleet: Fleet) -> dict[str, str]:
    return {n["metadata"]["name"]: n["metadata"]["uid"] for n in fleet.nodes()}


def is_open(fleet: Fleet, name: str) -> bool:
    found = read_node(fleet.client.get(f"{NODES}/{name}"), 0.0)
    return not found.out and not found.unproven


def test_whatever_a_seed_draws(
    fleet: Fleet, watcher: Watcher, layouts: tuple[Layout, Layout]
) -> None:
    drawn = Drawn(fleet=fleet, layouts=layouts, seed=SEED, now=lambda: watcher.now)
    drawn.tell(f"seed {SEED}: SLICEWRIGHT_SOAK_SEED={SEED} SLICEWRIGHT_SOAK_MINUTES={MINUTES:g}")
    end = time.monotonic() + 60 * MINUTES
    while time.monotonic() < end:
        over = min(end, time.monotonic() + _ROUND_S)
        while time.monotonic() < over:
            drawn.one()
            time.sleep(drawn.pause_s())
        until(drawn.put_right, "everything is put right")
        drawn.tell("everything is put right")
        took_s = comes_to_rest(fleet, watcher, "\n".join(drawn.log))
        drawn.tell(f"at rest {took_s:.0f} s later; {'; '.join(summary(fleet.invariants))}")
    assert fleet.invariants.begun
    assert fleet.invariants.evictions
    print("\n".join(summary(fleet.invariants)))


def test_destroy_leaves_nothing(fleet: Fleet, watcher: Watcher, engine: Engine) -> None:
    watcher.end()
    fleet.client.delete(DEPLOYMENT, propagationPolicy="Background")
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}

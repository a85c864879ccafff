"""eks-a100 on eight nodes, where one writes whatever the tokens of its kubelet and its agent allow:
the other seven are verified, changed and released as if it were not there.

For as long as SLICEWRIGHT_SOAK_MINUTES says (10 by default); SLICEWRIGHT_SOAK_SEED repeats a run's
choices. NVIDIA's programs are simulated.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from slicewright.kubeapi import Client
from slicewright.kubeapi.client import credentials_of
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.fleet_controller.conftest import ApiServer
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.fleet_faults import Fleet, Layout
from tests.rehearsal.scenario.whole_run.fleet_watcher import documented_reasons
from tests.rehearsal.scenario.whole_run.hostile_node import Attacker
from tests.rehearsal.scenario.whole_run.invariants import Invariants, Node, read_node
from tests.rehearsal.scenario.whole_run.test_faulted_fleet import NEW, OLD, until

pytestmark = [pytest.mark.rehearsal, pytest.mark.soak, pytest.mark.timeout(3600)]

MINUTES = float(os.environ.get("SLICEWRIGHT_SOAK_MINUTES", "10"))
SEED = int(os.environ.get("SLICEWRIGHT_SOAK_SEED", "0") or 0) or random.SystemRandom().randrange(
    10**6
)
GPU_POOL = "demo-gpu-workers"
_CHANGE_S = 900.0
"""For seven nodes to change, one at a time."""
_SYSTEM_PODS = "/api/v1/namespaces/slicewright-system/pods"


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment], simulated_programs: None) -> Engine:
    environment = make_environment("s1-hostile")
    with edited_fleet(environment.stack_file("eks-a100")) as fleet:
        (pool,) = fleet["node_pools"]
        pool |= {
            "nodes": {"min": 8, "max": 8},
            # The hostile node may fail its change: it is one of two that may, and no canary.
            "rollout": {"max_unavailable": 2, "canary": 0, "max_failures": 2},
        }
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def fleet(engine: Engine) -> Fleet:
    up = engine.up()
    assert up.code == 0, up.output
    (kubeconfig,) = engine.environment.kubeconfigs().values()
    invariants = Invariants(
        pool=GPU_POOL,
        limit=2,
        min_available=0,
        protected={},
        documented=documented_reasons(),
    )
    client = Client.from_kubeconfig(kubeconfig)
    return Fleet(
        environment=engine.environment, client=client, pool=GPU_POOL, invariants=invariants
    )


@pytest.fixture(scope="module")
def layouts(fleet: Fleet, engine: Engine) -> tuple[Layout, Layout]:
    """Before the attack the whole fleet changes once, so that both layouts are known."""
    before = fleet.layout()
    stack_file = engine.environment.stack_file("eks-a100")
    stack_file.write_text(stack_file.read_text().replace(OLD, NEW))
    up = engine.up()
    assert up.code == 0, up.output
    return before, fleet.layout()


@pytest.fixture(scope="module")
def attacker(fleet: Fleet, layouts: tuple[Layout, Layout], engine: Engine) -> Iterator[Attacker]:
    names = [node["metadata"]["name"] for node in fleet.nodes()]
    chosen = random.Random(SEED).choice(names)
    server = _api_server(fleet, engine)

    def agent() -> Client | None:
        pods = fleet.client.get(
            _SYSTEM_PODS,
            labelSelector="app.kubernetes.io/name=node-agent",
            fieldSelector=f"spec.nodeName={chosen}",
        )["items"]
        for pod in pods:
            account, name = pod["spec"]["serviceAccountName"], pod["metadata"]["name"]
            return server.client(server.token(account, pod=name))
        return None

    made = Attacker(
        node=chosen,
        pool=GPU_POOL,
        others=tuple(name for name in names if name != chosen),
        kubelet=server.user(
            f"system:node:{chosen}", "system:nodes", signer="kube-apiserver-client-kubelet"
        ),
        agent=agent,
        seed=SEED,
    )
    print(f"seed {SEED}: {chosen} is hostile for {MINUTES:g} minutes")
    made.start()
    yield made
    made.stop()
    print("\n".join(f"{count:6} {outcome}" for outcome, count in sorted(made.outcomes.items())))


def _api_server(fleet: Fleet, engine: Engine) -> ApiServer:
    (kubeconfig,) = engine.environment.kubeconfigs().values()
    credentials = credentials_of(yaml.safe_load(Path(kubeconfig).read_text()))
    endpoint = control_plane.Endpoint(
        server=credentials.server, ca_pem=credentials.ca_data or b"", kubeconfig=Path(kubeconfig)
    )
    return ApiServer(admin=fleet.client, endpoint=endpoint)


def _others(fleet: Fleet, attacker: Attacker) -> list[Node]:
    nodes = [read_node(raw, 0.0) for raw in fleet.nodes()]
    return [node for node in nodes if node.name != attacker.node]


def _in_service(fleet: Fleet, attacker: Attacker, layout: str) -> bool:
    others = _others(fleet, attacker)
    return len(others) == 7 and all(
        not node.out and not node.unproven and node.layout == layout for node in others
    )


def test_the_other_seven_change_and_come_back_from_reboots(
    fleet: Fleet, layouts: tuple[Layout, Layout], attacker: Attacker
) -> None:
    end = time.monotonic() + 60 * MINUTES
    rounds, wanted = 0, layouts
    while rounds < 2 or time.monotonic() < end:
        layout = wanted[rounds % 2]
        fleet.want(layout)
        name = str(layout.pool["migConfig"])
        until(
            lambda name=name: _in_service(fleet, attacker, name),  # type: ignore[misc]
            f"seven nodes are in service with {name}",
            _CHANGE_S,
        )
        rebooted = attacker.others[rounds % len(attacker.others)]
        faults.reboot(fleet.environment, rebooted, down_s=2.0)
        time.sleep(3)  # until the reboot is seen
        until(
            lambda name=name: _in_service(fleet, attacker, name),  # type: ignore[misc]
            f"{rebooted} is in service again",
            _CHANGE_S,
        )
        rounds += 1
    accepted = sum(n for what, n in attacker.outcomes.items() if what.endswith("accepted"))
    refused = sum(n for what, n in attacker.outcomes.items() if "refused" in what)
    assert accepted > 10, attacker.outcomes
    assert refused > 10, attacker.outcomes


def test_no_replica_of_the_controller_was_restarted(fleet: Fleet, attacker: Attacker) -> None:
    attacker.stop()
    pods = fleet.client.get(_SYSTEM_PODS, labelSelector="app.kubernetes.io/name=fleet-controller")
    restarts = {
        pod["metadata"]["name"]: [one["restartCount"] for one in pod["status"]["containerStatuses"]]
        for pod in pods["items"]
    }
    assert len(restarts) == 2
    assert all(counts == [0] for counts in restarts.values()), restarts


def test_destroy_leaves_nothing(fleet: Fleet, attacker: Attacker, engine: Engine) -> None:
    attacker.stop()
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}

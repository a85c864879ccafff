"""fractional: S3's shares of GPUs on an existing cluster, with each engine, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slicewright.apis.shares.engines import ENGINES
from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.vgpu import hami, volcano
from slicewright.rehearsal.scenario import existing_cluster, failing_pods
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [pytest.mark.rehearsal, pytest.mark.soak, pytest.mark.timeout(3600)]
STACK = "fractional"
PODS = "/api/v1/namespaces/default/pods"
IMAGE = "docker.io/library/busybox:1"
DECODE = {"hami": hami.HAMI.decode, "volcano": volcano.decode}


@pytest.fixture(scope="module", params=["hami", "volcano"])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(provider: str, make_environment_with_volcano: Callable[[str], Environment]) -> Engine:
    """S3's stack on a cluster with two nodes of four T4."""
    environment = make_environment_with_volcano(f"{STACK}-{provider}")
    with edited_fleet(environment.stack_file(STACK)) as fleet:
        fleet["fractional"]["provider"] = provider
    existing_cluster.make(environment, fleet_of(environment))
    made = Engine(environment, STACK, print)
    assert made.init().code == 0
    return made


def fleet_of(environment: Environment) -> ExistingFleetPlan:
    fleet = plan.read_file(environment.stack_file(STACK))
    assert isinstance(fleet, ExistingFleetPlan)
    return fleet


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    up = engine.up()
    assert up.code == 0, up.output
    return Client.from_kubeconfig(engine.environment.user_kubeconfig)


def pod(name: str, engine: Engine, provider: str) -> dict[str, Any]:
    """A pod of app-a, as the plan says that its owner writes it."""
    (workload,) = fleet_of(engine.environment).workloads
    limits = {resource: str(count) for resource, count in workload.requests.items()}
    return {
        "metadata": {"name": name, "annotations": dict(workload.annotations)},
        "spec": {
            "schedulerName": ENGINES[provider].scheduler,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": IMAGE, "resources": {"limits": limits}}],
        },
    }


def shares(client: Client, name: str, provider: str) -> list[tuple[str, int]]:
    """(card, percent) of each share."""
    found = client.get(f"{PODS}/{name}")["metadata"].get("annotations") or {}
    containers = DECODE[provider](found.get(ENGINES[provider].allocation, ""))
    return [(share.uuid, share.compute_percent) for shares in containers for share in shares]


def runs(client: Client, name: str) -> Callable[[], bool]:
    return lambda: bool(client.get(f"{PODS}/{name}")["status"].get("phase") == "Running")


def test_18_gib_and_240_percent_lie_on_three_cards(
    client: Client, engine: Engine, provider: str
) -> None:
    """S3-17 to S3-19"""
    client.create(PODS, pod("app-a", engine, provider))
    until(runs(client, "app-a"), "app-a runs")
    placed = shares(client, "app-a", provider)
    assert len({card for card, _ in placed}) == 3
    assert [percent for _, percent in placed] == [80] * 3


def test_one_pod_more_than_fits_waits(client: Client, engine: Engine, provider: str) -> None:
    """One pod needs 80 % of three of four cards of a node: there is room for two."""
    for name in ("app-b", "app-c"):
        client.create(PODS, pod(name, engine, provider))
    names = ("app-b", "app-c")
    until(lambda: sum(runs(client, name)() for name in names) == 1, "one of two pods runs")
    (waiting,) = (name for name in ("app-b", "app-c") if not runs(client, name)())

    def has_no_node() -> bool:
        conditions = client.get(f"{PODS}/{waiting}")["status"].get("conditions") or ()
        return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)

    # The scheduler has not looked at it yet, perhaps.
    until(has_no_node, "the other one waits for a node")
    client.delete(PODS, {"gracePeriodSeconds": 0})


def test_no_pod_is_left_failing(client: Client) -> None:
    assert failing_pods.wait_until_none(client) == ()


def test_a_second_up_reports_no_changes(client: Client, engine: Engine) -> None:
    outcome = engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_another_policy_changes_in_place(client: Client, engine: Engine) -> None:
    with edited_fleet(engine.environment.stack_file(STACK)) as fleet:
        fleet["fractional"]["gpu_policy"] = "binpack"
    outcome = engine.up()
    assert outcome.code == 0, outcome.output


def test_destroy_restores_the_cluster(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    left = existing_cluster.differences(engine.environment)
    assert left.others == (), "\n".join(left.others)
    assert engine.environment.inventory() == {}

"""A planned fleet on EKS: `optimise` writes its pools, `check` accepts them, `up` creates them, and
the scheduler binds every replica of the demand.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any

import pytest
import yaml

from slicewright.apis import names
from slicewright.cli import main
from slicewright.exit_codes import VERIFIED
from slicewright.infra.plan.partition.resource_names import resource_of
from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = pytest.mark.rehearsal
PODS = "/api/v1/namespaces/default/pods"
CLASSES = [
    {"name": "embed", "replicas": 4, "memory": "8Gi"},
    {"name": "chat", "replicas": 3, "memory": "38Gi"},
]
"""They fill two nodes with different layouts: a pod without a place has no other one."""


@pytest.fixture(scope="module")
def environment(
    make_environment: Callable[[str], Environment], simulated_programs: None
) -> Environment:
    environment = make_environment("s1-optimised")
    with edited_fleet(environment.stack_file("eks-a100")) as fleet:
        fleet["cluster"] |= {"region": "us-west-2", "zones": ["us-west-2a", "us-west-2b"]}
        fleet["demand"] = {"machine_types": ["p5.4xlarge"], "classes": CLASSES}
        fleet["verify_timeout_minutes"] = 6
        del fleet["node_pools"]
    return environment


@pytest.fixture(scope="module")
def answer(environment: Environment) -> Mapping[str, Any]:
    """The planner's answer as JSON. Its pools are in the stack file, as they were written."""
    file, pools = environment.stack_file("eks-a100"), environment.root / "pools.yaml"
    output = io.StringIO()
    with redirect_stdout(output):
        code = main(["optimise", str(file), "--json", "-o", str(pools)])
    assert code == VERIFIED, output.getvalue()
    with edited_fleet(file) as fleet:
        fleet |= yaml.safe_load(pools.read_text())
    parsed: Mapping[str, Any] = json.loads(output.getvalue())
    return parsed


@pytest.fixture(scope="module")
def engine(environment: Environment, answer: Mapping[str, Any]) -> Engine:
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    return engine


def pods_of(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a pod for each replica of the demand, with the device that the answer gives to it."""
    for demand in answer["classes"]:
        for device in demand["devices"]:
            for number in range(device["replicas"]):
                resources = {"limits": {resource_of(device["profile"]): "1"}}
                yield {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{demand['name']}-{number}",
                        "namespace": "default",
                        "labels": {"app": "demanded"},
                    },
                    "spec": {
                        "terminationGracePeriodSeconds": 0,
                        "tolerations": [
                            {"key": "nvidia.com/gpu", "operator": "Exists"},
                            {"key": "slicewright.io/no-whole-gpu", "operator": "Exists"},
                        ],
                        "containers": [
                            {"name": "c", "image": "example.org/job:1", "resources": resources}
                        ],
                    },
                }


def test_check_accepts_the_planned_pools_unchanged(
    environment: Environment, answer: Mapping[str, Any]
) -> None:
    assert answer["certificate"]["status"] == "optimal"
    assert len(answer["node_pools"]) == 2
    assert main(["check", str(environment.stack_file("eks-a100"))]) == VERIFIED


def test_every_replica_of_the_demand_is_bound_by_the_scheduler(
    client: Client, answer: Mapping[str, Any]
) -> None:
    pods = [*pods_of(answer)]
    assert len(pods) == sum(int(str(demand["replicas"])) for demand in CLASSES)
    for pod in pods:
        client.create(PODS, pod)

    def bound() -> bool:
        items = client.get(PODS, labelSelector="app=demanded")["items"]
        return len(items) == len(pods) and all(pod["spec"].get("nodeName") for pod in items)

    until(bound, "every replica has a node")
    nodes = client.get("/api/v1/nodes", labelSelector=names.POOL_LABEL)["items"]
    assert len(nodes) == answer["nodes"]


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}

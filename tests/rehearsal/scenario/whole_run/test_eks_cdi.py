"""S1 up where NVIDIA's container runtime works by CDI, as by default since gpu-operator 25.10."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from kubeapi import Client
from rehearsal.cluster.node import container_runtime
from rehearsal.scenario import proof
from rehearsal.scenario.engine_runs import Engine
from rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal]


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Environment]) -> Iterator[Environment]:
    before = os.environ.get(container_runtime.VARIABLE)
    os.environ[container_runtime.VARIABLE] = "cdi"
    try:
        yield make_environment("s1-cdi")
    finally:
        if before is None:
            del os.environ[container_runtime.VARIABLE]
        else:
            os.environ[container_runtime.VARIABLE] = before


def test_every_node_is_proven_and_its_agent_ended_by_itself_if_at_all(
    environment: Environment,
) -> None:
    engine = Engine(environment, "s1", print)
    assert engine.init().code == 0
    up = engine.up()
    assert up.code == 0, up.output
    client = Client.from_kubeconfig(next(iter(environment.kubeconfigs().values())))
    fleet = proof.read_fleet(client)
    assert all(check.holds for check in proof.of_fleet("s1", fleet)), proof.of_fleet("s1", fleet)
    (agent,) = client.get(
        "/api/v1/namespaces/slicewright-system/pods",
        labelSelector="app.kubernetes.io/name=node-agent",
    )["items"]
    (status,) = agent["status"]["containerStatuses"]
    assert status.get("lastState", {}).get("terminated", {"exitCode": 0})["exitCode"] == 0

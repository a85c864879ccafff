"""A cluster that is there before the stack, with a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from infra import plan, spec
from infra.plan import ByoFleetPlan
from kubeapi import Client
from rehearsal.host import processes
from rehearsal.host.toolchain import Toolchain
from rehearsal.scenario import environment as environments
from rehearsal.scenario import existing_cluster
from rehearsal.scenario.environment import Environment
from rehearsal.scenario.existing_cluster import making


@pytest.fixture(scope="module")
def fleet() -> ByoFleetPlan:
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "ours", "context": "admin@ours"},
        "node_pools": [
            {
                "name": "p",
                "nodes": {"count": 1},
                "gpu": {"model": "T4", "count": 1},
                "select": {"example.org/gpu": "t4"},
            }
        ],
    }
    found = plan.read(json.dumps(raw), spec.Source("test", raw))
    assert isinstance(found, ByoFleetPlan)
    return found


@pytest.fixture(scope="module")
def environment(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory, fleet: ByoFleetPlan
) -> Iterator[Environment]:
    made = environments.create(tmp_path_factory.mktemp("ours"), toolchain)
    existing_cluster.start(made, fleet)
    yield made
    environments.remove(made)


def test_the_users_kubeconfig_reaches_it_under_the_context_of_the_stack_file(
    environment: Environment,
) -> None:
    config = json.loads(environment.user_kubeconfig.read_text())
    assert [context["name"] for context in config["contexts"]] == ["admin@ours"]
    assert environment.user_kubeconfig.stat().st_mode & 0o077 == 0
    client = Client.from_kubeconfig(environment.user_kubeconfig)
    (node,) = client.get("/api/v1/nodes", labelSelector="example.org/gpu=t4")["items"]
    assert node["metadata"]["name"] == "p-1"


def test_starting_it_again_changes_nothing(environment: Environment, fleet: ByoFleetPlan) -> None:
    existing_cluster.start(environment, fleet)
    assert existing_cluster.differences(environment, fleet) == ()


def test_what_stays_in_it_is_told(
    environment: Environment, fleet: ByoFleetPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "_SETTLED_S", 0)
    client = Client.from_kubeconfig(environment.user_kubeconfig)
    client.patch("/api/v1/nodes/p-1", {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "left"}}
    client.create("/api/v1/namespaces/default/serviceaccounts", account)
    assert existing_cluster.differences(environment, fleet) == (
        "serviceaccounts/default/left is new",
        "nodes/p-1: metadata.labels[nvidia.com/gpu.present] is new: 'true'",
    )


def test_it_ends_with_its_environment(environment: Environment) -> None:
    assert "kubelet-ours" in {record.name for record in processes.recorded(environment.root)}
    environments.stop(environment)
    assert list(processes.recorded(environment.root)) == []

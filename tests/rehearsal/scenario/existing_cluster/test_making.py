"""A cluster that is there before the stack, with a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario import existing_cluster
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.existing_cluster import Differences, making

NONE = Differences(of_operator=(), others=())


@pytest.fixture(scope="module")
def fleet() -> ExistingFleetPlan:
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
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, ExistingFleetPlan)
    return found


@pytest.fixture(scope="module")
def environment(
    toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory, fleet: ExistingFleetPlan
) -> Iterator[Environment]:
    made = environments.create(tmp_path_factory.mktemp("ours"), toolchain)
    existing_cluster.make(made, fleet)
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


def test_starting_it_again_changes_nothing(environment: Environment) -> None:
    assert existing_cluster.restart(environment)
    assert existing_cluster.differences(environment) == NONE


def test_remaining_objects_are_listed(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "_SETTLED_S", 0)
    client = Client.from_kubeconfig(environment.user_kubeconfig)
    left = {"nvidia.com/gpu.present": "true", "slicewright.io/pool": "p"}
    client.patch("/api/v1/nodes/p-1", {"metadata": {"labels": left}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "left"}}
    client.create("/api/v1/namespaces/default/serviceaccounts", account)
    assert existing_cluster.differences(environment) == Differences(
        of_operator=("nodes/p-1: metadata.labels[nvidia.com/gpu.present] is new: 'true'",),
        others=(
            "serviceaccounts/default/left is new",
            "nodes/p-1: metadata.labels[slicewright.io/pool] is new: 'p'",
        ),
    )


def test_objects_being_deleted_are_waited_for(
    environment: Environment, fleet: ExistingFleetPlan
) -> None:
    """The API server keeps a namespace until its objects are gone."""
    client = Client.from_kubeconfig(environment.user_kubeconfig)
    client.delete("/api/v1/namespaces/default/serviceaccounts/left")
    gone = {"nvidia.com/gpu.present": None, "slicewright.io/pool": None}
    client.patch("/api/v1/nodes/p-1", {"metadata": {"labels": gone}})
    going = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}
    client.create("/api/v1/namespaces", going)
    client.delete("/api/v1/namespaces/going")
    assert existing_cluster.differences(environment) == NONE


def test_it_ends_with_its_environment(environment: Environment) -> None:
    assert "kubelet-ours" in {record.name for record in processes.recorded(environment.root)}
    environments.stop(environment)
    assert list(processes.recorded(environment.root)) == []


def test_without_one_there_is_nothing_to_start(tmp_path: Path) -> None:
    assert not existing_cluster.restart(Environment(tmp_path))

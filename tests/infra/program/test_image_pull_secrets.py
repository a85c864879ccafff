"""The pods of a stack carry the pull Secrets that its file names, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import delivery, manifests, plan, stack_file
from slicewright.infra.components import pods
from slicewright.infra.components.fleet.controller_pod import controller_pod
from slicewright.infra.components.fleet.node_agent_pod import AgentPod
from tests.infra.conftest import ROOT

MIRRORS = ("mirror", "second")
WORKLOAD = {
    "name": "w",
    "kind": "container",
    "namespace": "models",
    "pool": "a",
    "image": "registry.example.com/team/server:1",
    "resource": "mig-1g.10gb",
}


def planned(**workload: Any) -> plan.FleetPlan:
    pool = {
        "name": "a",
        "machine_type": "p5.48xlarge",
        "nodes": {"count": 1},
        "partition": {"mode": "operator", "layout": {"1g.10gb": 7}},
    }
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]},
        "system_pool": {"machine_type": "m7i.large", "nodes": {"count": 1}},
        "node_pools": [pool],
        "allow_unlisted": True,
        "workloads": [{**WORKLOAD, **workload}],
    }
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def names(references: Any) -> list[str]:
    return [one.name for one in references or ()]


@pytest.mark.parametrize("secrets", [(), MIRRORS])
def test_pods_of_agents_and_controller_have_the_pull_secrets(secrets: tuple[str, ...]) -> None:
    image = pods.Image(name="registry.example.com/python:3.13", pull_secrets=secrets)
    (pool,) = planned().pools
    agent: Any = AgentPod(
        image=image,
        settings=stack_file.NodeAgent(attribution=True),
        operator=None,
        zipapp=delivery.node_agent(),
        code="code",
    ).spec(pool, "desired")
    controller: Any = controller_pod(image, {}, delivery.fleet_controller(), "code")
    for pod in (agent, controller):
        assert names(pod.image_pull_secrets) == list(secrets)
        assert {container.image for container in pod.containers} == {image.name}


def test_every_deployment_and_daemon_set_has_the_pull_secrets(
    record: Callable[..., list[Any]],
) -> None:
    stack = yaml.safe_load((ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text())
    fleet = stack["config"]["slicewright:fleet"] | {"image_pull_secrets": list(MIRRORS)}
    made = record("x", fleet=yaml.safe_dump(fleet))
    found = {
        one.name: one.inputs["spec"]["template"]["spec"].get("imagePullSecrets")
        for one in made
        if one.type.endswith((":Deployment", ":DaemonSet"))
    }
    assert found
    assert set(map(str, found.values())) == {str([{"name": name} for name in MIRRORS])}


@pytest.mark.parametrize("secrets", [[], ["mirror", "second", "mirror"]])
def test_workloads_have_their_own_pull_secrets(secrets: list[str]) -> None:
    fleet = planned(image_pull_secrets=secrets)
    ((_, objects),) = manifests.workloads_of(fleet)
    pod = objects.deployment["spec"]["template"]["spec"]
    assert pod.get("imagePullSecrets", []) == [{"name": name} for name in dict.fromkeys(secrets)]


def test_invalid_secret_name_is_refused() -> None:
    with pytest.raises(stack_file.SpecError, match="image_pull_secrets"):
        planned(image_pull_secrets=["user:password"])

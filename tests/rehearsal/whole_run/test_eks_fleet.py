"""S1: an EKS fleet cut by NVIDIA's own mig-manager, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubeapi import Client
from rehearsal import proof, walkthrough
from rehearsal.engine_runs import Engine
from rehearsal.environment import Environment
from rehearsal.walkthrough import WALKTHROUGHS

pytestmark = [pytest.mark.rehearsal]
S1 = WALKTHROUGHS["s1"]


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    engine = Engine(make_environment("s1"), "s1", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def eager(engine: Engine, ask_early: Callable[[Environment], Any]) -> Any:
    """Asks for a whole GPU before there is a node: mig-manager's nodes offer whole GPUs until they are cut."""
    return ask_early(engine.environment)


@pytest.fixture(scope="module")
def client(engine: Engine, eager: Any) -> Client:
    up = engine.up()
    assert up.code == 0, up.output
    eager.end()
    return Client.from_kubeconfig(next(iter(engine.environment.kubeconfigs().values())))


def test_every_node_is_proven_and_released(client: Client) -> None:
    fleet = proof.read_fleet(client)
    assert [n.pool for n in fleet] == ["demo-gpu-workers"]
    assert all(check.holds for check in proof.of_fleet("s1", fleet)), proof.of_fleet("s1", fleet)
    assert {k: v for k, v in fleet[0].allocatable.items() if v} == {"nvidia.com/mig-1g.5gb": 56}
    assert [dict(gpu["instances"]) for gpu in fleet[0].gpus] == [{"1g.5gb": 7}] * 8


def test_a_pod_that_asks_for_a_whole_gpu_is_never_bound(client: Client, eager: Any) -> None:
    assert eager.made, "the pod was never made: the test saw nothing"
    assert eager.node_when_bound is None
    pod = client.get("/api/v1/namespaces/default/pods/whole-gpu")
    assert not pod["spec"].get("nodeName")
    client.delete("/api/v1/namespaces/default/pods/whole-gpu", gracePeriodSeconds="0")


def test_nvidias_own_programs_did_the_cutting(client: Client) -> None:
    (node,) = client.get("/api/v1/nodes", labelSelector="slicewright.io/pool=demo-gpu-workers")["items"]
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/mig.config.state"] == "success"
    assert labels["nvidia.com/mig.config"].startswith("demo-gpu-workers-")
    # Written by GPU feature discovery from NVML, not by the stand-in.
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-40GB"
    assert labels["nvidia.com/mig-1g.5gb.count"] == "56"


def test_56_of_100_pods_are_bound(client: Client) -> None:
    walkthrough.apply(client, S1)
    landing = walkthrough.wait_until_landed(client, S1, 100)
    assert (landing.bound, landing.pending) == (56, 44)
    assert "Insufficient nvidia.com/mig-1g.5gb" in landing.why_pending
    walkthrough.delete(client, S1)


def test_a_second_up_reports_no_changes(client: Client, engine: Engine) -> None:
    outcome = engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_a_refresh_finds_no_drift(client: Client, engine: Engine) -> None:
    outcome = engine.refresh("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}
    assert list(engine.environment.root.glob("clusters/*")) == []

"""GKE's own partitioner on A100s: MIG mode takes effect with a reboot, which it asks for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario import failing_pods, proof
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "the partitioner's reboot: tests/rehearsal/cluster/gke_node/test_gke_plugin.py and "
        "tests/rehearsal/cluster/kubelet/test_gke_node.py"
    ),
]
STACK = """\
config:
  gcp:project: slicewright-a100
  pulumi:disable-default-providers: ["*"]
  slicewright:fleet:
    cloud: gke
    cluster: { name: main, location: us-central1-c }
    verify_timeout_minutes: 6
    node_pools:
      - name: a100-80
        machine_type: a2-ultragpu-8g
        capacity: spot
        nodes: { count: 1 }
        partition: { mode: native, profile: 2g.20gb }
"""


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("gke-a100")
    environment.stack_file("gke-h100").write_text(STACK)
    engine = Engine(environment, "gke-h100", print)
    assert engine.init().code == 0
    return engine


def test_the_pool_is_verified_after_one_reboot(client: Client, engine: Engine) -> None:
    fleet = proof.read_released_fleet(client)
    assert all(check.holds for check in proof.of_fleet("a100", fleet)), proof.of_fleet("", fleet)
    (node,) = fleet
    assert dict(node.advertised()) == {"nvidia.com/gpu": 24}
    assert node.found() == {"2g.20gb": 24}
    logs = "".join(log.read_text() for log in engine.environment.root.rglob("kubelet*.log"))
    assert logs.count(f"node {node.name} reboots") == 1


def test_no_pod_is_left_failing(client: Client) -> None:
    assert failing_pods.wait_until_none(client) == ()


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}

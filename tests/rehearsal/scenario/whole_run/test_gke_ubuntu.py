"""GKE's Ubuntu nodes under NVIDIA's operator, which brings the driver, too, and gives containers
their GPUs without CDI.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario import proof
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.whole_run.test_gke_operator import INSTALLER, PODS, pod
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "the operator on GKE nodes; its driver container: "
        "tests/rehearsal/cluster/gpu_operator/test_gke.py and "
        "tests/rehearsal/cluster/gpu_operator/test_driver_manager.py"
    ),
]
STACK = """\
config:
  gcp:project: slicewright-ubuntu
  pulumi:disable-default-providers: ["*"]
  slicewright:fleet:
    cloud: gke
    cluster: { name: main, location: us-central1-c }
    verify_timeout_minutes: 6
    node_pools:
      - name: cut
        machine_type: a2-highgpu-1g
        image_type: UBUNTU_CONTAINERD
        nodes: { count: 1 }
        partition: { mode: operator, layout: { 3g.20gb: 1, 1g.5gb: 3 } }
    gpu_operator:
      driver: { enabled: true }
      cdi: false
"""


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    environment = make_environment("gke-ubuntu")
    environment.stack_file("gke-h100").write_text(STACK)
    engine = Engine(environment, "gke-h100", print)
    assert engine.init().code == 0
    return engine


def daemon_sets(client: Client) -> dict[str, dict[str, Any]]:
    found = client.get("/apis/apps/v1/namespaces/gpu-operator/daemonsets")["items"]
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found}


def test_the_node_is_proven_over_the_operators_driver(client: Client) -> None:
    fleet = proof.read_released_fleet(client)
    assert all(check.holds for check in proof.of_fleet("ubuntu", fleet)), proof.of_fleet("", fleet)
    (node,) = fleet
    assert dict(node.advertised()) == {"nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb": 3}
    sets = daemon_sets(client)
    assert "nvidia-driver-daemonset" in sets
    assert not [name for name in sets if name.startswith(INSTALLER.removesuffix("-cos"))]
    (plugin,) = sets["nvidia-device-plugin-daemonset"]["containers"]
    assert {"name": "DEVICE_LIST_STRATEGY", "value": "envvar"} in plugin["env"]


def test_each_pod_sees_its_one_partition(client: Client) -> None:
    uuids = []
    for number in range(3):
        one = pod(f"small-{number}", "cut", "nvidia.com/mig-1g.5gb")
        # The toolkit mounts the driver where the linker finds it.
        one["spec"]["containers"][0]["env"] = []
        client.create(PODS, one)
        path = f"{PODS}/small-{number}/log"

        def said(at: str = path) -> str:
            running = client.get(at.removesuffix("/log"))["status"].get("phase") == "Running"
            return log if running and "UUID" in (log := client.text(at)) else ""

        uuids += re.findall(r"UUID: (MIG-[-0-9a-f]+)", until(said, path))
    assert len(uuids) == len(set(uuids)) == 3
    for number in range(3):
        client.delete(f"{PODS}/small-{number}", gracePeriodSeconds="0")


def test_destroy_leaves_nothing(client: Client, engine: Engine) -> None:
    outcome = engine.destroy()
    assert outcome.code == 0, outcome.output
    assert engine.environment.inventory() == {}

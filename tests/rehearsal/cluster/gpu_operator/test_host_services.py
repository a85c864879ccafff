"""Services of a node's host that are in the way of a change of MIG mode, with NVIDIA's mig-manager:
it stops those that its list names, and the kubelet. 90 s.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.rehearsal.cluster.silicon import state
from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE

pytestmark = pytest.mark.long(
    "mig-manager without such services, in the whole run of eks-a100: "
    "tests/rehearsal/scenario/whole_run/test_eks_fleet.py"
)

MACHINE = {"cloud": "eks", "gpu_model": "H100-80", "gpu_count": 1, "driver_version": "570.133.20"}
HOLDER = "nvidia-persistenced.service"
HELD = {**MACHINE, "fault": {"kind": "host-service", "unit": HOLDER}}
LOST = {**MACHINE, "fault": {"kind": "kubelet-stays-down"}}
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def label(node: dict[str, Any] | None, name: str) -> str:
    return str(((node or {"metadata": {}})["metadata"].get("labels") or {}).get(name, ""))


def ready(node: dict[str, Any] | None) -> str:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return "".join(c["status"] for c in conditions if c["type"] == "Ready")


def capable(cluster: Any, node: str) -> None:
    """Until mig-manager has set the layout of before, which changes nothing."""
    cluster.until(
        node,
        lambda n: (label(n, CONFIG), label(n, STATE)) == ("all-disabled", "success"),
        240,
    )


def silicon(cluster: Any, name: str) -> Path:
    found: Path = cluster.directory / "nodes" / name / "silicon" / "state"
    return found


def give(cluster: Any, **environment: str) -> None:
    """Sets mig-manager's environment, and nothing else in it."""
    env = [{"name": name, "value": value} for name, value in environment.items()]
    cluster.client.patch(POLICY, {"spec": {"migManager": {"env": env}}})


@pytest.fixture
def kubelet_left_running(cluster: Any) -> Iterator[None]:
    """As with gpu_operator.mig_manager.stop_kubelet: false."""
    reboots = {"name": "WITH_REBOOT", "value": "true"}
    no_unit = {"name": "HOST_KUBELET_SYSTEMD_SERVICE", "value": "none.service"}
    cluster.client.patch(POLICY, {"spec": {"migManager": {"env": [reboots, no_unit]}}})
    yield
    cluster.client.patch(POLICY, {"spec": {"migManager": {"env": [reboots]}}})


@pytest.fixture
def without_reboot(cluster: Any) -> Iterator[None]:
    """A GPU that is in use would else have its node rebooted."""
    give(cluster, WITH_REBOOT="false")
    yield
    give(cluster, WITH_REBOOT="true")


@pytest.fixture
def without_kubelet(cluster: Any) -> Iterator[None]:
    """mig-manager knows no name of the kubelet's unit, and so does not stop it."""
    give(cluster, WITH_REBOOT="true", HOST_KUBELET_SYSTEMD_SERVICE="")
    yield
    give(cluster, WITH_REBOOT="true")


def test_a_service_that_is_not_listed_holds_the_gpu_until_host_services_names_it(
    cluster: Any, without_reboot: None
) -> None:
    node = cluster.add_node("held-0", HELD)
    capable(cluster, node)
    cluster.client.patch(node, {"metadata": {"labels": {CONFIG: "all-3g.40gb"}}})
    cluster.until(node, lambda n: label(n, STATE) == "failed", 240)
    assert state.load(silicon(cluster, "held-0")).gpus[0].profiles == ()
    listed = {"version": "v1", "systemd-services": [HOLDER]}
    metadata = {"name": "gpu-clients", "namespace": NAMESPACE}
    data = {"clients.yaml": yaml.safe_dump(listed)}
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    # Its pod is another one by that, and tries again.
    chosen = {"migManager": {"gpuClientsConfig": {"name": "gpu-clients"}}}
    cluster.client.patch(POLICY, {"spec": chosen})
    cluster.until(node, lambda n: label(n, STATE) == "success", 240)
    now = state.load(silicon(cluster, "held-0"))
    assert now.gpus[0].profiles == ("3g.40gb", "3g.40gb")
    assert [process.name for process in now.processes] == ["nvidia-persistenced"], "it runs again"
    cluster.client.patch(POLICY, {"spec": {"migManager": {"gpuClientsConfig": None}}})
    cluster.client.delete(node)


def test_a_kubelet_that_does_not_come_back_leaves_the_node_not_ready_until_it_is_rebooted(
    cluster: Any,
) -> None:
    """NVIDIA/gpu-operator #2415: on such a node only a new instance helped."""
    node = cluster.add_node("lost-0", LOST)
    capable(cluster, node)
    assert ready(cluster.client.get(node)) == "True"
    cluster.client.patch(node, {"metadata": {"labels": {CONFIG: "all-3g.40gb"}}})
    cluster.until(node, lambda n: ready(n) == "Unknown", 240)
    cluster.until(node, lambda n: label(n, STATE) == "success", 240)
    assert ready(cluster.client.get(node)) == "Unknown", "its start did not help"
    cluster.client.delete(node)


def test_a_kubelet_that_mig_manager_leaves_running_keeps_the_node_ready(
    cluster: Any, kubelet_left_running: None
) -> None:
    node = cluster.add_node("kept-0", LOST)
    capable(cluster, node)
    cluster.client.patch(node, {"metadata": {"labels": {CONFIG: "all-3g.40gb"}}})
    seen: set[str] = set()

    def applied(found: dict[str, Any] | None) -> bool:
        seen.add(ready(found))
        return label(found, STATE) == "success"

    cluster.until(node, lambda n: label(n, STATE) == "pending", 240)
    cluster.until(node, applied, 240)
    assert seen == {"True"}
    assert state.load(silicon(cluster, "kept-0")).gpus[0].profiles == ("3g.40gb", "3g.40gb")
    cluster.client.delete(node)


def test_an_empty_name_of_the_kubelets_unit_keeps_mig_manager_from_stopping_it(
    cluster: Any, without_kubelet: None
) -> None:
    """Had it been stopped, it would not come back here, and no pod would start any more."""
    node = cluster.add_node("spared-0", LOST)
    capable(cluster, node)
    cluster.client.patch(node, {"metadata": {"labels": {CONFIG: "all-3g.40gb"}}})
    halves = ("3g.40gb", "3g.40gb")
    cluster.until(
        node,
        lambda n: (
            label(n, STATE) == "success"
            and state.load(silicon(cluster, "spared-0")).gpus[0].profiles == halves
        ),
        240,
    )
    spec = {"nodeSelector": {"kubernetes.io/hostname": "spared-0"}}
    pod = cluster.run_python("after-the-cut", "import time; time.sleep(1000)", **spec)
    cluster.ready(pod)
    assert ready(cluster.client.get(node)) == "True"
    cluster.client.delete(pod)
    cluster.client.delete(node)

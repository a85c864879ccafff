"""Both engines on a simulated node: chart, device plugin, scheduler, and what containers see."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan
from slicewright.infra.manifests.fractional.engine_chart import EngineChart
from slicewright.kubeapi.client import Client, path_of
from slicewright.rehearsal.cluster.vgpu import hami, volcano
from slicewright.rehearsal.cluster.vgpu.cards import Sharing
from slicewright.rehearsal.cluster.vgpu.engine import Engine
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.charts import find
from tests.rehearsal.cluster.kubelet.simulated_cluster import SimulatedCluster, running_cluster

STACK = Path(__file__).resolve().parents[4] / "stacks/Pulumi.fractional.yaml"
MACHINE = {"cloud": "eks", "gpu_model": "T4", "gpu_count": 4, "driver_version": "580.95.05"}
LABELS = {"gpu": "on", "volcano.sh/vgpu": "on", "slicewright.io/role": "system"}
PLURALS = {"MutatingWebhookConfiguration": "mutatingwebhookconfigurations"}
SEES = """\
import ctypes, os, time
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
count = ctypes.c_uint()
nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
for index in range(count.value):
    device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
    nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))
    nvml.nvmlDeviceGetMemoryInfo(device, memory)
    print("card", index, memory[0] >> 20, "MiB", flush=True)
print("compute", os.environ["CUDA_DEVICE_SM_LIMIT"], flush=True)
time.sleep(3600)
"""


def planned(directory: Path, provider: str) -> plan.FleetPlan:
    """S3's fleet with this engine."""
    raw = yaml.safe_load(STACK.read_text())
    raw["config"]["slicewright:fleet"]["fractional"]["provider"] = provider
    file = directory / "Pulumi.s3.yaml"
    file.write_text(yaml.safe_dump(raw))
    return plan.read_file(file)


def apply(client: Client, chart: EngineChart) -> None:
    """Installs the stand-in for the chart, with a fleet's own values."""
    name, repository = chart.address
    stand_in = find(name, repository=repository, version=chart.version)
    assert stand_in.check(chart.values) == []
    made = stand_in.render(chart.values, chart.release, chart.namespace)
    made.sort(key=lambda one: one["kind"] != "CustomResourceDefinition")
    for one in made:
        kind = one["kind"]
        plural = PLURALS.get(kind) or f"{kind.lower()}s"
        namespace = one["metadata"].get("namespace")
        client.create(path_of(one["apiVersion"], plural, namespace=namespace), one)


@pytest.fixture
def cluster(tmp_path: Path, toolchain: Toolchain) -> Iterator[Callable[..., SimulatedCluster]]:
    """`cluster(fleet, **tools)`: with the charts of the fleet's engine and a node of four cards."""
    opened: list[Any] = []

    def start(fleet: plan.FleetPlan, **tools: Path) -> SimulatedCluster:
        context = running_cluster(tmp_path, replace(toolchain, **tools))
        made = context.__enter__()
        opened.append(context)
        for chart in manifests.engine_charts(fleet):
            if chart.namespace != "kube-system":
                metadata = {"metadata": {"name": chart.namespace}}
                made.client.create("/api/v1/namespaces", metadata)
            apply(made.client, chart)
        made.add_node("n1", MACHINE, LABELS)
        return made

    yield start
    for context in opened:
        context.__exit__(None, None, None)


def has_cards(engine: Engine) -> Callable[[dict[str, Any] | None], bool]:
    def holds(node: dict[str, Any] | None) -> bool:
        assert node is not None
        registered = set(engine.registration((), Sharing())) <= set(
            node["metadata"].get("annotations") or {}
        )
        return registered and engine.counting in node["status"]["allocatable"]

    return holds


def touch_after_first_session(made: SimulatedCluster, node: str) -> None:
    """Volcano's scheduler knows only cards of nodes that have changed since its first session. It
    makes its queue before that, and has a session every second.
    """
    queue = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
    made.until(queue, lambda found: found is not None)
    time.sleep(5)
    made.client.patch(node, {"metadata": {"labels": {"touched": "yes"}}})


def proves_shares(
    made: SimulatedCluster, engine: Engine, scheduler: str, fleet: plan.FleetPlan
) -> None:
    """S3's container with 18 GiB and 240 % over 3 cards sees 6 GiB of each, in NVML too."""
    node = "/api/v1/nodes/n1"
    made.until(node, has_cards(engine))
    if engine is volcano.VOLCANO:
        touch_after_first_session(made, node)
    (workload,) = fleet.workloads
    limits = {name: str(count) for name, count in workload.requests.items()}
    container = {"resources": {"limits": limits}}
    pod = made.run_python("share", SEES, schedulerName=scheduler, container=container)
    log = made.says(pod, lambda text: "compute" in text)
    cards = [line for line in log.splitlines() if line.startswith("card")]
    assert cards == [f"card {i} 6144 MiB" for i in range(3)]
    assert "compute 80" in log
    annotations = made.client.get(pod)["metadata"]["annotations"]
    assert annotations[engine.keys.phase] == "success"
    allocated = hami.ALLOCATED if engine is hami.HAMI else volcano.ALLOCATED
    shares = [s for c in engine.decode(annotations[allocated]) for s in c]
    assert len({share.uuid for share in shares}) == 3
    assert {share.compute_percent for share in shares} == {80}


def test_hamis_scheduler_gives_a_container_three_shares(
    cluster: Callable[..., SimulatedCluster], tmp_path: Path
) -> None:
    fleet = planned(tmp_path, "hami")
    made = cluster(fleet)
    proves_shares(made, hami.HAMI, "hami-scheduler", fleet)
    assert hami.LOCK not in made.client.get("/api/v1/nodes/n1")["metadata"]["annotations"]


@pytest.mark.soak  # it builds Volcano
@pytest.mark.timeout(1800)
def test_volcanos_own_scheduler_gives_a_container_three_shares(
    cluster: Callable[..., SimulatedCluster], tmp_path: Path, one_tool: Callable[[str], Path]
) -> None:
    fleet = planned(tmp_path, "volcano")
    names = ("volcano_scheduler", "volcano_controllers")
    made = cluster(fleet, **{name: one_tool(name) for name in names})
    proves_shares(made, volcano.VOLCANO, "volcano", fleet)

"""What Prometheus reads of the simulated GPUs, in the form that NVIDIA's DCGM exporter has."""

from __future__ import annotations

import re
from dataclasses import replace

from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.rehearsal.cluster.dcgm_exporter.page import page
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import Load, NodeSilicon

ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def node(*profiles: str, loads: tuple[Load, ...] = ()) -> NodeSilicon:
    """An A100 with these partitions beside one that is whole."""
    made = state.new("A100-40", 2, "580.95.05", "seed")
    made = state.partitioned(made, 0, profiles) if profiles else made
    return replace(made, loads=loads)


def held(device: str, pod: str = "server-0", resource: str = "1g.5gb") -> ContainerDevices:
    return ContainerDevices(
        namespace="default",
        pod=pod,
        container="main",
        resource=f"nvidia.com/mig-{resource}",
        devices=(device,),
    )


def series(text: str, metric: str = ENGINE) -> list[tuple[dict[str, str], float]]:
    found = re.findall(rf"^{metric}{{(.*)}} (\S+)$", text, re.MULTILINE)
    return [(dict(re.findall(r'(\w+)="([^"]*)"', one)), float(value)) for one, value in found]


def test_a_partition_has_nvidias_labels_and_a_whole_gpu_has_none_of_an_instance() -> None:
    silicon = node("3g.20gb")
    (gpu, whole), (instance,) = silicon.gpus, silicon.gpus[0].instances
    (first, idle), (second, _) = series(page(silicon, (), hostname="n1"))
    assert idle == 0
    assert first == {
        "gpu": "0",
        "UUID": gpu.uuid,
        "pci_bus_id": f"0000{gpu.pci.upper()}",
        "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-40GB",
        "GPU_I_PROFILE": "3g.20gb",
        "GPU_I_ID": str(instance.id),
        "Hostname": "n1",
        "DCGM_FI_DRIVER_VERSION": "580.95.05",
    }
    assert len(first["pci_bus_id"]) == len("00000000:1B:00.0")
    assert (second["UUID"], set(second)) == (whole.uuid, set(first) - {"GPU_I_PROFILE", "GPU_I_ID"})


def test_each_instance_is_as_busy_as_the_silicon_says() -> None:
    silicon = node("3g.20gb", "1g.5gb")
    one, other = silicon.gpus[0].instances
    loads = (Load(gpu=0, gi=other.id, graphics=70, dram=20), Load(gpu=1, graphics=5))
    text = page(replace(silicon, loads=loads), (), hostname="n1")
    found = {(at["gpu"], at.get("GPU_I_ID")): value for at, value in series(text)}
    assert found == {("0", str(one.id)): 0, ("0", str(other.id)): 0.7, ("1", None): 0.05}
    memory = {at.get("GPU_I_ID"): value for at, value in series(text, "DCGM_FI_PROF_DRAM_ACTIVE")}
    assert memory[str(other.id)] == 0.2


def test_series_name_the_pod_that_has_the_device_and_pods_that_share_it_have_one_each() -> None:
    silicon = node("1g.5gb", "1g.5gb")
    shared, free = silicon.gpus[0].instances
    (device,) = shared.compute_instances
    pods = [held(f"{device.uuid}::{n}", pod=f"server-{n}") for n in (0, 1)]
    of_first = [
        (at["GPU_I_ID"], at.get("pod"), at.get("namespace"), at.get("container"))
        for at, _ in series(page(silicon, pods, hostname="n1"))
        if at["gpu"] == "0"
    ]
    assert of_first == [
        (str(shared.id), "server-0", "default", "main"),
        (str(shared.id), "server-1", "default", "main"),
        (str(free.id), None, None, None),
    ]


def test_a_gpu_that_has_fallen_off_the_bus_has_no_series() -> None:
    silicon = node()
    lost = replace(silicon, gpus=(replace(silicon.gpus[0], lost=True), silicon.gpus[1]))
    assert [at["gpu"] for at, _ in series(page(lost, (), hostname="n1"))] == ["1"]


def test_the_page_says_that_it_is_simulated() -> None:
    assert page(node(), (), hostname="n1").startswith("# simulated: ")

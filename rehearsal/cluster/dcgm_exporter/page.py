"""The exporter's page: names and labels as NVIDIA's, values of the simulated silicon.

Of its default metrics, those of which the silicon knows a value. Sources: NVIDIA/dcgm-exporter,
etc/dcp-metrics-included.csv, and the labels in internal/pkg/rendermetrics and transformation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.rehearsal.cluster.silicon.node_silicon import (
    NO_INSTANCE,
    Gpu,
    GpuInstance,
    Load,
    NodeSilicon,
)
from slicewright.telemetry.prometheus import Family, Sample, labels, lines

SIMULATED: Final = "# simulated: DCGM's engine needs real GPUs; these are a rehearsal's\n"
_SHARED: Final = "::"
"""What NVIDIA's plugin puts between the UUID of a shared device and the number of its replica."""


@dataclass(frozen=True)
class _Measured:
    """What DCGM watches: the GPU instances of a GPU, or the whole GPU where it has none."""

    gpu: Gpu
    instance: GpuInstance | None

    @property
    def devices(self) -> tuple[str, ...]:
        """What the kubelet hands out of it."""
        if self.instance is None:
            return (self.gpu.uuid,)
        return tuple(one.uuid for one in self.instance.compute_instances)

    def labels(self, hostname: str, driver: str) -> dict[str, str]:
        gpu, instance = self.gpu, self.instance
        # nvmlPciInfo_t writes the domain with eight digits.
        domain, _, rest = gpu.pci.partition(":")
        found = {
            "gpu": str(gpu.index),
            "UUID": gpu.uuid,
            "pci_bus_id": f"{domain:0>8}:{rest.upper()}",
            "device": f"nvidia{gpu.minor}",
            "modelName": gpu.model.name,
        }
        if instance is not None:
            found |= {"GPU_I_PROFILE": instance.profile, "GPU_I_ID": str(instance.id)}
        return found | {"Hostname": hostname, "DCGM_FI_DRIVER_VERSION": driver}


def page(node: NodeSilicon, held: Iterable[ContainerDevices], *, hostname: str) -> str:
    """held: what the kubelet has given to containers. A device of several has a series of each."""
    holders = _holders(held)
    loads = {(one.gpu, one.gi): one for one in node.loads}
    engine: list[Sample] = []
    memory: list[Sample] = []
    for one in _measured(node):
        gi = NO_INSTANCE if one.instance is None else one.instance.id
        load = loads.get((one.gpu.index, gi), Load(gpu=one.gpu.index, gi=gi))
        own = one.labels(hostname, node.driver_version)
        pods = [pod for device in one.devices for pod in holders.get(device, ())]
        for pod in pods or [{}]:
            written = labels(**own, **pod)
            engine.append(Sample(written, load.graphics / 100))
            memory.append(Sample(written, load.dram / 100))
    families = (
        Family(
            "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            "gauge",
            "Ratio of time the graphics engine is active.",
            tuple(engine),
        ),
        Family(
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "gauge",
            "Ratio of cycles the device memory interface is active sending or receiving data.",
            tuple(memory),
        ),
    )
    return SIMULATED + "".join(f"{line}\n" for family in families for line in lines(family))


def _measured(node: NodeSilicon) -> Iterator[_Measured]:
    for gpu in node.gpus:
        if gpu.lost:
            continue
        yield from (_Measured(gpu, one) for one in gpu.instances)
        if not gpu.instances:
            yield _Measured(gpu, None)


def _holders(held: Iterable[ContainerDevices]) -> Mapping[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for one in held:
        pod = {"container": one.container, "namespace": one.namespace, "pod": one.pod}
        for device in one.devices:
            pods = found.setdefault(device.partition(_SHARED)[0], [])
            if pod not in pods:
                pods.append(pod)
    return found

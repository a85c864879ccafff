"""The names that the engines for fractions use in Kubernetes. Plain data.

Sources: Project-HAMi/HAMi v2.10.0, charts/hami/values.yaml and docs, protocol design;
volcano-sh/volcano v1.15.1, pkg/scheduler/api/devices/nvidia/vgpu;
Project-HAMi/volcano-vgpu-device-plugin v1.12.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

EngineName = Literal["hami", "volcano"]


@dataclass(frozen=True, kw_only=True)
class Engine:
    title: str
    scheduler: str
    """The `schedulerName` of pods with shares."""
    cards: str
    """The resource that counts cards. A pod without it gets no share."""
    amounts: tuple[str, ...]
    """The resources that are amounts of each card."""
    percentages: tuple[str, ...]
    """The amounts whose largest value is 100."""
    node_label: tuple[str, str]
    """The label of the nodes that the device plugin runs on."""
    registration: str
    """Annotation of a Node: the cards that the device plugin has registered."""
    allocation: str
    """Annotation of a Pod: the shares that the scheduler has given to its containers."""
    lock: str
    """Annotation of a Node while a pod is bound to it. Empty if the engine has no lock."""
    plugin_pods: str
    """The device plugin's pods, as a label selector."""


ENGINES: Final[Mapping[EngineName, Engine]] = {
    "hami": Engine(
        title="HAMi",
        scheduler="hami-scheduler",
        cards="nvidia.com/gpu",
        amounts=("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
        percentages=("nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
        node_label=("gpu", "on"),
        registration="hami.io/node-nvidia-register",
        allocation="hami.io/vgpu-devices-allocated",
        lock="hami.io/mutex.lock",
        plugin_pods="app.kubernetes.io/component=hami-device-plugin",
    ),
    "volcano": Engine(
        title="Volcano",
        scheduler="volcano",
        cards="volcano.sh/vgpu-number",
        amounts=(
            "volcano.sh/vgpu-memory",
            "volcano.sh/vgpu-memory-percentage",
            "volcano.sh/vgpu-cores",
        ),
        percentages=("volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"),
        node_label=("volcano.sh/vgpu", "on"),
        registration="volcano.sh/node-vgpu-register",
        allocation="volcano.sh/vgpu-ids-new",
        lock="",
        plugin_pods="name=volcano-device-plugin",
    ),
}


def cards_of_others(engine: EngineName) -> tuple[str, ...]:
    """The resources that count cards for the other engines."""
    return tuple(other.cards for name, other in ENGINES.items() if name != engine)

"""A chart of an engine, as Helm takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.apis.shares.engines import EngineName
from slicewright.infra.manifests.helm_charts import ChartAddress
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import FleetPlan, GkeFleetPlan

DOCKER_HUB: Final = "docker.io"
NAMESPACES: Final[Mapping[EngineName, str]] = {"hami": "hami-system", "volcano": "volcano-system"}
"""The namespaces of the engines' schedulers."""
RUNTIME_CLASS: Final = "nvidia"
"""The runtime class of the GPU operator's container toolkit."""


@dataclass(frozen=True, kw_only=True)
class EngineChart:
    release: str
    namespace: str
    address: ChartAddress
    version: str
    values: JsonObject
    device_plugin: bool
    """True if it has the device plugin, which uses all GPUs of nodes that are not verified yet."""
    creates_namespace: bool = True
    """False if the namespace is Kubernetes' own."""
    awaited: bool = True
    """False if `up` does not wait for its pods. It waits for the pools, which name the nodes where
    the pods do not start.
    """


def toolkit_installed(fleet: FleetPlan) -> bool:
    """True if the GPU operator brings the container toolkit to the nodes of the engine."""
    operator = None if isinstance(fleet, GkeFleetPlan) else fleet.operator
    return operator is not None and bool(operator.toolkit.enabled)

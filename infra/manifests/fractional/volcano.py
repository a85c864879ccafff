"""Values of Volcano's chart and of its vGPU device plugin's, and the scheduler's configuration.

Sources: volcano-sh/volcano v1.15.1, installer/helm/chart/volcano/values.yaml and the plugins
deviceshare and resource-strategy-fit; Project-HAMi/volcano-vgpu-device-plugin,
deployments/helm/volcano-vgpu-device-plugin/values.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra.manifests.fractional.engine_chart import (
    DOCKER_HUB,
    NAMESPACES,
    RUNTIME_CLASS,
    EngineChart,
    toolkit_installed,
)
from slicewright.infra.manifests.helm_charts import chart_address
from slicewright.infra.manifests.placement import system_labels
from slicewright.infra.manifests.pods import tolerations
from slicewright.infra.manifests.text import JsonObject, as_flow_yaml
from slicewright.infra.plan import Engine, FleetPlan
from slicewright.infra.stack_file import Fractional, Policy

_CHART: Final = "volcano"
_REPOSITORY: Final = "https://volcano-sh.github.io/helm-charts"
_VERSION: Final = "1.15.1"
_PLUGIN: Final = "volcano-vgpu-device-plugin"
_PLUGIN_REPOSITORY: Final = "https://project-hami.github.io/volcano-vgpu-device-plugin"
_PLUGIN_VERSION: Final = "1.12.0"
_PLUGIN_NAMESPACE: Final = "kube-system"
"""Volcano's scheduler reads the plugin's ConfigMap in this namespace."""
_NODES: Final = {"volcano.sh/vgpu": "on"}
_NODE_SCORING: Final[Mapping[Policy, str]] = {
    "binpack": "MostAllocated",
    "spread": "LeastAllocated",
}


def volcano_charts(fleet: FleetPlan, engine: Engine) -> tuple[EngineChart, ...]:
    """Scheduler and controllers, unless they exist, and the device plugin."""
    plugin = _plugin_chart(fleet, engine)
    return (plugin,) if engine.settings.existing else (_chart(fleet, engine), plugin)


def _chart(fleet: FleetPlan, engine: Engine) -> EngineChart:
    settings = engine.settings
    return EngineChart(
        release=_CHART,
        namespace=settings.namespace or NAMESPACES["volcano"],
        address=chart_address(_CHART, settings.repository or _REPOSITORY),
        version=settings.chart_version or _VERSION,
        values=_values(fleet, engine),
        device_plugin=False,
    )


def _plugin_chart(fleet: FleetPlan, engine: Engine) -> EngineChart:
    settings = engine.settings
    return EngineChart(
        release=_PLUGIN,
        namespace=_PLUGIN_NAMESPACE,
        address=chart_address(_PLUGIN, settings.plugin_repository or _PLUGIN_REPOSITORY),
        version=settings.plugin_version or _PLUGIN_VERSION,
        values=_plugin_values(fleet, engine),
        device_plugin=True,
        creates_namespace=False,
        awaited=False,
    )


def _values(fleet: FleetPlan, engine: Engine) -> JsonObject:
    settings = engine.settings
    images: JsonObject = {
        "image_registry": settings.registry or DOCKER_HUB,
        "image_tag_version": f"v{settings.chart_version or _VERSION}",
        # The chart's own asks the registry at every start of a pod.
        "image_pull_policy": "IfNotPresent",
    }
    if settings.image_pull_secrets:
        images["image_pull_secret"] = settings.image_pull_secrets[0]
    custom: JsonObject = {
        # Its webhooks check Volcano's own Jobs, and no workload of a fleet is one.
        "admission_enable": False,
        "scheduler_config_override": scheduler_config(engine),
    }
    if labels := system_labels(fleet):
        custom["default_ns"] = dict(labels)
    return {"basic": images, "custom": custom}


def scheduler_config(engine: Engine) -> str:
    """volcano-scheduler.conf: one policy for cards, and one for nodes by their memory."""
    first = [{"name": name} for name in ("priority", "gang", "conformance")]
    return as_flow_yaml(
        {
            "actions": "enqueue, allocate, backfill",
            "tiers": [{"plugins": first}, {"plugins": _placing_plugins(engine.settings)}],
        }
    )


def _placing_plugins(settings: Fractional) -> list[JsonObject]:
    """The scheduler's plugins that choose nodes and cards."""
    by_memory = {"type": _NODE_SCORING[settings.node_policy], "weight": 1}
    cards = {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": settings.gpu_policy,
        # Above 0, the policy for cards would choose nodes too.
        "deviceshare.ScheduleWeight": 0,
    }
    nodes = {
        "resourceStrategyFitWeight": 10,
        "resources": {"volcano.sh/vgpu-memory": by_memory},
    }
    # These two would spread pods whatever the policy.
    unused = {"leastrequested.weight": 0, "balancedresource.weight": 0}
    return [
        {"name": "drf"},
        {"name": "deviceshare", "arguments": cards},
        {"name": "predicates"},
        {"name": "proportion"},
        {"name": "nodeorder", "arguments": unused},
        {"name": "resource-strategy-fit", "arguments": nodes},
    ]


def _plugin_values(fleet: FleetPlan, engine: Engine) -> JsonObject:
    settings = engine.settings
    image = {
        "repository": f"{settings.registry or DOCKER_HUB}/projecthami/{_PLUGIN}",
        "tag": f"v{settings.plugin_version or _PLUGIN_VERSION}",
    }
    promised = settings.oversubscription.memory_percent
    values: JsonObject = {
        "namespace": _PLUGIN_NAMESPACE,
        "image": image,
        "monitor": {"image": image},
        "deviceConfig": {
            "nvidia": {
                "deviceSplitCount": engine.shares_per_gpu,
                "deviceMemoryScaling": promised // 100 if promised % 100 == 0 else promised / 100,
                "gpuMemoryFactor": engine.memory_factor,
            }
        },
        # The chart's example names a node that does not exist.
        "nodeConfig": {"enabled": False},
        "nodeSelector": dict(_NODES),
        "tolerations": tolerations(fleet.pools),
    }
    if toolkit_installed(fleet):
        values["runtimeClassName"] = RUNTIME_CLASS
    return values

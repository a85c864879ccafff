"""Values of HAMi's chart: its scheduler, its webhook, and its device plugin.

All keys are in the values.yaml of chart 2.10.0: Helm ignores unknown keys. Source:
Project-HAMi/HAMi, charts/hami.
"""

from __future__ import annotations

import json
from typing import Final

from slicewright.infra.manifests.fractional.engine_chart import (
    NAMESPACES,
    RUNTIME_CLASS,
    EngineChart,
    toolkit_installed,
)
from slicewright.infra.manifests.helm_charts import chart_address
from slicewright.infra.manifests.placement import system_labels
from slicewright.infra.manifests.pods import tolerations
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import Engine, FleetPlan

_CHART: Final = "hami"
_REPOSITORY: Final = "https://project-hami.github.io/HAMi/"
_VERSION: Final = "2.10.0"
_NODES: Final = {"gpu": "on"}
"""Label of the nodes that the device plugin runs on."""


def hami_chart(fleet: FleetPlan, engine: Engine) -> EngineChart:
    settings = engine.settings
    return EngineChart(
        release=_CHART,
        namespace=settings.namespace or NAMESPACES["hami"],
        address=chart_address(_CHART, settings.repository or _REPOSITORY),
        version=settings.chart_version or _VERSION,
        values=_values(fleet, engine),
        device_plugin=True,
    )


def _values(fleet: FleetPlan, engine: Engine) -> JsonObject:
    settings = engine.settings
    values: JsonObject = {
        "scheduler": _scheduler(fleet, engine),
        "devicePlugin": _device_plugin(fleet, engine),
    }
    shared: JsonObject = {}
    if settings.registry is not None:
        shared["imageRegistry"] = settings.registry
    if settings.image_pull_secrets:
        shared["imagePullSecrets"] = list(dict.fromkeys(settings.image_pull_secrets))
    return ({"global": shared} if shared else {}) | values


def _scheduler(fleet: FleetPlan, engine: Engine) -> JsonObject:
    settings = engine.settings
    scheduler: JsonObject = {
        "defaultSchedulerPolicy": {
            "nodeSchedulerPolicy": settings.node_policy,
            "gpuSchedulerPolicy": settings.gpu_policy,
        },
        # The chart's own is a mirror in China.
        "kubeScheduler": {"image": {"registry": "registry.k8s.io", "repository": "kube-scheduler"}},
        "service": {"type": "ClusterIP"},
    }
    if labels := system_labels(fleet):
        # Not nodeLabelSelector: the scheduler would know no other nodes, and so no cards.
        scheduler["nodeSelector"] = dict(labels)
    return scheduler


def _device_plugin(fleet: FleetPlan, engine: Engine) -> JsonObject:
    promised = engine.settings.oversubscription
    plugin: JsonObject = {
        "deviceSplitCount": engine.shares_per_gpu,
        "deviceMemoryScaling": _ratio(promised.memory_percent),
        "deviceCoreScaling": _ratio(promised.compute_percent),
        # The chart's example names a node that does not exist.
        "nodeConfiguration": {"config": json.dumps({"nodeconfig": []})},
        "nvidiaNodeSelector": dict(_NODES),
        "tolerations": tolerations(fleet.pools),
        # The chart's own opens a port on every node.
        "service": {"type": "ClusterIP"},
        # Helm waits for all nodes but these: a dead node must not keep it from the others.
        "updateStrategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%"},
        },
    }
    if toolkit_installed(fleet):
        plugin["runtimeClassName"] = RUNTIME_CLASS
        plugin["gpuOperatorToolkitReady"] = {"enabled": True}
    return plugin


def _ratio(percent: int) -> int | float:
    """150 -> 1.5. Whole numbers stay integers, as in the chart."""
    return percent // 100 if percent % 100 == 0 else percent / 100

"""Values of the GPU Operator's Helm chart."""

from __future__ import annotations

from collections.abc import Mapping

from infra.plan import SYSTEM_LABELS, EksFleetPlan
from infra.spec import GpuOperator
from infra.values.plugin_configs import NOT_SHARED
from infra.values.pods import tolerations
from infra.values.text import JsonObject


def operator_values(
    plan: EksFleetPlan, *, mig_config_map: str, plugin_config_map: str | None = None
) -> JsonObject:
    """Values of the GPU Operator's chart, all in its values.yaml: Helm ignores unknown keys.

    plugin_config_map: where pools share their GPUs.
    """
    operator = plan.operator
    tolerated = tolerations(plan.pools)
    values: JsonObject = {
        "mig": {"strategy": operator.mig_strategy},
        # The operator itself needs no GPU node; its operands do.
        "operator": {"nodeSelector": dict(SYSTEM_LABELS)},
        # A list replaces the chart's own, so its default toleration is repeated.
        "daemonsets": {"tolerations": tolerated},
        "driver": {"enabled": operator.driver.enabled},
        "toolkit": {"enabled": operator.toolkit.enabled},
        "devicePlugin": {"enabled": True},
        "gfd": {"enabled": True},
        "dcgmExporter": {
            "enabled": operator.dcgm_exporter.enabled,
            # On by default since 26.7, and useless without Prometheus' CRDs.
            "serviceMonitor": {"enabled": False},
        },
        "migManager": {
            "enabled": True,
            "config": {"name": mig_config_map, "default": operator.mig_manager.default_config},
            # A string: the chart passes it on as an environment variable.
            "env": [
                {
                    "name": "WITH_REBOOT",
                    "value": "true" if operator.mig_manager.with_reboot else "false",
                }
            ],
        },
        # Without these, NFD's worker does not label a new GPU node, and the operator ignores a node
        # without a PCI label.
        "node-feature-discovery": {"worker": {"tolerations": tolerated}},
    }
    if plugin_config_map is not None:
        values["devicePlugin"]["config"] = {"name": plugin_config_map, "default": NOT_SHARED}
    pinned: Mapping[str, str | None] = {
        "driver": operator.driver.version,
        "toolkit": operator.toolkit.version,
        "devicePlugin": operator.device_plugin.version,
        "gfd": operator.gfd.version,
        "dcgmExporter": operator.dcgm_exporter.version,
        "migManager": operator.mig_manager.version,
    }
    for component, version in pinned.items():
        if version is not None:
            values[component]["version"] = version
    return values


def operator_account(operator: GpuOperator) -> str:
    """The user name of the GPU operator at the API server.

    Source: NVIDIA/gpu-operator chart, templates/serviceaccount.yaml: the account's name is fixed.
    """
    return f"system:serviceaccount:{operator.namespace}:gpu-operator"

"""Values of the GPU Operator's Helm chart, all in its values.yaml: Helm ignores unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra.manifests.gpu_operator.config_files import OperatorFiles
from slicewright.infra.manifests.gpu_operator.device_list import (
    BY_MOUNTS,
    MOUNTS_COUNT,
    STRATEGY,
    VARIABLE_COUNTS,
)
from slicewright.infra.manifests.gpu_operator.driver_installer import DRIVER_DIRECTORY
from slicewright.infra.manifests.gpu_operator.plugin_configs import default_config
from slicewright.infra.manifests.helm_charts import ChartAddress, chart_address
from slicewright.infra.manifests.placement import system_labels
from slicewright.infra.manifests.pods import tolerations
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import FleetPlan, GkeFleetPlan
from slicewright.infra.stack_file import GpuOperator

_CHART: Final = "gpu-operator"
_REPOSITORIES: Final[Mapping[str, str]] = {
    "operator": "nvidia",
    "validator": "nvidia",
    "driver": "nvidia",
    "toolkit": "nvidia/k8s",
    "devicePlugin": "nvidia",
    "gfd": "nvidia",
    "dcgmExporter": "nvidia/k8s",
    "migManager": "nvidia/cloud-native",
}
"""Section -> path of its image below nvcr.io. Source: values.yaml of chart v26.7.0."""
_DRIVER_MANAGER: Final = "nvidia/cloud-native"
_NFD_IMAGE: Final = "nfd/node-feature-discovery"
"""Below registry.k8s.io. Source: values.yaml of NFD's chart, 0.19.0."""


def chart_of(operator: GpuOperator) -> ChartAddress:
    return chart_address(_CHART, operator.repository, operator.chart_path)


def operator_values(plan: FleetPlan, files: OperatorFiles) -> JsonObject:
    """The values for a fleet with an operator. files: from `operator_files`."""
    operator = plan.operator
    assert operator is not None
    tolerated = tolerations(plan.operated)
    values = _components(plan, operator, tolerated, files)
    if plan.engine is not None and not isinstance(plan, GkeFleetPlan):
        # A node has one device plugin: the engine's.
        values["devicePlugin"] = {"enabled": False}
    if labels := system_labels(plan):
        # The operator itself needs no GPU node; its operands do.
        values["operator"]["nodeSelector"] = dict(labels)
    if isinstance(plan, GkeFleetPlan):
        _fit_to_gke(values, operator)
    if operator.device_list == "volume-mounts":
        _list_by_mounts(values, operator)
    if operator.nfd.enabled:
        # Without these, NFD's worker does not label a new GPU node, and the operator ignores a node
        # without a PCI label.
        values["node-feature-discovery"] = {"worker": {"tolerations": tolerated}}
    _use_optional_files(values, plan, files)
    _pin_versions(values, operator)
    if any(pool.driver_version for pool in plan.pools):
        # The fleet controller replaces the driver pods, by the rollout policy of each pool. Source:
        # docs.nvidia.com, GPU Operator, "GPU Driver Upgrades" without the upgrade controller.
        values["driver"]["upgradePolicy"] = {"autoUpgrade": False}
    _use_mirror(values, operator)
    # Helm keeps the chart's own settings for a section that is left out.
    return {section: content for section, content in values.items() if content}


def _components(
    plan: FleetPlan, operator: GpuOperator, tolerated: list[JsonObject], files: OperatorFiles
) -> JsonObject:
    """The components to install, with the settings that they have in every fleet."""
    return {
        "nfd": {"enabled": operator.nfd.enabled},
        "cdi": {"enabled": operator.cdi},
        "mig": {"strategy": operator.mig_strategy},
        "operator": {"upgradeCRD": operator.upgrade_crds},
        # A list replaces the chart's own, so its default toleration is repeated.
        "daemonsets": {"tolerations": tolerated},
        "validator": {},
        "driver": {"enabled": operator.driver.enabled},
        "toolkit": {"enabled": operator.toolkit.enabled},
        "devicePlugin": {"enabled": True},
        "gfd": {"enabled": True},
        "dcgmExporter": {
            "enabled": operator.dcgm_exporter.enabled,
            "serviceMonitor": _service_monitor(operator),
        },
        "migManager": _mig_manager(plan, operator, files),
    }


def _mig_manager(plan: FleetPlan, operator: GpuOperator, files: OperatorFiles) -> JsonObject:
    reboots = "true" if operator.mig_manager.with_reboot else "false"
    # If somebody removed the label that keeps mig-manager off nodes partitioned at boot, the
    # operator's default layout would make it delete their partitions. Source: NVIDIA/gpu-operator,
    # controllers/state_manager.go.
    at_boot = any(pool.boot_layout is not None for pool in plan.pools)
    return {
        # Not where every pool that has MIG is partitioned when its nodes boot.
        "enabled": not at_boot or any(pool.offer.mig_config is not None for pool in plan.pools),
        "config": {
            "name": files.mig_layouts.name,
            "default": "" if at_boot else operator.mig_manager.default_config,
        },
        # Strings: the chart passes them on as environment variables.
        "env": [{"name": "WITH_REBOOT", "value": reboots}, *_kubelet_service(operator)],
    }


def _kubelet_service(operator: GpuOperator) -> list[JsonObject]:
    """The setting that keeps mig-manager from stopping the kubelet: a unit that no host has.

    An empty value would do too, if every program on the way kept it. Source: NVIDIA/mig-parted
    v0.15.1, cmd/nvidia-mig-manager and internal/systemd.
    """
    if operator.mig_manager.stop_kubelet:
        return []
    return [{"name": "HOST_KUBELET_SYSTEMD_SERVICE", "value": "none.service"}]


def _use_optional_files(values: JsonObject, plan: FleetPlan, files: OperatorFiles) -> None:
    if files.plugin_configs is not None:
        values["devicePlugin"]["config"] = {
            "name": files.plugin_configs.name,
            "default": default_config(plan.operated),
        }
    if files.dcgm_metrics is not None:
        values["dcgmExporter"]["config"] = {"name": files.dcgm_metrics.name}
    if files.gpu_clients is not None:
        values["migManager"]["gpuClientsConfig"] = {"name": files.gpu_clients.name}


def _fit_to_gke(values: JsonObject, operator: GpuOperator) -> None:
    """Source: NVIDIA GPU operator docs, "Google GKE"."""
    # From GKE 1.33 on, the toolkit would otherwise write containerd's configuration without GKE's
    # network plugin, and no pod would start. Source: NVIDIA/gpu-operator #1577.
    values["toolkit"]["env"] = [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]
    if not operator.driver.enabled:
        # Only then: if the operator installs the driver, its validation would never end.
        values["hostPaths"] = {"driverInstallDir": DRIVER_DIRECTORY}
        values["toolkit"]["installDir"] = DRIVER_DIRECTORY


def _list_by_mounts(values: JsonObject, operator: GpuOperator) -> None:
    """Source of the order: NVIDIA/gpu-operator, controllers/object_controls.go, where these
    variables replace those that the operator sets.
    """
    obeys = {VARIABLE_COUNTS: "false", MOUNTS_COUNT: "true"}
    env = values["toolkit"].setdefault("env", [])
    env += [{"name": name, "value": value} for name, value in obeys.items()]
    if not operator.cdi:
        # With CDI the plugin allocates by CDI, which needs neither. There the runtime could not
        # resolve a mount: its specification has one device, `all`.
        values["devicePlugin"]["env"] = [{"name": STRATEGY, "value": BY_MOUNTS}]


def _service_monitor(operator: GpuOperator) -> JsonObject:
    """The chart enables it by default since 26.7, but it needs the CRDs of Prometheus."""
    monitor = operator.dcgm_exporter.service_monitor
    if not monitor.enabled:
        return {"enabled": False}
    interval = monitor.interval_seconds
    return {
        "enabled": True,
        "interval": f"{interval}s",
        # Prometheus refuses a timeout that is longer than the interval.
        "scrapeTimeout": f"{min(10, interval)}s",
        "additionalLabels": dict(sorted(monitor.labels.items())),
    }


def _pin_versions(values: JsonObject, operator: GpuOperator) -> None:
    pinned: Mapping[str, str | None] = {
        "validator": operator.validator.version,
        "driver": operator.driver.version,
        "toolkit": operator.toolkit.version,
        "devicePlugin": operator.device_plugin.version,
        "gfd": operator.gfd.version,
        "dcgmExporter": operator.dcgm_exporter.version,
        "migManager": operator.mig_manager.version,
    }
    for section, version in pinned.items():
        if version is not None:
            values[section]["version"] = version


def _use_mirror(values: JsonObject, operator: GpuOperator) -> None:
    registry, secrets = operator.registry, list(operator.image_pull_secrets)
    for section, path in _REPOSITORIES.items():
        if registry is not None:
            values[section]["repository"] = f"{registry}/{path}"
        if secrets:
            values[section]["imagePullSecrets"] = secrets
    if registry is not None:
        values["driver"]["manager"] = {"repository": f"{registry}/{_DRIVER_MANAGER}"}
    if operator.nfd.enabled and registry is not None:
        values["node-feature-discovery"]["image"] = {"repository": f"{registry}/{_NFD_IMAGE}"}
    if operator.nfd.enabled and secrets:
        # NFD's chart wants references, the operator's wants names.
        values["node-feature-discovery"]["imagePullSecrets"] = [{"name": s} for s in secrets]


def operator_account(operator: GpuOperator) -> str:
    """The user name of the GPU operator at the API server.

    Source: NVIDIA/gpu-operator chart, templates/serviceaccount.yaml: the account's name is fixed.
    """
    return f"system:serviceaccount:{operator.namespace}:gpu-operator"

"""The ClusterPolicy. Names and defaults: CRD nvidia.com/v1 of chart gpu-operator v26.7.0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject

DRIVER_DIRECTORY = "/run/nvidia/driver"
TOOLKIT_DIRECTORY = "/usr/local/nvidia"
NO_IMAGE = "empty image path provided through both ClusterPolicy CR and ENV"
_DEFAULT_TOLERATIONS: tuple[JsonObject, ...] = (
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
)


class PolicyError(Exception):
    """The ClusterPolicy cannot be applied; the message is written to its status."""


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One operand's section of the spec."""

    enabled: bool
    image: str
    """Empty while disabled; resolved by `image_of` otherwise."""
    pull_policy: str
    env: tuple[JsonObject, ...]
    args: tuple[str, ...]
    resources: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Policy:
    name: str
    uid: str
    generation: int
    mig_strategy: str
    cdi: bool
    """Whether containers get their GPUs by CDI."""
    runtime_class: str
    tolerations: tuple[JsonObject, ...]
    priority_class: str
    update_strategy: JsonObject
    daemonset_labels: Mapping[str, str]
    daemonset_annotations: Mapping[str, str]
    driver: Operand
    """Its image lacks the nodes' system, for which the driver is built: `driver_image`."""
    driver_manager: Operand
    upgrades_drivers: bool
    """Whether the operator replaces outdated driver pods. That is not simulated, but then
    driver-manager leaves it to the operator to empty the node.
    """
    driver_directory: str
    """On the host: where a driver is that is not in the nodes' image."""
    toolkit: Operand
    toolkit_directory: str
    """On the host: where the toolkit installs its programs."""
    device_plugin: Operand
    device_plugin_config: str
    """ConfigMap of named sharing configs; empty for none."""
    device_plugin_default: str
    mps_root: str
    gfd: Operand
    mig_manager: Operand
    mig_config: str
    """ConfigMap with key config.yaml; empty: the generated default."""
    mig_default: str
    """Value of nvidia.com/mig.config for nodes without that label; empty: none is set."""
    gpu_clients: str
    validator: Operand
    dcgm_exporter: Operand


def parse(cluster_policy: JsonObject) -> Policy:
    """Raises PolicyError for what the real operator refuses, and for unsupported operands."""
    spec = cluster_policy.get("spec") or {}
    metadata = cluster_policy["metadata"]
    _check_simulated(spec)
    daemonsets = spec.get("daemonsets") or {}
    strategy = daemonsets.get("updateStrategy") or "RollingUpdate"
    rolling = daemonsets.get("rollingUpdate") or {"maxUnavailable": "1"}
    driver = spec.get("driver") or {}
    # As in the CRD's defaults.
    has_driver = _enabled(driver, default=True)
    toolkit = spec.get("toolkit") or {}
    device_plugin = spec.get("devicePlugin") or {}
    config = device_plugin.get("config") or {}
    mig_manager = spec.get("migManager") or {}
    mig_config = mig_manager.get("config") or {}
    return Policy(
        name=metadata["name"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation", 0)),
        mig_strategy=(spec.get("mig") or {}).get("strategy") or "single",
        cdi=_enabled(spec.get("cdi"), default=True),
        runtime_class=(spec.get("operator") or {}).get("runtimeClass") or "nvidia",
        tolerations=tuple(daemonsets.get("tolerations") or _DEFAULT_TOLERATIONS),
        priority_class=daemonsets.get("priorityClassName") or "system-node-critical",
        update_strategy=_update_strategy(strategy, rolling),
        daemonset_labels=dict(daemonsets.get("labels") or {}),
        daemonset_annotations=dict(daemonsets.get("annotations") or {}),
        driver=_operand(driver),
        driver_manager=_operand({**(driver.get("manager") or {}), "enabled": has_driver}),
        upgrades_drivers=has_driver
        and bool((driver.get("upgradePolicy") or {}).get("autoUpgrade")),
        driver_directory=(spec.get("hostPaths") or {}).get("driverInstallDir") or DRIVER_DIRECTORY,
        toolkit=_operand(toolkit),
        toolkit_directory=toolkit.get("installDir") or TOOLKIT_DIRECTORY,
        device_plugin=_operand(device_plugin),
        device_plugin_config=config.get("name") or "",
        device_plugin_default=config.get("default") or "",
        mps_root=(device_plugin.get("mps") or {}).get("root") or "/run/nvidia/mps",
        gfd=_operand(spec.get("gfd")),
        mig_manager=_operand(mig_manager),
        mig_config=mig_config.get("name") or "",
        mig_default=mig_config.get("default", "all-disabled"),
        gpu_clients=(mig_manager.get("gpuClientsConfig") or {}).get("name") or "",
        validator=_operand(spec.get("validator"), always=True),
        dcgm_exporter=_operand(spec.get("dcgmExporter")),
    )


def _check_simulated(spec: JsonObject) -> None:
    for missing, advice in (
        ("dcgm", "dcgm.enabled=false: dcgm-exporter has an embedded engine"),
        ("nodeStatusExporter", "nodeStatusExporter.enabled=false"),
        ("sandboxWorkloads", "sandboxWorkloads.enabled=false"),
    ):
        if _enabled(spec.get(missing), default=False):
            raise PolicyError(
                f"{missing} is enabled, which the rehearsal's GPU operator does not "
                f"simulate; set {advice}"
            )
    driver = spec.get("driver") or {}
    if driver.get("usePrecompiled") or driver.get("useNvidiaDriverCRD"):
        raise PolicyError(
            "precompiled drivers and NVIDIADriver objects are not simulated by the rehearsal's GPU "
            "operator; set driver.usePrecompiled=false and driver.nvidiaDriverCRD.enabled=false"
        )


def image_of(section: JsonObject) -> str:
    """`repository/image:version`, or `@` before a digest. Raises PolicyError if one is missing."""
    repository, image, version = (section.get(k) or "" for k in ("repository", "image", "version"))
    if not repository and not version and image:
        return str(image)
    if not (repository and image and version):
        raise PolicyError(NO_IMAGE)
    return f"{repository}/{image}{'@' if str(version).startswith('sha256:') else ':'}{version}"


def driver_image(policy: Policy, system: str) -> str:
    """system: of the nodes, as `ubuntu22.04`."""
    image = policy.driver.image
    return image if "@sha256:" in image else f"{image}-{system}"


def _operand(section: JsonObject | None, *, always: bool = False) -> Operand:
    given = section or {}
    enabled = always or _enabled(section, default=True)
    return Operand(
        enabled=enabled,
        image=image_of(given) if enabled else "",
        pull_policy=given.get("imagePullPolicy") or "IfNotPresent",
        env=tuple(given.get("env") or ()),
        args=tuple(given.get("args") or ()),
        resources=dict(given.get("resources") or {}),
    )


def _enabled(section: JsonObject | None, *, default: bool) -> bool:
    value = (section or {}).get("enabled")
    return default if value is None else bool(value)


def _update_strategy(strategy: str, rolling: JsonObject) -> JsonObject:
    if strategy == "OnDelete":
        return {"type": "OnDelete"}
    most = rolling.get("maxUnavailable", "1")
    # A string in the CR; a DaemonSet takes a number, or a percentage as a string.
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": int(most) if str(most).isdigit() else most},
    }

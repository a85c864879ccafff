"""Refuses settings of the GPU Operator that cannot work for any pools."""

from __future__ import annotations

from collections.abc import Iterable

from slicewright.infra import catalog, stack_file
from slicewright.infra.plan.findings import Checked, Stated, nearest, refuse, rule
from slicewright.infra.plan.model.nodes import AnyCloud
from slicewright.infra.plan.model.pools import EksSettings, GkeSettings, PoolPlan

_AT = "gpu_operator"


def resolved(operator: stack_file.GpuOperator, cloud: AnyCloud) -> stack_file.GpuOperator:
    """The operator's settings. If the container toolkit is not stated, the nodes' images decide.

    GKE's images have none that the operator can use. EKS's have their own. Existing nodes without
    a driver are taken to have none either. Source: NVIDIA GPU operator docs, "GKE"; EKS AMI docs.
    """
    if operator.toolkit.enabled is not None:
        return operator
    with_driver = cloud == "gke" or (cloud == "byo" and operator.driver.enabled)
    toolkit = operator.toolkit.model_copy(update={"enabled": with_driver})
    return operator.model_copy(update={"toolkit": toolkit})


@rule("gpu-operator-on-gke")
def check_on_gke(operator: stack_file.GpuOperator, image_types: Iterable[str]) -> Checked[None]:
    """Refuses settings that need parts which GKE's images lack. The operator has no driver
    container for Container-Optimized OS: Google installs the driver there.
    """
    if not operator.toolkit.enabled:
        yield refuse(
            (_AT, "toolkit", "enabled"),
            "GKE's images have no container toolkit, and without it none of the operator's pods "
            "that use a GPU starts",
            "leave it out, or write true",
            "NVIDIA GPU operator docs, Google GKE",
        )
    if operator.driver.enabled and "COS_CONTAINERD" in image_types:
        yield refuse(
            (_AT, "driver", "enabled"),
            "NVIDIA publishes no container with a driver for Container-Optimized OS; Google's "
            "driver installer has it",
            "write false, or image_type: UBUNTU_CONTAINERD in every pool that the operator manages",
            "NVIDIA/gpu-operator #1623",
        )
    if not operator.driver.enabled and not operator.cdi:
        yield refuse(
            (_AT, "cdi"),
            "beside Google's driver installer, NVIDIA supports the operator with CDI only",
            "leave it out, or write true",
            "NVIDIA GPU operator docs, Google GKE",
        )


_OF_AN_ADOPTED = frozenset(
    (
        "existing",
        "cluster_policy",
        "namespace",
        "mig_strategy",
        "mig_manager",
        "chart_version",
        "device_plugin",
        "device_list",
    )
)
"""Keys of an operator that slicewright does not install. Of mig_manager only with_reboot is
allowed, which is checked.
"""


@rule("gpu-operator-existing")
def _check_adopted(operator: stack_file.GpuOperator, cloud: AnyCloud) -> Checked[None]:
    """Refuses settings that would be passed to a chart which is not installed, and adoption where
    the cluster is new.
    """
    if operator.existing and cloud != "byo":
        yield refuse(
            (_AT, "existing"),
            "a cluster that is created here has no operator yet",
            "write false, or cloud: byo",
        )
        return
    if not operator.existing:
        if "cluster_policy" in operator.model_fields_set:
            yield refuse(
                (_AT, "cluster_policy"),
                "is not used: only the ClusterPolicy of an existing operator is read",
                "leave it out, or write existing: true",
                in_key=True,
            )
        return
    of_manager = operator.mig_manager.model_fields_set - {"with_reboot"}
    without_effect: list[stack_file.Path] = [
        *((_AT, key) for key in sorted(operator.model_fields_set - _OF_AN_ADOPTED)),
        *((_AT, "mig_manager", key) for key in sorted(of_manager)),
    ]
    for path in without_effect:
        yield refuse(
            path,
            "has no effect on an operator that exists: slicewright does not change it",
            "leave it out, and set it where that operator's settings are kept",
            in_key=True,
        )


_MOUNTS_WITH_CDI_FROM = "v25.10.0"
"""The first chart whose toolkit, v1.18.0, obeys mounts when it uses CDI. Source:
NVIDIA/nvidia-container-toolkit #1130.
"""


@rule("gpu-operator-device-list")
def _check_device_list(
    operator: stack_file.GpuOperator, cloud: AnyCloud, stated: Stated
) -> Checked[None]:
    """Refuses lists by mount if nothing of the stack makes the nodes' runtime obey them."""
    keys = ("existing", "toolkit", "driver", "cdi", "chart_version")
    if operator.device_list == "envvar" or not stated.has(*((_AT, key) for key in keys)):
        return
    if cloud == "eks":
        yield refuse(
            (_AT, "device_list"),
            "EKS's machine images bring NVIDIA's runtime with settings of their own, which the GPU "
            "operator does not change: it would still obey the variable, and not the mounts",
            "leave it out, and write pod_guard; Bottlerocket's nodes take lists by mount without "
            "this key",
            "awslabs/amazon-eks-ami; bottlerocket.dev, settings.nvidia-container-runtime",
        )
        return
    # On GKE an absent toolkit is refused by itself.
    if cloud == "byo" and not operator.existing and not resolved(operator, cloud).toolkit.enabled:
        yield refuse(
            (_AT, "device_list"),
            "the operator's container toolkit is not installed, and the runtime that the nodes "
            "bring keeps its own settings: it would still obey the variable, and not the mounts",
            "write toolkit: {enabled: true}, or leave it out and write pod_guard",
            "NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer",
        )
    if operator.cdi and not operator.existing and _is_before(operator, _MOUNTS_WITH_CDI_FROM):
        yield refuse(
            (_AT, "device_list"),
            f"the container toolkit of chart {operator.chart_version} does not obey mounts when it "
            "uses CDI, so no agent would see a GPU",
            f"write chart_version: {_MOUNTS_WITH_CDI_FROM} or newer, or cdi: false",
            "NVIDIA/nvidia-container-toolkit #1130",
        )


def _is_before(operator: stack_file.GpuOperator, chart: str) -> bool:
    """True if the toolkit is that of a chart older than `chart`."""
    if operator.toolkit.version is not None:
        return False
    version, first = (text.removeprefix("v") for text in (operator.chart_version, chart))
    return catalog.driver_order(version) < catalog.driver_order(first)


def asks_by_mount(pool: PoolPlan, operator: stack_file.GpuOperator | None) -> bool:
    """True if the runtime of the pool's nodes obeys mounts, and ignores the variable of containers
    without privileges. operator: the fleet's.
    """
    if isinstance(pool.settings, EksSettings):
        return pool.settings.bottlerocket
    if isinstance(pool.settings, GkeSettings) and not pool.operated:
        return False
    return operator is not None and operator.device_list == "volume-mounts"


@rule("gpu-operator-unused-version")
def _check_unused_versions(
    operator: stack_file.GpuOperator, cloud: AnyCloud, stated: Stated
) -> Checked[None]:
    """Refuses the version of a component that the operator does not install."""
    if operator.existing:
        return
    installed = resolved(operator, cloud)
    for name in ("driver", "toolkit", "dcgm_exporter"):
        component = getattr(installed, name)
        if component.version is not None and not component.enabled and stated.has((_AT, name)):
            yield refuse(
                (_AT, name, "version"),
                f"is not used: {name} is not installed by the operator",
                "leave it out, or write enabled: true",
                in_key=True,
            )


@rule("gpu-operator")
def check_operator(
    operator: stack_file.GpuOperator, cloud: AnyCloud, stated: Stated, *, new_cluster: bool
) -> Checked[None]:
    """Refuses fields that dcgm-exporter lacks, and settings that something else makes void.

    new_cluster: the stack makes it, so nothing is in it that the stack does not bring.
    """
    yield from _check_adopted(operator, cloud)
    yield from _check_device_list(operator, cloud, stated)
    yield from _check_unused_versions(operator, cloud, stated)
    if new_cluster and not operator.nfd.enabled:
        yield refuse(
            (_AT, "nfd", "enabled"),
            "a new cluster has no Node Feature Discovery of its own, and without its labels the "
            "operator takes no node for one with GPUs",
            "leave it out, or write true",
            "NVIDIA GPU operator docs, Prerequisites",
        )
    exporter = operator.dcgm_exporter
    fields = catalog.load().dcgm_fields
    for i, name in enumerate(exporter.metrics):
        if name not in fields:
            yield refuse(
                (_AT, "dcgm_exporter", "metrics", i),
                f"{name} is not a known field of DCGM; the exporter would not start",
                nearest(name, tuple(fields)),
                next(iter(fields.values())).source,
            )
    if not exporter.enabled and exporter.service_monitor.enabled:
        yield refuse(
            (_AT, "dcgm_exporter", "service_monitor", "enabled"),
            "there is nothing to monitor: dcgm_exporter.enabled is false",
            "leave one of them out",
        )
    if operator.chart_path is not None and "repository" in operator.model_fields_set:
        yield refuse(
            (_AT, "repository"),
            "is not used: chart_path names the chart",
            "leave one of them out",
            "Helm docs, charts",
            in_key=True,
        )

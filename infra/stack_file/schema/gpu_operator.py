"""The NVIDIA GPU operator: the chart values that a fleet may set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema import charts
from slicewright.infra.stack_file.schema.constraints import (
    DnsLabel,
    IntRange,
    NotEmpty,
    Pattern,
)
from slicewright.infra.stack_file.schema.field_types import Labels, NamespaceName, ObjectName
from slicewright.infra.stack_file.schema.model import SpecModel

_DIGEST = r"sha256:[0-9a-f]{64}"
_VALUES = "NVIDIA/gpu-operator, values.yaml"
_Version = Annotated[
    str,
    Pattern(
        pattern=r"(?!(?:latest|stable|main|master|edge|nightly|devel|dev)$)(?!.*\.[xX](?:\.|$))"
        rf"[A-Za-z0-9_][-A-Za-z0-9_.]{{0,127}}|{_DIGEST}",
        is_not="the version of one image: a tag that does not move, or a digest",
        examples=("v0.20.0",),
        source=_VALUES,
    ),
]
_DriverVersion = Annotated[
    str,
    Pattern(
        pattern=rf"[0-9]{{3,4}}(?:\.[0-9]+){{0,2}}(?:-[A-Za-z0-9_][-A-Za-z0-9_.]{{0,99}})?|{_DIGEST}",
        is_not="the version of a driver: its number, with -<system> of precompiled images, or a "
        "digest",
        examples=("580.126.20",),
        source=_VALUES,
    ),
]


class DriverSwitch(SpecModel):
    enabled: bool = False
    version: _DriverVersion | None = None


class Toolkit(SpecModel):
    enabled: bool | None = None
    """Whether the toolkit is installed. By default only on GKE, whose node images lack it."""
    version: _Version | None = None


class Component(SpecModel):
    version: _Version | None = None
    """Version. By default the chart's."""


class Nfd(SpecModel):
    """Node Feature Discovery. The operator finds GPU nodes by its labels."""

    enabled: bool = True
    """False if the cluster has it already. Its workers must tolerate the pools' taints."""


class ServiceMonitor(SpecModel):
    """A ServiceMonitor. The cluster must have the Prometheus operator's CRDs."""

    enabled: bool = False
    interval_seconds: Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=3600,
            unit="second",
            why_maximum="no dashboard or alert works with fewer samples",
            source="Prometheus docs, scrape_interval",
            alternative="enabled: false",
        ),
    ] = 15
    labels: Labels = Field(default_factory=dict)
    """Labels that the Prometheus operator selects, such as `{release: kube-prom-stack}`."""


_DcgmField = Annotated[
    str,
    Pattern(
        pattern=r"DCGM_FI_[A-Z0-9_]+",
        is_not="a field of DCGM",
        examples=("DCGM_FI_PROF_GR_ENGINE_ACTIVE",),
        source="NVIDIA/dcgm-exporter, etc/dcp-metrics-included.csv",
    ),
]
_SystemdService = Annotated[
    str,
    Pattern(
        pattern=r"[A-Za-z0-9:_.@-]+\.service",
        is_not="a systemd service",
        examples=("nvidia-persistenced.service",),
        source="NVIDIA/mig-parted, gpu-clients file",
    ),
]


class DcgmExporter(SpecModel):
    enabled: bool = True
    version: _Version | None = None
    metrics: Annotated[
        tuple[_DcgmField, ...],
        NotEmpty(
            why="the exporter would export its own list",
            instead="list fields, or write enabled: false for none; leave it out for the "
            "exporter's list",
        ),
    ] = ()
    """Fields of DCGM to export, and no others. By default the exporter's list."""
    service_monitor: ServiceMonitor = ServiceMonitor()


class MigManager(SpecModel):
    with_reboot: bool = True
    """Whether mig-manager may reboot a node to change its MIG mode: A100 GPUs need a reset, which
    clouds refuse.
    """
    stop_kubelet: bool = True
    """Whether mig-manager stops the kubelet while it changes the MIG mode, on nodes whose image
    brings the driver. Afterwards some nodes of EKS do not come back.
    """
    default_config: Literal["all-disabled", ""] = "all-disabled"
    """Layout of nodes without a layout. The chart allows no other value."""
    version: _Version | None = None
    host_services: Annotated[
        tuple[_SystemdService, ...],
        NotEmpty(
            why="mig-manager would stop the operator's list of services",
            instead="list services, or leave it out for the operator's list",
        ),
    ] = ()
    """systemd services to stop while GPUs change, instead of the operator's list."""


class GpuOperator(SpecModel):
    existing: bool = False
    """The cluster has the operator already: it is adopted, not installed, and its settings are
    checked. For `cloud: byo`.
    """
    cluster_policy: ObjectName = "cluster-policy"
    """Name of an existing operator's ClusterPolicy. The default is the chart's name."""
    namespace: NamespaceName = "gpu-operator"
    release: Annotated[str, DnsLabel(53, "Helm docs, release names", "gpu-operator")] = (
        "gpu-operator"
    )
    repository: Annotated[
        str,
        charts.repository("https://helm.ngc.nvidia.com/nvidia"),
    ] = "https://helm.ngc.nvidia.com/nvidia"
    chart_version: Annotated[
        str,
        Pattern(
            pattern=r"v?[0-9]+\.[0-9]+\.[0-9]+",
            is_not="a version of the GPU operator's chart: one exact version, not a range",
            examples=("v26.7.0",),
            source="NVIDIA's chart repository",
        ),
    ] = "v26.7.0"
    chart_path: (
        Annotated[
            str,
            charts.path("charts/gpu-operator-v26.7.0.tgz"),
        ]
        | None
    ) = None
    """The chart of that version as a file or directory, instead of `repository`."""
    registry: charts.Registry | None = None
    """A mirror instead of nvcr.io and registry.k8s.io, with the same paths."""
    image_pull_secrets: tuple[ObjectName, ...] = ()
    """Secrets of the operator's namespace."""
    upgrade_crds: bool = True
    """A job of the chart updates the CRDs at each upgrade. Helm itself never does."""
    nfd: Nfd = Nfd()
    cdi: bool = True
    """Containers get their GPUs by the Container Device Interface."""
    device_list: Literal["envvar", "volume-mounts"] = "envvar"
    """How a container without privileges may name GPUs to NVIDIA's runtime: by the variable
    NVIDIA_VISIBLE_DEVICES, or only by mounts, so that it gets those that it requests and no others.
    """
    mig_strategy: Literal["none", "single", "mixed"] = "mixed"
    """One per cluster. `mixed` advertises nvidia.com/mig-<profile>, `single` nvidia.com/gpu."""
    driver: DriverSwitch = DriverSwitch()
    toolkit: Toolkit = Toolkit()
    device_plugin: Component = Component()
    gfd: Component = Component()
    dcgm_exporter: DcgmExporter = DcgmExporter()
    validator: Component = Component()
    mig_manager: MigManager = MigManager()

"""NVIDIA's GPU operator, as much of its chart as a fleet decides."""

from __future__ import annotations

from typing import Annotated, Literal

from infra.spec.schema.base import Spec
from infra.spec.schema.limits import DnsName, Form, Named

_Version = Annotated[str, Named("a version", "chart of the GPU operator", "v0.20.0")]


class ComponentSwitch(Spec):
    enabled: bool = False
    version: _Version | None = None


class Component(Spec):
    version: _Version | None = None
    """The chart's own where not said."""


class MigManager(Spec):
    with_reboot: bool = True
    """May reboot a node for a change of MIG mode: clouds refuse the reset of an A100 that it needs
    otherwise.
    """
    default_config: Literal["all-disabled", ""] = "all-disabled"
    """What the operator writes on nodes without a layout; the chart allows no other."""
    version: _Version | None = None


class GpuOperator(Spec):
    namespace: Annotated[str, DnsName(63, "Kubernetes docs, namespaces", "gpu-operator")] = (
        "gpu-operator"
    )
    release: Annotated[str, DnsName(53, "Helm docs, release names", "gpu-operator")] = (
        "gpu-operator"
    )
    repository: Annotated[
        str,
        Form(
            pattern=r"(https?|oci)://.+",
            wrong="is no address of a chart repository",
            examples=("https://helm.ngc.nvidia.com/nvidia", "oci://registry.example.com/charts"),
            source="Helm docs, repositories",
        ),
    ] = "https://helm.ngc.nvidia.com/nvidia"
    chart_version: Annotated[
        str,
        Form(
            pattern=r"v?[0-9]+\.[0-9]+\.[0-9]+",
            wrong="is no version of the GPU operator's chart: one exact version, no range",
            examples=("v26.7.0",),
            source="NVIDIA's chart repository",
        ),
    ] = "v26.7.0"
    mig_strategy: Literal["none", "single", "mixed"] = "mixed"
    """One per cluster: `mixed` advertises nvidia.com/mig-<profile>, `single` advertises every
    partition as nvidia.com/gpu.
    """
    driver: ComponentSwitch = ComponentSwitch()
    toolkit: ComponentSwitch = ComponentSwitch()
    device_plugin: Component = Component()
    gfd: Component = Component()
    dcgm_exporter: ComponentSwitch = ComponentSwitch(enabled=True)
    mig_manager: MigManager = MigManager()

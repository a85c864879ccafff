"""The NVIDIA GPU operator: the chart values that a fleet may set."""

from __future__ import annotations

from typing import Annotated, Literal

from infra.spec.schema.constraints import DnsLabel, FreeText, Pattern
from infra.spec.schema.model import SpecModel

_Version = Annotated[str, FreeText("a version", "NVIDIA/gpu-operator, values.yaml", "v0.20.0")]


class ComponentSwitch(SpecModel):
    enabled: bool = False
    version: _Version | None = None


class Component(SpecModel):
    version: _Version | None = None
    """By default the chart's own."""


class MigManager(SpecModel):
    with_reboot: bool = True
    """May reboot a node to change its MIG mode, which on A100 needs a reset that clouds refuse."""
    default_config: Literal["all-disabled", ""] = "all-disabled"
    """What the operator applies to nodes without a layout; the chart allows no other value."""
    version: _Version | None = None


class GpuOperator(SpecModel):
    namespace: Annotated[str, DnsLabel(63, "Kubernetes docs, namespaces", "gpu-operator")] = (
        "gpu-operator"
    )
    release: Annotated[str, DnsLabel(53, "Helm docs, release names", "gpu-operator")] = (
        "gpu-operator"
    )
    repository: Annotated[
        str,
        Pattern(
            pattern=r"(https?|oci)://.+",
            is_not="the URL of a chart repository",
            examples=("https://helm.ngc.nvidia.com/nvidia", "oci://registry.example.com/charts"),
            source="Helm docs, repositories",
        ),
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
    mig_strategy: Literal["none", "single", "mixed"] = "mixed"
    """One per cluster. `mixed` advertises nvidia.com/mig-<profile>, `single` nvidia.com/gpu."""
    driver: ComponentSwitch = ComponentSwitch()
    toolkit: ComponentSwitch = ComponentSwitch()
    device_plugin: Component = Component()
    gfd: Component = Component()
    dcgm_exporter: ComponentSwitch = ComponentSwitch(enabled=True)
    mig_manager: MigManager = MigManager()

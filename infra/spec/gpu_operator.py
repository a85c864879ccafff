"""NVIDIA's GPU operator, as much of its chart as a fleet decides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from infra.spec.base import DnsName, Spec


class ComponentSwitch(Spec):
    enabled: bool = False
    version: str | None = None


class Component(Spec):
    version: str | None = None
    """The chart's own where not said."""


class MigManager(Spec):
    with_reboot: bool = True
    """May reboot a node for a change of MIG mode: clouds refuse the reset of an A100 that it needs otherwise."""
    default_config: Literal["all-disabled", ""] = "all-disabled"
    """What the operator writes on nodes without a layout; the chart allows no other."""
    version: str | None = None


class GpuOperator(Spec):
    namespace: Annotated[str, DnsName(63)] = "gpu-operator"
    release: Annotated[str, DnsName(53)] = "gpu-operator"
    repository: Annotated[str, Field(pattern=r"^(https?|oci)://.+$")] = "https://helm.ngc.nvidia.com/nvidia"
    chart_version: Annotated[str, Field(pattern=r"^v?\d+\.\d+\.\d+$")] = "v26.7.0"
    mig_strategy: Literal["none", "single", "mixed"] = "mixed"
    """One per cluster: `mixed` advertises nvidia.com/mig-<profile>, `single` advertises every partition as nvidia.com/gpu."""
    driver: ComponentSwitch = ComponentSwitch()
    toolkit: ComponentSwitch = ComponentSwitch()
    device_plugin: Component = Component()
    gfd: Component = Component()
    dcgm_exporter: ComponentSwitch = ComponentSwitch(enabled=True)
    mig_manager: MigManager = MigManager()

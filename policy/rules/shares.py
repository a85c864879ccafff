"""A rule about engines that share GPUs by fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from policy.rules.declared import UNKNOWN, Resource, at
from policy.rules.rule import Settings, StackRule

_PLUGINS: Final = ("hami", "volcano-vgpu-device-plugin")
"""Charts of engines with a device plugin of their own."""


def _one_device_plugin(
    resources: Sequence[Resource], settings: Settings
) -> Iterator[tuple[str, str]]:
    engines = [resource for resource in resources if _chart(resource) in _PLUGINS]
    if not engines:
        return
    names = ", ".join(sorted({_chart(engine) for engine in engines}))
    for extra in engines[1:]:
        yield (
            extra.urn,
            f"the stack installs several device plugins for fractions of GPUs ({names}), and each "
            "would allocate cards that the other one has allocated; keep one engine",
        )
    for resource in resources:
        if _chart(resource) != "gpu-operator":
            continue
        enabled = at(resource.props, "values", "devicePlugin", "enabled")
        if enabled not in (False, UNKNOWN):
            yield (
                resource.urn,
                f"{resource.name!r} installs NVIDIA's device plugin beside {names}, and both would "
                "advertise the same GPUs; write devicePlugin.enabled: false",
            )


def _chart(resource: Resource) -> str:
    """The name of a release's chart, or empty for other resources."""
    chart = at(resource.props, "chart")
    if resource.type != "kubernetes:helm.sh/v3:Release" or not isinstance(chart, str):
        return ""
    return chart.rstrip("/").rpartition("/")[2]


RULES: tuple[StackRule, ...] = (
    StackRule(
        name="one-device-plugin",
        description="No two device plugins advertise the same GPUs.",
        level="mandatory",
        check=_one_device_plugin,
    ),
)

"""Rules about the NVIDIA driver: who installs it, and how many nodes lose it at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from policy.rules.pools import Pool, pool_check
from policy.rules.resources import UNKNOWN, Resource, property_at, whole
from policy.rules.rule import ResourceRule, Settings, number

_RELEASE = re.compile(r"\d+\.\d+\.\d+")
_PARALLEL, _UNAVAILABLE = 1, "25%"
"""Defaults of the chart. Source: NVIDIA/gpu-operator v26.7.0, values.yaml, driver.upgradePolicy."""


def _upgrade(resource: Resource, settings: Settings) -> Iterator[str]:
    driver = _driver(resource)
    policy = property_at(driver, "upgradePolicy")
    if driver is None or UNKNOWN in (driver, policy):
        return
    # Upgrades are off, or not known yet.
    if {property_at(driver, "enabled"), property_at(policy, "autoUpgrade")} & {False, UNKNOWN}:
        return
    most, percent = int(settings["most_nodes"]), int(settings["most_percent"])
    parallel = _default_if_none(property_at(policy, "maxParallelUpgrades"), _PARALLEL)
    unavailable = _default_if_none(property_at(policy, "maxUnavailable"), _UNAVAILABLE)
    if UNKNOWN in (parallel, unavailable):
        return
    at_once = whole(parallel)
    if at_once == 0:
        at_once = None  # as many as maxUnavailable allows. Source: the chart's values.yaml
    allowed, share = _nodes(unavailable)
    bounds = [bound for bound in (at_once, allowed) if bound is not None]
    if bounds and min(bounds) <= most:
        return
    if share is not None and share <= percent and not bounds:
        return
    yield (
        f"{resource.name!r} may upgrade the driver on more nodes at once than {most} or "
        f"{percent} %: driver.upgradePolicy has maxParallelUpgrades "
        f"{_format_number(parallel)} (0: no limit) and maxUnavailable {_format_number(unavailable)}"
    )


def _driver(resource: Resource) -> Any:
    """The driver settings of the operator's chart or ClusterPolicy, None for other resources."""
    if resource.type == "kubernetes:nvidia.com/v1:ClusterPolicy":
        return property_at(resource.props, "spec", "driver")
    chart = property_at(resource.props, "chart")
    is_operator = isinstance(chart, str) and chart.rstrip("/").rpartition("/")[2] == "gpu-operator"
    if resource.type == "kubernetes:helm.sh/v3:Release" and is_operator:
        return property_at(resource.props, "values", "driver") or {}
    return None


def _default_if_none(value: Any, default: Any) -> Any:
    return default if value is None else value


def _nodes(unavailable: Any) -> tuple[int | None, int | None]:
    """A number of nodes, or a percentage."""
    if isinstance(unavailable, str) and unavailable.endswith("%"):
        return None, whole(unavailable[:-1])
    return whole(unavailable), None


def _format_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


def _version(resource: Resource, settings: Settings) -> Iterator[str]:
    driver = _driver(resource)
    version = property_at(driver, "version")
    if driver is None or property_at(driver, "enabled") is False or not isinstance(version, str):
        return  # without a version, the chart's release determines it
    if not _RELEASE.match(version):
        yield (
            f"{resource.name!r} installs the driver {version!r}, which is not a full version: "
            "nodes that join later may get another release; write the full version, such as "
            "580.105.08"
        )


def _gke_version(pool: Pool, settings: Settings) -> Iterator[str]:
    for accelerator in pool.accelerators:
        if accelerator.driver == "LATEST":
            yield (
                f"pool {pool.name!r} lets GKE install its LATEST driver, which changes with a "
                "node's GKE version, even to another branch; DEFAULT stays on the tested driver"
            )


def _driver_pinning(resource: Resource, settings: Settings) -> Iterator[str]:
    yield from _version(resource, settings)
    yield from pool_check(_gke_version)(resource, settings)


RULES = (
    ResourceRule(
        name="driver-pinned",
        description="All nodes get the same driver release.",
        level="advisory",
        check=_driver_pinning,
    ),
    ResourceRule(
        name="driver-upgrade",
        description="A driver upgrade affects few nodes at once.",
        level="mandatory",
        settings=(
            number("most_nodes", "nodes that lose the driver at once", 4),
            number("most_percent", "percentage of the nodes, if no number limits them", 25),
        ),
        check=_upgrade,
    ),
)

"""Whether the GPU Operator's device plugin advertises the planned partitions under their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from slicewright.apis.label_keys import PLUGIN_CONFIG_LABEL
from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import DevicePluginIssue, driver_order
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.pools import EksSettings, GkeSettings, PoolPlan
from slicewright.infra.plan.partition.sharing import alike_by_mps

_P = TypeVar("_P", bound=PoolPlan)
_VERSION = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)")


_MPS_STRICT = DevicePluginIssue(
    version="0.20.0",
    chart="v26.7.0",
    endings=(),
    source="NVIDIA/k8s-device-plugin v0.19.0, api/config/v1/config.go",
)
"""Older plugins set failRequestsGreaterThanOne to true for MPS, and ignore the config's value."""
_MPS_STARVED_FROM = DevicePluginIssue(
    version="0.19.0",
    chart="v26.3.0",
    endings=(),
    source="NVIDIA/k8s-device-plugin v0.19.0, cmd/config-manager/main.go",
)
_MPS_STARVED_UNTIL = DevicePluginIssue(
    version="0.20.2",
    chart="v26.7.2",
    endings=(),
    source="NVIDIA/k8s-device-plugin #1645, #1827, open on 2026-11-21, when v0.20.1 was the newest",
)
"""NVIDIA's MPS daemon does not get the config that a node's label chooses, and the plugin waits for
the daemon: config-manager links the default config before it reads the label, and its signal does
not reach the daemon. So MPS only comes up if the default is the config of all pools. It is unknown
whether versions before the first one, or later ones, have this issue.
"""


@rule("device-plugin-version")
def check_plugin(
    operator: stack_file.GpuOperator, pools: Sequence[PoolPlan], stated: Stated
) -> Checked[None]:
    """Refuses a version known not to advertise a partition of `pools` as its own resource, or not
    to share GPUs as the pool says.
    """
    if stated.has(*(("gpu_operator", key) for key in ("device_plugin", "chart_version"))):
        yield from _check_mps_is_up(operator, pools)
        yield from _check_mps(operator, pools)
    if operator.mig_strategy != "mixed":
        return  # no partition has a resource of its own
    if not stated.has(
        *(("gpu_operator", key) for key in ("mig_strategy", "device_plugin", "chart_version"))
    ):
        return
    for issue in catalog.load().device_plugin_issues:
        if (has := _has(issue, operator)) is None:
            continue
        key, brings, instead = has
        for pool in pools:
            affected = {
                name
                for layout in pool.offer.layouts
                for name in layout
                if name.endswith(issue.endings)
            }
            if affected and pool.offer.mig_config is not None:
                yield refuse(
                    key,
                    f"{brings}, and {issue.version} is the first that advertises "
                    f"{', '.join(sorted(affected))} of pool {pool.name} "
                    "as a resource of its own",
                    f"choose {instead} or newer",
                    issue.source,
                )


def _starves_mps(operator: stack_file.GpuOperator) -> bool:
    """Whether nodes that share by MPS are known to offer no GPU under this operator. Of an adopted
    one the default version says nothing.
    """
    is_stated = not operator.model_fields_set.isdisjoint(("chart_version", "device_plugin"))
    if operator.existing and not is_stated:
        return False
    if _has(_MPS_STARVED_FROM, operator) is not None:
        return False
    return _has(_MPS_STARVED_UNTIL, operator) is not None


@rule("device-plugin-mps-daemon")
def _check_mps_is_up(operator: stack_file.GpuOperator, pools: Sequence[PoolPlan]) -> Checked[None]:
    operated = _operated(pools)
    if not _starves_mps(operator) or alike_by_mps(operated):
        return
    stated = operator.device_plugin.version is not None
    key = ("device_plugin", "version") if stated else ("chart_version",)
    for pool in operated:
        if all(s.strategy != "mps" for s in pool.offer.sharing):
            continue
        other = next(
            neighbor.name for neighbor in operated if neighbor.offer.sharing != pool.offer.sharing
        )
        yield refuse(
            ("gpu_operator", *key),
            f"the nodes of pool {pool.name} would offer no GPU: up to v0.20.1, which charts up to "
            "v26.7.1 install, the device plugin waits for NVIDIA's MPS daemon, which gets one "
            f"config for all nodes, whatever their label chooses, and pool {other} does not share "
            "like it",
            "give all pools of the operator the same sharing by MPS, or write sharing: {mode: "
            "time-slicing} for that pool; no device plugin is known yet that mends it",
            _MPS_STARVED_UNTIL.source,
        )


def _operated(pools: Sequence[_P]) -> list[_P]:
    """GKE's own plugin, another program, shares on GKE. Bottlerocket's has no MPS here."""
    return [
        pool
        for pool in pools
        if not isinstance(pool.settings, GkeSettings)
        and not (isinstance(pool.settings, EksSettings) and pool.settings.bottlerocket)
    ]


def with_one_config(pools: Sequence[_P]) -> tuple[_P, ...]:
    """The pools. If all share alike by MPS, their nodes choose one config.

    With several names, even for the same content, config-manager would signal the MPS daemon, which
    it does not find: its container would end with an error, again and again.
    """
    operated = _operated(pools)
    if not alike_by_mps(operated):
        return tuple(pools)
    same = {PLUGIN_CONFIG_LABEL: operated[0].name}
    return tuple(
        replace(pool, labels={**pool.labels, **same})
        if PLUGIN_CONFIG_LABEL in pool.labels
        else pool
        for pool in pools
    )


@rule("device-plugin-mps-requests")
def _check_mps(operator: stack_file.GpuOperator, pools: Sequence[PoolPlan]) -> Checked[None]:
    if (has := _has(_MPS_STRICT, operator)) is None:
        return
    key, brings, instead = has
    for pool in pools:
        # GKE's plugin always rejects such pods, too.
        if any(
            s.strategy == "mps" and not s.fail_requests_greater_than_one for s in pool.offer.sharing
        ):
            yield refuse(
                key,
                f"{brings}, which with MPS always rejects pods that request several replicas; "
                f"pool {pool.name} has fail_requests_greater_than_one: false",
                f"choose {instead} or newer, or leave that out",
                _MPS_STRICT.source,
            )


def _has(
    issue: DevicePluginIssue, operator: stack_file.GpuOperator
) -> tuple[stack_file.Path, str, str] | None:
    """The key that selects a faulty version, a text on that version, and the first version without
    the issue. None if there is no issue, or if the version is unknown.
    """
    stated = operator.device_plugin.version
    if stated:
        key: stack_file.Path = ("gpu_operator", "device_plugin", "version")
        version, first, brings = stated, f"v{issue.version}", f"{stated} is an older device plugin"
    else:
        key = ("gpu_operator", "chart_version")
        version, first, brings = (
            operator.chart_version,
            issue.chart,
            "this chart installs an older device plugin",
        )
    match = _VERSION.fullmatch(version)
    old = match is not None and driver_order(match[1]) < driver_order(first.removeprefix("v"))
    return (key, brings, first) if old else None

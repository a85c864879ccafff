"""Device plugin and feature discovery as processes: each looks at the GPUs once, when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from slicewright.rehearsal.cluster.node.operands import device_plugin, feature_discovery
from slicewright.rehearsal.cluster.node.operands.device_plugin import Refused
from slicewright.rehearsal.cluster.node.operands.sharing import Sharing
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon

PLUGIN: Final = "device-plugin"
FEATURE_DISCOVERY: Final = "gpu-feature-discovery"
"""Also the ends of the labels `nvidia.com/gpu.deploy.…` by which they run."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of both."""

    strategy: str
    """none, single or mixed."""
    sharing: Sharing
    machine: str
    """The product name in the machine's firmware."""


@dataclass(frozen=True, kw_only=True)
class Clients:
    """What a node has of both."""

    processes: Mapping[str, str] = field(default_factory=dict)
    """Those that have looked at the GPUs: an identity each, another for each start."""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By resource; none while the plugin does not run."""
    features: Mapping[str, str] = field(default_factory=dict)
    """Labels; they stay when feature discovery ends."""


def after(
    before: Clients, running: Mapping[str, str], node: NodeSilicon, settings: Settings
) -> Clients:
    """running: the identities of the processes that run now, by name."""
    now = before
    if running.get(PLUGIN) != before.processes.get(PLUGIN):
        now = _restarted_plugin(now, running.get(PLUGIN), node, settings)
    process = running.get(FEATURE_DISCOVERY)
    if process != before.processes.get(FEATURE_DISCOVERY):
        now = _with_process(now, FEATURE_DISCOVERY, process)
        if process is not None:
            found = feature_discovery.labels(
                node, settings.strategy, settings.sharing, machine=settings.machine
            )
            now = replace(now, features=found)
    return now


def _restarted_plugin(
    now: Clients, process: str | None, node: NodeSilicon, settings: Settings
) -> Clients:
    if process is None:
        return replace(_with_process(now, PLUGIN, None), devices={})
    try:
        found = device_plugin.devices(node, settings.strategy, settings.sharing)
    except Refused:
        # It ends, and the kubelet starts it again: the next look is another start.
        return replace(_with_process(now, PLUGIN, None), devices={})
    return replace(_with_process(now, PLUGIN, process), devices=found)


def _with_process(now: Clients, name: str, process: str | None) -> Clients:
    others = {key: value for key, value in now.processes.items() if key != name}
    return replace(now, processes=others if process is None else {**others, name: process})

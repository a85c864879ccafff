"""The plan in the formats of other programs: Helm values, mig-parted's config, tolerations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from fleet_controller.api import POOL_LABEL, STARTUP_TAINT_KEY
from infra.plan import SYSTEM_LABELS, ByoPoolPlan, EksFleetPlan, PoolPlan, Taint, WorkloadPlan
from infra.plan.sharing import allocatable

JsonObject = dict[str, Any]
MIG_CONFIG_KEY = "config.yaml"
"""The key that mig-manager mounts. Source: chart values.yaml, migManager.config."""
_ANY_GPU_TAINT: JsonObject = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def mig_parted_config(pools: Sequence[PoolPlan]) -> JsonObject:
    """mig-parted's config v1: a named layout per partitioned pool, and the default `all-disabled`.

    Each layout is filtered by the PCI ids of the pool's GPU: on any other GPU it matches nothing
    and mig-manager fails. Without a filter, mig-parted removes all instances of a GPU that
    lacks the profile and reports success.
    """
    layouts: JsonObject = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
    for pool in pools:
        if pool.mig_config is not None:
            layouts[pool.mig_config] = _entries(pool)
    return {"version": "v1", "mig-configs": layouts}


def _entries(pool: PoolPlan) -> list[JsonObject]:
    """One entry for all GPUs, or one for each layout with the indexes of its GPUs."""
    filtered = list(pool.gpu.pci_ids)
    if pool.layout is not None:
        return [_entry(filtered, "all", pool.layout)]
    return [_entry(filtered, indexes, layout) for indexes, layout in pool.gpus_by_layout]


def _entry(
    pci_ids: Sequence[str], devices: str | list[int], layout: Mapping[str, int]
) -> JsonObject:
    entry: JsonObject = {
        "device-filter": list(pci_ids),
        "devices": devices,
        "mig-enabled": bool(layout),
    }
    if layout:
        entry["mig-devices"] = dict(sorted(layout.items()))
    return entry


def plugin_configs(pools: Sequence[PoolPlan]) -> Mapping[str, JsonObject]:
    """The device plugin's config v1 by pool, for the pools that share their GPUs.

    They are the keys of one ConfigMap, because the chart takes one for the whole cluster. A node
    whose key is missing gets no plugin. Source: k8s-device-plugin, config-manager.
    """
    return {pool.name: _plugin_config(pool) for pool in pools if pool.sharing}


def _plugin_config(pool: PoolPlan) -> JsonObject:
    (strategy,) = {one.strategy for one in pool.sharing}
    renamed, strict = (
        pool.sharing[0].advertised != pool.sharing[0].resource,
        pool.sharing[0].fail_requests_greater_than_one,
    )
    return {
        "version": "v1",
        # No flags: the operator sets the strategy by environment, which overrides the file.
        "sharing": {
            "timeSlicing" if strategy == "time-slicing" else "mps": {
                "renameByDefault": renamed,
                "failRequestsGreaterThanOne": strict,
                "resources": [
                    {"name": one.resource, "replicas": one.replicas} for one in pool.sharing
                ],
            }
        },
    }


def as_yaml(data: JsonObject) -> str:
    """YAML with sorted keys, so that equal data gives equal text."""
    return yaml.safe_dump(data, sort_keys=True, default_flow_style=False, width=120)


def as_flow_yaml(data: JsonObject) -> str:
    """YAML in the given order, with innermost collections on one line."""
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=1_000)


def short_hash(text: str) -> str:
    """Eight hexadecimal digits, for names that must change with their content."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def tolerations(pools: Sequence[PoolPlan]) -> list[JsonObject]:
    """Tolerations for a pod that runs on all nodes of `pools`, before they are verified too.

    Never a toleration of everything: such a pod would stay on a node that is being drained.
    """
    return _tolerations(taint for pool in pools for taint in pool.taints)


def pod_request(pool: PoolPlan, workloads: Sequence[WorkloadPlan]) -> JsonObject:
    """How a pod asks for one device of a pool, in the Pod's own fields.

    `limits` are alternatives, one for each resource of the nodes, or for each of `workloads` where
    the pool's GPUs are shared by fractions.
    """
    fractional = pool.resources != allocatable(pool.devices, pool.sharing)
    return {
        "nodeSelector": dict(pool.select)
        if isinstance(pool, ByoPoolPlan)
        else {POOL_LABEL: pool.name},
        "tolerations": _tolerations(t for t in pool.taints if t.key != STARTUP_TAINT_KEY),
        "limits": [dict(workload.requests) for workload in workloads]
        if fractional
        else [{name: 1} for name in sorted(pool.resources)],
    }


def _tolerations(taints: Iterable[Taint]) -> list[JsonObject]:
    listed: list[JsonObject] = [dict(_ANY_GPU_TAINT)]
    for taint in taints:
        one = {
            "key": taint.key,
            "operator": "Equal",
            "value": taint.value,
            "effect": taint.effect,
        }
        if taint.key == _ANY_GPU_TAINT["key"] and taint.effect == _ANY_GPU_TAINT["effect"]:
            continue
        if one not in listed:
            listed.append(one)
    return listed


def operator_values(
    plan: EksFleetPlan, *, mig_config_map: str, plugin_config_map: str | None = None
) -> JsonObject:
    """Values of the GPU Operator's chart, all in its values.yaml: Helm ignores unknown keys.

    plugin_config_map: where pools share their GPUs. Nodes without its label do not share.
    """
    operator = plan.operator
    tolerated = tolerations(plan.pools)
    values: JsonObject = {
        "mig": {"strategy": operator.mig_strategy},
        # The operator itself needs no GPU node; its operands do.
        "operator": {"nodeSelector": dict(SYSTEM_LABELS)},
        # A list replaces the chart's own, so its default toleration is repeated.
        "daemonsets": {"tolerations": tolerated},
        "driver": {"enabled": operator.driver.enabled},
        "toolkit": {"enabled": operator.toolkit.enabled},
        "devicePlugin": {"enabled": True},
        "gfd": {"enabled": True},
        "dcgmExporter": {
            "enabled": operator.dcgm_exporter.enabled,
            # On by default since 26.7, and useless without Prometheus' CRDs.
            "serviceMonitor": {"enabled": False},
        },
        "migManager": {
            "enabled": True,
            "config": {"name": mig_config_map, "default": operator.mig_manager.default_config},
            # A string: the chart passes it on as an environment variable.
            "env": [
                {
                    "name": "WITH_REBOOT",
                    "value": "true" if operator.mig_manager.with_reboot else "false",
                }
            ],
        },
        # Without these, NFD's worker does not label a new GPU node, and the operator ignores a node
        # without a PCI label.
        "node-feature-discovery": {"worker": {"tolerations": tolerated}},
    }
    if plugin_config_map is not None:
        values["devicePlugin"]["config"] = {"name": plugin_config_map, "default": ""}
    pinned: Mapping[str, str | None] = {
        "driver": operator.driver.version,
        "toolkit": operator.toolkit.version,
        "devicePlugin": operator.device_plugin.version,
        "gfd": operator.gfd.version,
        "dcgmExporter": operator.dcgm_exporter.version,
        "migManager": operator.mig_manager.version,
    }
    for component, version in pinned.items():
        if version is not None:
            values[component]["version"] = version
    return values


def kubeconfig(
    *, cluster: str, server: str, ca_data: str, command: str, arguments: Sequence[str] = ()
) -> JsonObject:
    """A kubeconfig without a secret: the cloud's own command supplies credentials at every use.

    ca_data: base64 PEM, as both clouds return it.
    """
    user: JsonObject = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": command,
        "args": list(arguments),
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": f"install {command}, which comes with the cloud's command line tools",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": ca_data}}
        ],
        "users": [{"name": cluster, "user": {"exec": user}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }

"""The objects that the operator creates for a ClusterPolicy. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.gpu_operator import scripts
from slicewright.rehearsal.cluster.gpu_operator.daemonsets import (
    DEFAULT_GPU_CLIENTS,
    DEFAULT_MIG_CONFIG,
    MANAGED,
    daemonset,
    operand_sets,
)
from slicewright.rehearsal.cluster.gpu_operator.permissions import permissions
from slicewright.rehearsal.cluster.gpu_operator.policy import Policy


def objects(policy: Policy, namespace: str, *, gpu_nodes_system: str | None) -> list[JsonObject]:
    """In the order in which to apply them.

    gpu_nodes_system: the operating system of the nodes with a GPU, as `ubuntu22.04`; None: there is
    no such node, and the operator creates everything but the DaemonSets.
    """
    made = [*_runtime_classes(policy), *_services(policy, namespace)]
    for name, data in _config_maps(policy).items():
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "labels": dict(MANAGED)},
                "data": dict(data),
            }
        )
    operands = operand_sets(policy, gpu_nodes_system or "")
    for account in dict.fromkeys(one.account for one in operands):
        made += permissions(account, namespace)
    if gpu_nodes_system is not None:
        made += [daemonset(one, policy, namespace) for one in operands]
    owner = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": policy.name,
        "uid": policy.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for made_object in made:
        made_object["metadata"]["ownerReferences"] = [owner]
    return made


def daemonset_states(policy: Policy) -> dict[str, str]:
    """The operator's state by the name of the DaemonSet that belongs to it."""
    return {one.name: one.state for one in operand_sets(policy)}


def _runtime_classes(policy: Policy) -> list[JsonObject]:
    handlers = {policy.runtime_class: "nvidia"}
    if policy.cdi:
        handlers |= {"nvidia-cdi": "nvidia-cdi", "nvidia-legacy": "nvidia-legacy"}
    return [
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {
                "name": name,
                "labels": {**MANAGED, "app.kubernetes.io/component": "gpu-operator"},
            },
            "handler": handler,
        }
        for name, handler in handlers.items()
    ]


def _services(policy: Policy, namespace: str) -> list[JsonObject]:
    ports = {"gpu-operator": ("gpu-operator-metrics", 8080)}
    if policy.dcgm_exporter.enabled:
        ports["nvidia-dcgm-exporter"] = ("gpu-metrics", 9400)
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": app,
                "namespace": namespace,
                "labels": {"app": app, **MANAGED},
                "annotations": {"prometheus.io/scrape": "true"},
            },
            "spec": {
                "selector": {"app": app},
                "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"}],
            },
        }
        for app, (name, port) in ports.items()
    ]


def _config_maps(policy: Policy) -> Mapping[str, Mapping[str, str]]:
    """ConfigMap -> its data, for enabled operands."""
    made: dict[str, dict[str, str]] = {}
    if policy.driver.enabled:
        made["nvidia-driver-startup-probe"] = {"startup-probe.sh": scripts.DRIVER_STARTUP_PROBE}
    if policy.toolkit.enabled:
        made["nvidia-container-toolkit-entrypoint"] = {"entrypoint.sh": scripts.TOOLKIT}
    if policy.device_plugin.enabled:
        made["nvidia-device-plugin-entrypoint"] = {"entrypoint.sh": scripts.DEVICE_PLUGIN}
    if policy.gfd.enabled:
        made["gpu-feature-discovery-entrypoint"] = {"entrypoint.sh": scripts.FEATURE_DISCOVERY}
    if policy.mig_manager.enabled:
        made["nvidia-mig-manager-entrypoint"] = {"entrypoint.sh": scripts.MIG_MANAGER}
        made[DEFAULT_GPU_CLIENTS] = {"clients.yaml": scripts.GPU_CLIENTS}
        made[DEFAULT_MIG_CONFIG] = {"config.yaml": scripts.DEFAULT_LAYOUTS}
    return made


PLURALS: Mapping[str, tuple[str, bool]] = {
    "RuntimeClass": ("runtimeclasses", False),
    "Service": ("services", True),
    "ConfigMap": ("configmaps", True),
    "ServiceAccount": ("serviceaccounts", True),
    "ClusterRole": ("clusterroles", False),
    "ClusterRoleBinding": ("clusterrolebindings", False),
    "Role": ("roles", True),
    "RoleBinding": ("rolebindings", True),
    "DaemonSet": ("daemonsets", True),
}
"""Kind -> its plural in API paths, and whether it is namespaced."""

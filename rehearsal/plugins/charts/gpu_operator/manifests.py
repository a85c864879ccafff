"""What the chart installs: the operator with its RBAC, the ClusterPolicy, ConfigMaps, and Node
Feature Discovery.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.gpu_operator.crds import crds
from slicewright.rehearsal.plugins.charts.gpu_operator.feature_discovery import feature_discovery
from slicewright.rehearsal.plugins.charts.gpu_operator.values import VERSION, merged

_OPERATOR: Final = "gpu-operator"
_CHART_LABELS: Final = {
    "app.kubernetes.io/managed-by": "gpu-operator",
    "helm.sh/chart": f"gpu-operator-{VERSION}",
}
_OPERANDS: Final = [
    "ccManager",
    "dcgm",
    "dcgmExporter",
    "devicePlugin",
    "driver",
    "gdrcopy",
    "gds",
    "gfd",
    "kataManager",
    "kataSandboxDevicePlugin",
    "migManager",
    "nodeStatusExporter",
    "sandboxDevicePlugin",
    "toolkit",
    "validator",
    "vfioManager",
    "vgpuDeviceManager",
    "vgpuManager",
]
_SHIPPED_AS_OPERATOR: Final = ("validator", "nodeStatusExporter")
"""Operands whose image is the operator's own, at the chart's version."""


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    full = merged(values)
    labels = {
        "app.kubernetes.io/name": "gpu-operator",
        "app.kubernetes.io/instance": release,
        "app.kubernetes.io/version": VERSION,
        "app.kubernetes.io/managed-by": "Helm",
        "app.kubernetes.io/component": "gpu-operator",
        "helm.sh/chart": f"gpu-operator-{VERSION}",
    }
    manifests = [
        *_operator(full, labels, release, namespace),
        *_config_maps(full, labels, namespace),
        *_cluster_policy(full, labels),
    ]
    if full["nfd"]["enabled"]:
        manifests += feature_discovery(full, release, namespace)
    manifests.extend(copy.deepcopy(item) for item in full["extraObjects"])
    return manifests


def _operator(
    full: Mapping[str, Any], labels: Mapping[str, str], release: str, namespace: str
) -> list[JsonObject]:
    """The operator's Deployment, its account, and its rights."""
    return [
        _object("v1", "ServiceAccount", _OPERATOR, labels, namespace),
        _object(
            "rbac.authorization.k8s.io/v1", "ClusterRole", _OPERATOR, labels, rules=_cluster_rules()
        ),
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            _OPERATOR,
            labels,
            **_binding("ClusterRole", namespace),
        ),
        _object(
            "rbac.authorization.k8s.io/v1",
            "Role",
            _OPERATOR,
            labels,
            namespace,
            rules=_namespace_rules(),
        ),
        _object(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            _OPERATOR,
            labels,
            namespace,
            **_binding("Role", namespace),
        ),
        _object(
            "apps/v1", "Deployment", _OPERATOR, labels, namespace, spec=_deployment(full, release)
        ),
    ]


def _config_maps(
    full: Mapping[str, Any], labels: Mapping[str, str], namespace: str
) -> Iterator[JsonObject]:
    for section, key in (
        ("migManager", None),
        ("devicePlugin", None),
        ("dcgmExporter", "dcgm-metrics.csv"),
    ):
        config = full[section]["config"]
        if config["create"] and config["data"]:
            data = config["data"] if key is None else {key: config["data"]}
            yield _object("v1", "ConfigMap", str(config["name"]), labels, namespace, data=data)


def _cluster_policy(full: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[JsonObject]:
    if full["clusterPolicy"]["deployCR"]:
        policy = _object(
            "nvidia.com/v1",
            "ClusterPolicy",
            "cluster-policy",
            labels,
            spec=cluster_policy_spec(full),
        )
        if full["operator"]["cleanupCRD"]:
            policy["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
        yield policy


def removed_crds(values: Mapping[str, Any]) -> list[JsonObject]:
    """The CRDs that the chart's pre-delete hook deletes, and so the ClusterPolicy: NFD's only where
    NFD came with the chart. Source: NVIDIA/gpu-operator #1302.
    """
    full = merged(values)
    if not full["operator"]["cleanupCRD"]:
        return []
    return [
        crd
        for crd in crds()
        if full["nfd"]["enabled"] or not crd["spec"]["group"].startswith("nfd.")
    ]


def cluster_policy_spec(full: Mapping[str, Any]) -> JsonObject:
    """The ClusterPolicy's spec, from values that are merged with the defaults."""
    spec: JsonObject = {
        "operator": {"runtimeClass": full["operator"]["runtimeClass"]},
        "daemonsets": {
            **_filled(full["daemonsets"]),
            "labels": {**_CHART_LABELS, **full["daemonsets"]["labels"]},
        },
        "mig": {"strategy": full["mig"]["strategy"]},
        "psa": {"enabled": full["psa"]["enabled"]},
        "cdi": {"enabled": full["cdi"]["enabled"]},
        "hostPaths": _filled(full["hostPaths"]),
        "sandboxWorkloads": _filled(full["sandboxWorkloads"]),
        **{name: _operand(name, full[name]) for name in _OPERANDS},
    }
    if full["cdi"]["nriPluginEnabled"]:
        spec["cdi"]["nriPluginEnabled"] = True
    return spec


def _operand(name: str, section: Mapping[str, Any]) -> JsonObject:
    written = {
        key: value
        for key, value in section.items()
        if key not in ("config", "nvidiaDriverCRD", "podLabelAllowlistRegex")
    }
    written = _filled(written)
    if name in _SHIPPED_AS_OPERATOR and not section.get("version"):
        written["version"] = VERSION
    config = {key: section.get("config", {}).get(key) for key in ("name", "default")}
    if config := {key: value for key, value in config.items() if value}:
        written["config"] = config
    if name == "driver":
        written["useNvidiaDriverCRD"] = section["nvidiaDriverCRD"]["enabled"]
        policy = dict(written["upgradePolicy"])
        # The ClusterPolicy has another name for it than the values.
        policy["podDeletion"] = policy.pop("gpuPodDeletion")
        written["upgradePolicy"] = policy
    if name == "validator":
        written["plugin"] = {"env": (section.get("plugin") or {}).get("env") or []}
    if name == "dcgmExporter" and section.get("podLabelAllowlistRegex"):
        written["podLabelAllowlistRegex"] = section["podLabelAllowlistRegex"]
    return written


def _filled(section: Mapping[str, Any]) -> JsonObject:
    """The section without unset values, empty lists and empty maps, as the chart's template."""
    return {
        key: _set(value)
        for key, value in section.items()
        if value is not None
        and value not in ({}, [])
        and not (key == "hostNetwork" and value is False)
    }


def _set(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _set(item) for key, item in value.items() if item is not None}
    return copy.deepcopy(value)


def _deployment(full: Mapping[str, Any], release: str) -> JsonObject:
    operator = full["operator"]
    selector = {"app.kubernetes.io/component": "gpu-operator", "app": "gpu-operator"}
    probe = {"initialDelaySeconds": 1, "periodSeconds": 2, "failureThreshold": 15}
    container = {
        "name": "gpu-operator",
        "image": f"{operator['repository']}/{operator['image']}:{operator['version'] or VERSION}",
        "imagePullPolicy": operator["imagePullPolicy"],
        "command": ["gpu-operator"],
        "args": ["--leader-elect", f"--zap-log-level={operator['logging']['level']}"],
        "env": [
            {"name": "WATCH_NAMESPACE", "value": ""},
            {
                "name": "OPERATOR_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            },
            *operator["env"],
        ],
        "ports": [{"name": "metrics", "containerPort": 8080}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}, **probe},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}, **probe},
        "resources": operator["resources"],
    }
    pod: JsonObject = {
        "serviceAccountName": _OPERATOR,
        "priorityClassName": operator["priorityClassName"],
        "containers": [container],
        "nodeSelector": {"kubernetes.io/os": "linux", **operator["nodeSelector"]},
        "tolerations": operator["tolerations"],
        "affinity": operator["affinity"],
    }
    if operator["imagePullSecrets"]:
        pod["imagePullSecrets"] = [{"name": name} for name in operator["imagePullSecrets"]]
    labels = {
        **selector,
        "app.kubernetes.io/instance": release,
        "app.kubernetes.io/name": "gpu-operator",
    }
    metadata: JsonObject = {"labels": labels}
    if operator["annotations"]:
        metadata["annotations"] = operator["annotations"]
    return {
        "replicas": 1,
        "selector": {"matchLabels": selector},
        "template": {"metadata": metadata, "spec": pod},
    }


def _object(
    api_version: str,
    kind: str,
    name: str,
    labels: Mapping[str, str],
    namespace: str | None = None,
    **body: Any,
) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": dict(labels)}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def _binding(kind: str, namespace: str) -> JsonObject:
    return {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": _OPERATOR},
        "subjects": [{"kind": "ServiceAccount", "name": _OPERATOR, "namespace": namespace}],
    }


_READ: Final = ("get", "list", "watch")
_WRITE: Final = (*_READ, "create", "update", "patch", "delete")


def _cluster_rules() -> list[JsonObject]:
    """Cluster-wide permissions, including those that it grants: RBAC lets it grant no others."""
    return [
        _rule("", ["nodes"], *_READ, "update", "patch"),
        _rule("", ["pods", "pods/eviction"], *_WRITE),
        _rule("", ["namespaces"], *_READ),
        _rule("apps", ["daemonsets"], *_READ),
        _rule(
            "nvidia.com",
            ["clusterpolicies", "clusterpolicies/status", "clusterpolicies/finalizers"],
            *_READ,
            "update",
            "patch",
        ),
        _rule("nfd.k8s-sigs.io", ["nodefeatures"], *_WRITE),
        # No patch: the operator creates and updates them.
        _rule("node.k8s.io", ["runtimeclasses"], *_READ, "create", "update", "delete"),
        _rule("rbac.authorization.k8s.io", ["clusterroles", "clusterrolebindings"], *_WRITE),
    ]


def _namespace_rules() -> list[JsonObject]:
    return [
        _rule("", ["configmaps", "serviceaccounts", "services", "secrets", "pods"], *_WRITE),
        _rule("", ["events"], "create", "patch"),
        _rule("apps", ["daemonsets", "deployments", "controllerrevisions"], *_WRITE),
        _rule("rbac.authorization.k8s.io", ["roles", "rolebindings"], *_WRITE),
        _rule("coordination.k8s.io", ["leases"], *_WRITE),
        _rule("monitoring.coreos.com", ["servicemonitors", "prometheusrules"], *_WRITE),
    ]


def _rule(group: str, resources: list[str], *verbs: str) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}

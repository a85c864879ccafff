"""Node Feature Discovery, which is part of the chart: its worker on every node, and its master.

Left out: the garbage collector, probes, and mounts that no feature of here needs. A test of
`make soak` installs NFD's own chart in its place (packaged.py). Sources: NVIDIA/gpu-operator
v26.7.0, Chart.yaml; kubernetes-sigs/node-feature-discovery,
deployment/helm/node-feature-discovery/templates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject

_NFD: Final = "node-feature-discovery"
_IMAGE: Final = "registry.k8s.io/nfd/node-feature-discovery"
_VERSION: Final = "v0.19.0"
_RBAC: Final = "rbac.authorization.k8s.io"
_FEATURES: Final = "nfd.k8s-sigs.io"
_SETTINGS: Final = "/etc/kubernetes/node-feature-discovery"
_LEASES: Final = "coordination.k8s.io"


def full_name(full: Mapping[str, Any], release: str) -> str:
    return str(full[_NFD]["fullnameOverride"] or f"{release}-{_NFD}")


def image(full: Mapping[str, Any]) -> str:
    image_values = full[_NFD]["image"]
    return f"{image_values['repository'] or _IMAGE}:{image_values['tag'] or _VERSION}"


def feature_discovery(full: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """full: the values, merged with the defaults."""
    name = full_name(full, release)
    worker = f"{name}-worker"
    return [
        _object("v1", "ServiceAccount", name, namespace),
        _object("v1", "ServiceAccount", worker, namespace),
        _object(
            f"{_RBAC}/v1",
            "ClusterRole",
            name,
            rules=[
                _rule("", ["namespaces"], "watch", "list"),
                _rule("", ["nodes", "nodes/status"], "get", "patch", "update", "list"),
                _rule(
                    _FEATURES,
                    ["nodefeatures", "nodefeaturerules", "nodefeaturegroups"],
                    *("get", "list", "watch"),
                ),
                _rule(_FEATURES, ["nodefeaturegroups/status"], "patch", "update"),
                _rule(_LEASES, ["leases"], "create"),
                {
                    **_rule(_LEASES, ["leases"], "get", "update"),
                    "resourceNames": ["nfd-master.nfd.kubernetes.io"],
                },
            ],
        ),
        _binding("ClusterRole", name, namespace),
        _object(
            f"{_RBAC}/v1",
            "Role",
            worker,
            namespace,
            rules=[
                _rule(_FEATURES, ["nodefeatures"], "create", "get", "update", "delete"),
                _rule("", ["pods"], "get"),
            ],
        ),
        _binding("Role", worker, namespace),
        _settings("master", full, release, namespace),
        _settings("worker", full, release, namespace),
        _workload("Deployment", "master", full, release, namespace),
        _workload("DaemonSet", "worker", full, release, namespace),
    ]


def _settings(part: str, full: Mapping[str, Any], release: str, namespace: str) -> JsonObject:
    name = f"{full_name(full, release)}-{part}-conf"
    # JSON is YAML, too.
    data = {f"nfd-{part}.conf": json.dumps(full[_NFD][part]["config"])}
    return _object("v1", "ConfigMap", name, namespace, data=data)


def _workload(
    kind: str, part: str, full: Mapping[str, Any], release: str, namespace: str
) -> JsonObject:
    name = full_name(full, release)
    nfd, part_values = full[_NFD], full[_NFD][part]
    selector = {
        "app.kubernetes.io/name": _NFD,
        "app.kubernetes.io/instance": release,
        "role": part,
    }
    container: JsonObject = {
        "name": part,
        "image": image(full),
        "command": [f"nfd-{part}"],
        "env": [
            _field("NODE_NAME", "spec.nodeName"),
            _field("POD_NAME", "metadata.name"),
            _field("POD_UID", "metadata.uid"),
            *part_values["extraEnvs"],
        ],
        "args": [
            *(["-enable-leader-election"] if part == "master" else []),
            *part_values["extraArgs"],
        ],
        "resources": part_values["resources"],
        "volumeMounts": [{"name": f"nfd-{part}-conf", "mountPath": _SETTINGS, "readOnly": True}],
    }
    pod: JsonObject = {
        "serviceAccountName": name if part == "master" else f"{name}-worker",
        "priorityClassName": part_values["priorityClassName"] or nfd["priorityClassName"],
        "imagePullSecrets": nfd["imagePullSecrets"],
        "containers": [container],
        "nodeSelector": part_values["nodeSelector"],
        "affinity": part_values["affinity"],
        "tolerations": part_values["tolerations"],
        "volumes": [{"name": f"nfd-{part}-conf", "configMap": {"name": f"{name}-{part}-conf"}}],
    }
    if part == "worker":
        of_host = {"host-sys": "/sys", "host-os-release": "/etc/os-release"}
        container["volumeMounts"] += [
            {"name": "host-sys", "mountPath": "/host-sys", "readOnly": True},
            {"name": "host-os-release", "mountPath": "/host-etc/os-release", "readOnly": True},
        ]
        pod["volumes"] += [{"name": n, "hostPath": {"path": p}} for n, p in of_host.items()]
    spec: JsonObject = {
        "selector": {"matchLabels": selector},
        "template": {
            "metadata": {"labels": selector, "annotations": part_values["annotations"]},
            "spec": {key: value for key, value in pod.items() if value not in ("", {}, [])},
        },
    }
    if kind == "Deployment":
        spec["replicas"] = part_values["replicaCount"]
    workload = _object("apps/v1", kind, f"{name}-{part}", namespace, spec=spec)
    workload["metadata"]["labels"] = dict(selector)
    return workload


def _object(
    version: str, kind: str, name: str, namespace: str | None = None, **body: Any
) -> JsonObject:
    metadata: JsonObject = {"name": name, "labels": {"app.kubernetes.io/name": _NFD}}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


def _binding(kind: str, name: str, namespace: str) -> JsonObject:
    return _object(
        f"{_RBAC}/v1",
        f"{kind}Binding",
        name,
        namespace if kind == "Role" else None,
        roleRef={"apiGroup": _RBAC, "kind": kind, "name": name},
        subjects=[{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    )


def _rule(group: str, resources: list[str], *verbs: str) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

"""The CRDs of the chart that the rehearsal needs: ClusterPolicy, and those of NFD.

ClusterPolicy's schema validates the fields that users set, and accepts all others. Source:
NVIDIA/gpu-operator `api/nvidia/v1`, kubernetes-sigs/node-feature-discovery `api/nfd/v1alpha1`.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject


def crds() -> list[JsonObject]:
    """The CRDs' manifests, new at each call."""
    return [
        _cluster_policies(),
        _node_features(),
        # NFD's own master waits until it can list both kinds; here there are none of them.
        *(_of_labels(kind, scope) for kind, scope in _OF_LABELS.items()),
    ]


def _cluster_policies() -> JsonObject:
    spec = _open(
        mig=_open(strategy=_enum("none", "single", "mixed")),
        migManager=_open(
            enabled=_boolean(),
            env=_env(),
            config=_open(name=_string(), default=_enum("all-disabled", "")),
        ),
        driver=_open(
            enabled=_boolean(),
            kernelModuleType=_enum("auto", "open", "proprietary"),
            useNvidiaDriverCRD=_boolean(),
        ),
        daemonsets=_open(
            updateStrategy=_enum("RollingUpdate", "OnDelete"),
            priorityClassName=_string(),
            rollingUpdate=_open(maxUnavailable=_string()),
        ),
        sandboxWorkloads=_open(
            enabled=_boolean(), defaultWorkload=_enum("container", "vm-passthrough", "vm-vgpu")
        ),
        **{
            name: _open(enabled=_boolean(), env=_env())
            for name in ("toolkit", "devicePlugin", "dcgm", "dcgmExporter", "gfd")
        },
        operator=_open(runtimeClass=_string()),
    )
    status = _open(state=_enum("ignored", "ready", "notReady"), namespace=_string())
    return _crd(
        "nvidia.com",
        "v1",
        kind="ClusterPolicy",
        plural="clusterpolicies",
        scope="Cluster",
        properties={"spec": spec, "status": status},
        columns=[
            ("Status", "string", ".status.state"),
            ("Age", "string", ".metadata.creationTimestamp"),
        ],
        has_status=True,
    )


def _node_features() -> JsonObject:
    labels = {"type": "object", "additionalProperties": _string()}
    spec = {"type": "object", "properties": {"features": _open(), "labels": labels}}
    return _crd(
        "nfd.k8s-sigs.io",
        "v1alpha1",
        kind="NodeFeature",
        plural="nodefeatures",
        scope="Namespaced",
        properties={"spec": spec},
        columns=[],
        has_status=False,
    )


_OF_LABELS = {"NodeFeatureRule": "Cluster", "NodeFeatureGroup": "Namespaced"}


def _of_labels(kind: str, scope: str) -> JsonObject:
    return _crd(
        "nfd.k8s-sigs.io",
        "v1alpha1",
        kind=kind,
        plural=f"{kind.lower()}s",
        scope=scope,
        properties={"spec": _open(), "status": _open()},
        columns=[],
        has_status=True,
    )


def _crd(
    group: str,
    version: str,
    *,
    kind: str,
    plural: str,
    scope: str,
    properties: JsonObject,
    columns: list[tuple[str, str, str]],
    has_status: bool,
) -> JsonObject:
    served: JsonObject = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    if has_status:
        served["subresources"] = {"status": {}}
    if columns:
        served["additionalPrinterColumns"] = [
            {"name": name, "type": type_, "jsonPath": path} for name, type_, path in columns
        ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "versions": [served],
        },
    }


def _open(**properties: JsonObject) -> JsonObject:
    """The schema of a map that validates these properties and accepts all others."""
    return {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": properties,
    }


def _enum(*values: str) -> JsonObject:
    return {"type": "string", "enum": list(values)}


def _string() -> JsonObject:
    return {"type": "string"}


def _boolean() -> JsonObject:
    return {"type": "boolean"}


def _env() -> JsonObject:
    entry = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _string(), "value": _string()},
    }
    return {"type": "array", "items": entry}

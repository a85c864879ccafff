"""prometheus-adapter, as Kubernetes objects: with rules for our metrics only, and no other rights.

Sources: kubernetes-sigs/prometheus-adapter v0.12.0, deploy/manifests and docs/config.md;
cert-manager docs, CA injector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import yaml

from slicewright.infra.manifests.placement import system_labels
from slicewright.infra.manifests.scaling.keda import scaling_behavior
from slicewright.infra.manifests.scaling.queries import pod_metric
from slicewright.infra.manifests.text import JsonObject, short_hash
from slicewright.infra.manifests.workloads.heads import head
from slicewright.infra.plan import AdapterPlan, DeploymentPlan, FleetPlan

_NAME: Final = "prometheus-adapter"
_GROUP: Final = "custom.metrics.k8s.io"
_PORT: Final = 6443
_RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final[Mapping[str, str]] = {"app.kubernetes.io/name": _NAME}
_FILE: Final = "config.yaml"
_CERTIFICATE: Final = "prometheus-adapter-tls"
_PROBES: Final[JsonObject] = {
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"}},
    "livenessProbe": {
        "httpGet": {"path": "/livez", "port": "https", "scheme": "HTTPS"},
        "initialDelaySeconds": 30,
    },
}


def adapter_objects(fleet: FleetPlan) -> list[JsonObject]:
    """The adapter's objects in the order of creation. Empty if the cluster has an adapter."""
    plan = fleet.pod_autoscaling
    assert isinstance(plan, AdapterPlan)
    if plan.existing:
        return []
    rules = adapter_rules(
        [workload for workload in fleet.deployments if workload.autoscaling is not None]
    )
    # The name has a hash of the content, so that another config starts another pod.
    config = f"adapter-config-{short_hash(rules)}"
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": plan.namespace,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        },
        {**_head("v1", "ServiceAccount", _NAME, plan)},
        *_rights(plan),
        *_certificate(plan),
        {**_head("v1", "ConfigMap", config, plan), "immutable": True, "data": {_FILE: rules}},
        _deployment(plan, config, system_labels(fleet)),
        _service(plan),
        _api_service(plan),
    ]


def pod_autoscaler(plan: DeploymentPlan) -> JsonObject:
    """The HorizontalPodAutoscaler of a workload. Kubernetes takes the mean over the replicas, and
    leaves their number unchanged if the metric is missing.
    """
    scaling = plan.autoscaling
    assert scaling is not None
    target = {"type": "AverageValue", "averageValue": str(scaling.target)}
    return {
        **head(plan, "autoscaling/v2", "HorizontalPodAutoscaler"),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": plan.name},
            "minReplicas": scaling.min,
            "maxReplicas": scaling.max,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {"metric": {"name": pod_metric(plan).name}, "target": target},
                }
            ],
            "behavior": scaling_behavior(scaling),
        },
    }


def adapter_rules(scaled: Sequence[DeploymentPlan]) -> str:
    """The adapter's configuration: one metric for each workload."""
    rules = [
        {
            "seriesQuery": metric.series,
            "resources": {
                "overrides": {
                    "namespace": {"resource": "namespace"},
                    "pod": {"resource": "pod"},
                }
            },
            "name": {"matches": ".*", "as": metric.name},
            "metricsQuery": metric.query,
        }
        for metric in map(pod_metric, scaled)
    ]
    return yaml.safe_dump({"rules": rules}, sort_keys=False, width=1_000)


def _head(version: str, kind: str, name: str, plan: AdapterPlan) -> JsonObject:
    metadata = {"name": name, "namespace": plan.namespace, "labels": dict(_LABELS)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _rights(plan: AdapterPlan) -> list[JsonObject]:
    """The adapter lists pods, and lets the API server authenticate and authorize its clients. The
    role system:controller:horizontal-pod-autoscaler lets Kubernetes' autoscaler read the metrics.
    """
    account = {"kind": "ServiceAccount", "name": _NAME, "namespace": plan.namespace}
    reads: JsonObject = {
        "apiGroups": [""],
        "resources": ["namespaces", "pods"],
        "verbs": ["get", "list", "watch"],
    }
    return [
        _role(f"{_NAME}-pods", reads),
        _binding(f"{_NAME}-pods", "ClusterRole", f"{_NAME}-pods", account),
        _binding(f"{_NAME}-delegator", "ClusterRole", "system:auth-delegator", account),
        {
            **_binding(
                f"{_NAME}-authentication",
                "Role",
                "extension-apiserver-authentication-reader",
                account,
            ),
            "kind": "RoleBinding",
            "metadata": {"name": f"{_NAME}-authentication", "namespace": "kube-system"},
        },
    ]


def _role(name: str, rule: JsonObject) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [rule],
    }


def _binding(name: str, kind: str, role: str, subject: JsonObject) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [dict(subject)],
    }


def _certificate(plan: AdapterPlan) -> list[JsonObject]:
    """A certificate made by cert-manager, so that its key is in no state and no stack file."""
    names = [f"{_NAME}.{plan.namespace}.svc", f"{_NAME}.{plan.namespace}.svc.cluster.local"]
    return [
        {**_head("cert-manager.io/v1", "Issuer", _NAME, plan), "spec": {"selfSigned": {}}},
        {
            **_head("cert-manager.io/v1", "Certificate", _NAME, plan),
            "spec": {
                "secretName": _CERTIFICATE,
                "dnsNames": names,
                "issuerRef": {"name": _NAME},
            },
        },
    ]


def _service(plan: AdapterPlan) -> JsonObject:
    return {
        **_head("v1", "Service", _NAME, plan),
        "spec": {
            "selector": dict(_LABELS),
            "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
        },
    }


def _api_service(plan: AdapterPlan) -> JsonObject:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"v1beta1.{_GROUP}",
            # cert-manager writes the certificate's CA into it, so the connection is verified.
            "annotations": {"cert-manager.io/inject-ca-from": f"{plan.namespace}/{_NAME}"},
        },
        "spec": {
            "group": _GROUP,
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 5,
            "service": {"name": _NAME, "namespace": plan.namespace},
        },
    }


def _deployment(plan: AdapterPlan, config: str, node_selector: Mapping[str, str]) -> JsonObject:
    pod: JsonObject = {
        "serviceAccountName": _NAME,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(plan)],
        "volumes": [
            {"name": "config", "configMap": {"name": config}},
            {"name": "tls", "secret": {"secretName": _CERTIFICATE}},
        ],
    }
    if node_selector:
        pod["nodeSelector"] = dict(node_selector)
    return {
        **_head("apps/v1", "Deployment", _NAME, plan),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {"metadata": {"labels": dict(_LABELS)}, "spec": pod},
        },
    }


def _container(plan: AdapterPlan) -> JsonObject:
    return {
        "name": _NAME,
        "image": plan.image,
        "args": [
            f"--secure-port={_PORT}",
            "--tls-cert-file=/tls/tls.crt",
            "--tls-private-key-file=/tls/tls.key",
            f"--prometheus-url={plan.prometheus_url}",
            "--metrics-relist-interval=30s",
            f"--config=/etc/adapter/{_FILE}",
        ],
        "ports": [{"name": "https", "containerPort": _PORT}],
        **_PROBES,
        "resources": {
            "requests": {"cpu": "100m", "memory": "180Mi"},
            "limits": {"memory": "180Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/adapter", "readOnly": True},
            {"name": "tls", "mountPath": "/tls", "readOnly": True},
        ],
    }

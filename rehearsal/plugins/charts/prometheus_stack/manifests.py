"""What the chart installs. The operator and Prometheus run as themselves; kube-state-metrics
and Alertmanager are pods that kwok simulates. Source: prometheus-community/helm-charts,
charts/kube-prometheus-stack/templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts import crd_files
from slicewright.rehearsal.plugins.charts.prometheus_stack.values import (
    APP_VERSION,
    PROMETHEUS,
    VERSION,
    merged,
)

_RBAC: Final = "rbac.authorization.k8s.io"
_GROUP: Final = "monitoring.coreos.com"
_SEEN: Final = ["get", "list", "watch"]
_LONGEST: Final = 26
"""The chart cuts its names, because the operator makes longer ones of them."""


def crds() -> list[JsonObject]:
    """The operator's, of its own version. Source: prometheus-operator v0.85.0, jsonnet/."""
    return crd_files.read(Path(__file__).parent / "crds")


def fullname(values: Mapping[str, Any], release: str) -> str:
    """Source: templates/_helpers.tpl, kube-prometheus-stack.fullname."""
    chart = values["nameOverride"] or "kube-prometheus-stack"
    name = values["fullnameOverride"] or (release if chart in release else f"{release}-{chart}")
    return str(name)[:_LONGEST].rstrip("-")


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    full = merged(values)
    return _Made(full, release, namespace).all()


class _Made:
    def __init__(self, full: JsonObject, release: str, namespace: str) -> None:
        self._full = full
        self._release = release
        self._namespace = full["namespaceOverride"] or namespace
        self._name = fullname(full, release)

    def all(self) -> list[JsonObject]:
        full = self._full
        found: list[JsonObject] = []
        if full["prometheusOperator"]["enabled"]:
            found += self._operator()
        if full["prometheus"]["enabled"]:
            found += self._prometheus()
        if full["alertmanager"]["enabled"]:
            found.append(self._alertmanager())
        if full["kubeStateMetrics"]["enabled"]:
            found.append(self._simulated("kube-state-metrics", full["kube-state-metrics"]))
        return found

    def _operator(self) -> list[JsonObject]:
        full, name = self._full["prometheusOperator"], f"{self._name}-operator"
        chosen = {
            "app": "kube-prometheus-stack-operator",
            "release": self._release,
        }
        pod: JsonObject = {
            "serviceAccountName": name,
            "automountServiceAccountToken": True,
            "securityContext": full["securityContext"],
            **_placed(full),
            "containers": [
                {
                    "name": "kube-prometheus-stack",
                    "image": self._image("quay.io", "prometheus-operator/prometheus-operator"),
                    "imagePullPolicy": "IfNotPresent",
                    "args": self._operator_arguments(full),
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "env": [{"name": "GOGC", "value": "30"}],
                    "resources": full["resources"],
                    "securityContext": _restricted(),
                    "readinessProbe": _probe("/healthz", "http"),
                    "livenessProbe": _probe("/healthz", "http"),
                }
            ],
            **self._pulled(),
        }
        labels = {**self._labels("operator"), **chosen}
        return [
            *self._account(name, _operator_rules(), "operator"),
            self._object(
                "v1",
                "Service",
                name,
                "operator",
                spec={
                    "ports": [{"name": "http", "port": 8080, "targetPort": "http"}],
                    "selector": chosen,
                    "type": "ClusterIP",
                },
            ),
            self._object(
                "apps/v1",
                "Deployment",
                name,
                "operator",
                spec={
                    "replicas": 1,
                    "selector": {"matchLabels": chosen},
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            ),
        ]

    def _operator_arguments(self, full: JsonObject) -> list[str]:
        reloader = self._image("quay.io", "prometheus-operator/prometheus-config-reloader")
        found = [
            "--localhost=127.0.0.1",
            f"--prometheus-config-reloader={reloader}",
            "--config-reloader-cpu-request=0",
            "--config-reloader-cpu-limit=0",
            "--config-reloader-memory-request=0",
            "--config-reloader-memory-limit=0",
            "--secret-field-selector=type!=kubernetes.io/dockercfg,"
            "type!=kubernetes.io/service-account-token,type!=helm.sh/release.v1",
        ]
        if full["kubeletService"]["enabled"]:
            found.insert(0, f"--kubelet-service=kube-system/{self._name}-kubelet")
        for flag, key in (
            ("prometheus-instance-namespaces", "prometheusInstanceNamespaces"),
            ("alertmanager-instance-namespaces", "alertmanagerInstanceNamespaces"),
            ("alertmanager-config-namespaces", "alertmanagerConfigNamespaces"),
            ("thanos-ruler-instance-namespaces", "thanosRulerInstanceNamespaces"),
        ):
            if full[key]:
                found.append(f"--{flag}={','.join(full[key])}")
        return found

    def _prometheus(self) -> list[JsonObject]:
        name = f"{self._name}-prometheus"
        selector = {
            "app.kubernetes.io/name": "prometheus",
            "operator.prometheus.io/name": name,
        }
        ports = [
            {"name": "http-web", "port": 9090, "targetPort": 9090},
            {"name": "reloader-web", "port": 8080, "targetPort": "reloader-web"},
        ]
        return [
            *self._account(name, _prometheus_rules(), "prometheus"),
            self._object(
                "v1",
                "Service",
                name,
                "prometheus",
                spec={"ports": ports, "selector": selector, "type": "ClusterIP"},
            ),
            self._object(
                f"{_GROUP}/v1", "Prometheus", name, "prometheus", spec=self._prometheus_spec(name)
            ),
        ]

    def _prometheus_spec(self, name: str) -> JsonObject:
        asked = self._full["prometheus"]["prometheusSpec"]
        spec: JsonObject = {
            "image": self._image("quay.io", "prometheus/prometheus", PROMETHEUS),
            "version": PROMETHEUS,
            "externalUrl": f"http://{name}.{self._namespace}:9090",
            "paused": False,
            "listenLocal": False,
            "routePrefix": "/",
            "portName": "http-web",
            "hostNetwork": False,
            "serviceAccountName": name,
            **_placed(asked),
            **self._pulled(),
        }
        for key in (
            "replicas",
            "shards",
            "logLevel",
            "retention",
            "walCompression",
            "enableAdminAPI",
            "resources",
            "securityContext",
        ):
            spec[key] = asked[key]
        for key in (
            "scrapeInterval",
            "scrapeTimeout",
            "evaluationInterval",
            "retentionSize",
            "externalLabels",
            "arbitraryFSAccessThroughSMs",
        ):
            if asked[key]:
                spec[key] = asked[key]
        if asked["storageSpec"]:
            spec["storage"] = asked["storageSpec"]
        for kind in ("podMonitor", "serviceMonitor", "rule"):
            spec[f"{kind}Selector"] = self._selector(asked, kind)
            spec[f"{kind}NamespaceSelector"] = asked[f"{kind}NamespaceSelector"]
        return spec

    def _selector(self, asked: JsonObject, kind: str) -> JsonObject:
        if asked[f"{kind}Selector"]:
            return dict(asked[f"{kind}Selector"])
        if asked[f"{kind}SelectorNilUsesHelmValues"]:
            return {"matchLabels": {"release": self._release}}
        return {}

    def _alertmanager(self) -> JsonObject:
        asked, name = self._full["alertmanager"]["alertmanagerSpec"], f"{self._name}-alertmanager"
        spec: JsonObject = {
            "image": self._image("quay.io", "prometheus/alertmanager", "v0.28.1"),
            "version": "v0.28.1",
            "replicas": asked["replicas"],
            "resources": asked["resources"],
            **_placed(asked),
            **self._pulled(),
        }
        if asked["useExistingSecret"]:
            spec["configSecret"] = asked["configSecret"]
        return self._object(f"{_GROUP}/v1", "Alertmanager", name, "alertmanager", spec=spec)

    def _simulated(self, part: str, asked: JsonObject) -> JsonObject:
        """A Deployment whose pods kwok simulates."""
        chosen = {"app.kubernetes.io/name": part, "app.kubernetes.io/instance": self._release}
        images = {
            "kube-state-metrics": ("registry.k8s.io", "kube-state-metrics/kube-state-metrics"),
        }
        registry, repository = images[part]
        pod: JsonObject = {
            **_placed(asked),
            "containers": [
                {
                    "name": part,
                    "image": self._image(registry, repository, "simulated"),
                    "resources": asked["resources"],
                }
            ],
        }
        return self._object(
            "apps/v1",
            "Deployment",
            f"{self._release}-{part}",
            part,
            spec={
                "replicas": 1,
                "selector": {"matchLabels": chosen},
                "template": {"metadata": {"labels": chosen}, "spec": pod},
            },
        )

    def _account(self, name: str, rules: list[JsonObject], part: str) -> list[JsonObject]:
        """A ServiceAccount with these rights in all namespaces."""
        if not self._full["global"]["rbac"]["create"]:
            return [self._object("v1", "ServiceAccount", name, part)]
        return [
            self._object("v1", "ServiceAccount", name, part),
            self._object(f"{_RBAC}/v1", "ClusterRole", name, part, rules=rules),
            self._object(
                f"{_RBAC}/v1",
                "ClusterRoleBinding",
                name,
                part,
                roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
                subjects=[{"kind": "ServiceAccount", "name": name, "namespace": self._namespace}],
            ),
        ]

    def _object(self, api: str, kind: str, name: str, part: str, **body: Any) -> JsonObject:
        metadata: JsonObject = {"name": name, "labels": self._labels(part)}
        if not kind.startswith("Cluster"):
            metadata["namespace"] = self._namespace
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}

    def _labels(self, part: str) -> dict[str, str]:
        return {
            "app": f"kube-prometheus-stack-{part}",
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/instance": self._release,
            "app.kubernetes.io/part-of": "kube-prometheus-stack",
            "chart": f"kube-prometheus-stack-{VERSION}",
            "release": self._release,
            "heritage": "Helm",
            **self._full["commonLabels"],
        }

    def _image(self, registry: str, repository: str, tag: str = APP_VERSION) -> str:
        return f"{self._full['global']['imageRegistry'] or registry}/{repository}:{tag}"

    def _pulled(self) -> JsonObject:
        secrets = self._full["global"]["imagePullSecrets"]
        return {"imagePullSecrets": secrets} if secrets else {}


def _placed(asked: JsonObject) -> JsonObject:
    return {key: asked[key] for key in ("nodeSelector", "tolerations", "affinity") if asked[key]}


def _restricted() -> JsonObject:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _probe(path: str, port: str) -> JsonObject:
    return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 1, "periodSeconds": 10}


def _rule(group: str, resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _operator_rules() -> list[JsonObject]:
    """Source: templates/prometheus-operator/clusterrole.yaml."""
    custom = ["alertmanagers", "prometheuses", "prometheusagents", "thanosrulers"]
    return [
        _rule(
            _GROUP,
            [
                *(f"{kind}{part}" for kind in custom for part in ("", "/finalizers", "/status")),
                *("alertmanagerconfigs", "scrapeconfigs", "servicemonitors", "podmonitors"),
                *("servicemonitors/status", "probes", "prometheusrules"),
            ],
            ["*"],
        ),
        _rule("apps", ["statefulsets"], ["*"]),
        _rule("", ["configmaps", "secrets"], ["*"]),
        _rule("", ["pods"], ["list", "delete"]),
        _rule(
            "",
            ["services", "services/finalizers", "endpoints"],
            ["get", "create", "update", "delete"],
        ),
        _rule("discovery.k8s.io", ["endpointslices"], [*_SEEN, "create", "update", "delete"]),
        _rule("", ["nodes"], ["list", "watch"]),
        _rule("", ["namespaces"], _SEEN),
        _rule("", ["events"], ["patch", "create"]),
        _rule("events.k8s.io", ["events"], ["patch", "create"]),
        _rule("networking.k8s.io", ["ingresses"], _SEEN),
        _rule("storage.k8s.io", ["storageclasses"], ["get"]),
    ]


def _prometheus_rules() -> list[JsonObject]:
    """Source: templates/prometheus/clusterrole.yaml."""
    return [
        _rule("", ["nodes", "nodes/metrics", "services", "endpoints", "pods"], _SEEN),
        _rule("discovery.k8s.io", ["endpointslices"], _SEEN),
        _rule("networking.k8s.io", ["ingresses"], _SEEN),
        {"nonResourceURLs": ["/metrics", "/metrics/cadvisor"], "verbs": ["get"]},
    ]

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
_READ_VERBS: Final = ["get", "list", "watch"]
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
    return _Manifests(full, release, namespace).all()


class _Manifests:
    def __init__(self, full: JsonObject, release: str, namespace: str) -> None:
        self._full = full
        self._release = release
        self._namespace = full["namespaceOverride"] or namespace
        self._name = fullname(full, release)

    def all(self) -> list[JsonObject]:
        full = self._full
        manifests: list[JsonObject] = []
        if full["prometheusOperator"]["enabled"]:
            manifests += self._operator()
        if full["prometheus"]["enabled"]:
            manifests += self._prometheus()
        if full["alertmanager"]["enabled"]:
            manifests.append(self._alertmanager())
        if full["kubeStateMetrics"]["enabled"]:
            manifests.append(
                self._simulated_deployment("kube-state-metrics", full["kube-state-metrics"])
            )
        return manifests

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
            **_placement(full),
            "containers": [
                {
                    "name": "kube-prometheus-stack",
                    "image": self._image("quay.io", "prometheus-operator/prometheus-operator"),
                    "imagePullPolicy": "IfNotPresent",
                    "args": self._operator_arguments(full),
                    "ports": [{"containerPort": 8080, "name": "http"}],
                    "env": [{"name": "GOGC", "value": "30"}],
                    "resources": full["resources"],
                    "securityContext": _restricted_context(),
                    "readinessProbe": _probe("/healthz", "http"),
                    "livenessProbe": _probe("/healthz", "http"),
                }
            ],
            **self._pull_secrets(),
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
        arguments = [
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
            arguments.insert(0, f"--kubelet-service=kube-system/{self._name}-kubelet")
        for flag, key in (
            ("prometheus-instance-namespaces", "prometheusInstanceNamespaces"),
            ("alertmanager-instance-namespaces", "alertmanagerInstanceNamespaces"),
            ("alertmanager-config-namespaces", "alertmanagerConfigNamespaces"),
            ("thanos-ruler-instance-namespaces", "thanosRulerInstanceNamespaces"),
        ):
            if full[key]:
                arguments.append(f"--{flag}={','.join(full[key])}")
        return arguments

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
        settings = self._full["prometheus"]["prometheusSpec"]
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
            **_placement(settings),
            **self._pull_secrets(),
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
            spec[key] = settings[key]
        for key in (
            "scrapeInterval",
            "scrapeTimeout",
            "evaluationInterval",
            "retentionSize",
            "externalLabels",
            "arbitraryFSAccessThroughSMs",
        ):
            if settings[key]:
                spec[key] = settings[key]
        if settings["storageSpec"]:
            spec["storage"] = settings["storageSpec"]
        for kind in ("podMonitor", "serviceMonitor", "rule"):
            spec[f"{kind}Selector"] = self._selector(settings, kind)
            spec[f"{kind}NamespaceSelector"] = settings[f"{kind}NamespaceSelector"]
        return spec

    def _selector(self, settings: JsonObject, kind: str) -> JsonObject:
        if settings[f"{kind}Selector"]:
            return dict(settings[f"{kind}Selector"])
        if settings[f"{kind}SelectorNilUsesHelmValues"]:
            return {"matchLabels": {"release": self._release}}
        return {}

    def _alertmanager(self) -> JsonObject:
        settings, name = (
            self._full["alertmanager"]["alertmanagerSpec"],
            f"{self._name}-alertmanager",
        )
        spec: JsonObject = {
            "image": self._image("quay.io", "prometheus/alertmanager", "v0.28.1"),
            "version": "v0.28.1",
            "replicas": settings["replicas"],
            "resources": settings["resources"],
            **_placement(settings),
            **self._pull_secrets(),
        }
        if settings["useExistingSecret"]:
            spec["configSecret"] = settings["configSecret"]
        return self._object(f"{_GROUP}/v1", "Alertmanager", name, "alertmanager", spec=spec)

    def _simulated_deployment(self, part: str, settings: JsonObject) -> JsonObject:
        """A Deployment whose pods kwok simulates."""
        chosen = {"app.kubernetes.io/name": part, "app.kubernetes.io/instance": self._release}
        images = {
            "kube-state-metrics": ("registry.k8s.io", "kube-state-metrics/kube-state-metrics"),
        }
        registry, repository = images[part]
        pod: JsonObject = {
            **_placement(settings),
            "containers": [
                {
                    "name": part,
                    "image": self._image(registry, repository, "simulated"),
                    "resources": settings["resources"],
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

    def _pull_secrets(self) -> JsonObject:
        secrets = self._full["global"]["imagePullSecrets"]
        return {"imagePullSecrets": secrets} if secrets else {}


def _placement(settings: JsonObject) -> JsonObject:
    return {
        key: settings[key] for key in ("nodeSelector", "tolerations", "affinity") if settings[key]
    }


def _restricted_context() -> JsonObject:
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
        _rule("discovery.k8s.io", ["endpointslices"], [*_READ_VERBS, "create", "update", "delete"]),
        _rule("", ["nodes"], ["list", "watch"]),
        _rule("", ["namespaces"], _READ_VERBS),
        _rule("", ["events"], ["patch", "create"]),
        _rule("events.k8s.io", ["events"], ["patch", "create"]),
        _rule("networking.k8s.io", ["ingresses"], _READ_VERBS),
        _rule("storage.k8s.io", ["storageclasses"], ["get"]),
    ]


def _prometheus_rules() -> list[JsonObject]:
    """Source: templates/prometheus/clusterrole.yaml."""
    return [
        _rule("", ["nodes", "nodes/metrics", "services", "endpoints", "pods"], _READ_VERBS),
        _rule("discovery.k8s.io", ["endpointslices"], _READ_VERBS),
        _rule("networking.k8s.io", ["ingresses"], _READ_VERBS),
        {"nonResourceURLs": ["/metrics", "/metrics/cadvisor"], "verbs": ["get"]},
    ]

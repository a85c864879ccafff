"""What the chart installs. Source: kedacore/charts, keda/templates of 2.21.0, and the roles of
kedacore/keda v2.21.0, config/rbac and config/metrics-server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts import crd_files
from slicewright.rehearsal.plugins.charts.keda.values import VERSION, merged

_RBAC: Final = "rbac.authorization.k8s.io"
_READ_VERBS: Final = ("get", "list", "watch")
_CHANGED: Final = (*_READ_VERBS, "patch", "update")
_ALL: Final = ("create", "delete", *_CHANGED)
_METRICS_ACCOUNT: Final = "keda-metrics-server"
_CERTIFICATES: Final = "/certs"


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    full = merged(values)
    builder = _Manifests(full, release, namespace)
    manifests = [*builder.operator(), *builder.metrics_server()]
    if full["crds"]["install"]:
        manifests += _crds()
    if full["rbac"]["create"]:
        manifests += builder.rights()
    return manifests


def _crds() -> list[JsonObject]:
    return crd_files.read(Path(__file__).parent / "crds")


class _Manifests:
    def __init__(self, full: JsonObject, release: str, namespace: str) -> None:
        self._full = full
        self._release = release
        self._namespace = namespace
        self._operator: str = full["operator"]["name"]
        self._server = f"{self._operator}-metrics-apiserver"

    def operator(self) -> list[JsonObject]:
        full, name = self._full, self._operator
        log = full["logging"]["operator"]
        arguments = [
            "--leader-elect",
            "--disable-compression=true",
            f"--zap-log-level={log['level']}",
            f"--zap-encoder={log['format']}",
            f"--zap-time-encoding={log['timeEncoding']}",
            f"--cert-dir={_CERTIFICATES}",
            "--enable-cert-rotation=true",
            f"--cert-secret-name={full['certificates']['secretName']}",
            f"--operator-service-name={name}",
            f"--metrics-server-service-name={self._server}",
            "--webhooks-service-name=keda-admission-webhooks",
            f"--k8s-cluster-name={full['clusterName']}",
            f"--k8s-cluster-domain={full['clusterDomain']}",
            "--enable-prometheus-metrics=false",
            "--enable-webhook-patching=false",
        ]
        env = [
            {"name": "WATCH_NAMESPACE", "value": full["watchNamespace"]},
            _from_field("POD_NAME", "metadata.name"),
            _from_field("POD_NAMESPACE", "metadata.namespace"),
            {"name": "OPERATOR_NAME", "value": name},
            {"name": "KEDA_HTTP_DEFAULT_TIMEOUT", "value": str(int(full["http"]["timeout"]))},
        ]
        if full["permissions"]["operator"]["restrict"]["secret"]:
            env.append({"name": "KEDA_RESTRICT_SECRET_ACCESS", "value": "true"})
        container: JsonObject = {
            "name": name,
            "image": self._image("keda"),
            "imagePullPolicy": full["image"]["pullPolicy"],
            "command": ["/keda"],
            "args": arguments,
            "env": env,
            "ports": [{"containerPort": 9666, "name": "metricsservice", "protocol": "TCP"}],
            "livenessProbe": _probe("/healthz", 8081, delay_s=25),
            "readinessProbe": _probe("/readyz", 8081, delay_s=20, failures=3),
            "resources": full["resources"]["operator"],
            "securityContext": full["securityContext"]["operator"],
            "volumeMounts": [_certificate_mount()],
        }
        ports = [{"name": "metricsservice", "port": 9666, "targetPort": 9666}]
        return [
            self._object("v1", "ServiceAccount", name),
            self._service(name, name, ports),
            self._deployment(
                name,
                name,
                container,
                replicas=full["operator"]["replicaCount"],
                context=full["podSecurityContext"]["operator"],
                # The operator makes it.
                volumes=[self._certificates(optional=True)],
            ),
        ]

    def metrics_server(self) -> list[JsonObject]:
        full, name = self._full, self._server
        ports = [
            {"name": "https", "port": 443, "targetPort": 6443, "protocol": "TCP"},
            {"name": "metrics", "port": 8080, "targetPort": 8080, "protocol": "TCP"},
        ]
        api = {
            "service": {"name": name, "namespace": self._namespace, "port": 443},
            "group": "external.metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        return [
            self._object("v1", "ServiceAccount", _METRICS_ACCOUNT),
            self._service(name, name, ports),
            self._deployment(
                _METRICS_ACCOUNT,
                name,
                self._metrics_container(),
                replicas=full["metricsServer"]["replicaCount"],
                context=full["podSecurityContext"]["metricServer"],
                volumes=[self._certificates(optional=False)],
            ),
            # Its caBundle is the operator's to write.
            self._object(
                "apiregistration.k8s.io/v1",
                "APIService",
                "v1beta1.external.metrics.k8s.io",
                spec=api,
            ),
        ]

    def _metrics_container(self) -> JsonObject:
        full = self._full
        address = f"{self._operator}.{self._namespace}.svc.{full['clusterDomain']}:9666"
        arguments = [
            "--port=8080",
            "--secure-port=6443",
            "--logtostderr=true",
            f"--stderrthreshold={full['logging']['metricServer']['stderrthreshold']}",
            "--disable-compression=true",
            f"--metrics-service-address={address}",
            f"--client-ca-file={_CERTIFICATES}/ca.crt",
            f"--tls-cert-file={_CERTIFICATES}/tls.crt",
            f"--tls-private-key-file={_CERTIFICATES}/tls.key",
            f"--cert-dir={_CERTIFICATES}",
            f"--v={full['logging']['metricServer']['level']}",
        ]
        return {
            "name": self._server,
            "image": self._image("metricsApiServer"),
            "imagePullPolicy": full["image"]["pullPolicy"],
            "command": ["/keda-adapter"],
            "args": arguments,
            "env": [
                {"name": "WATCH_NAMESPACE", "value": full["watchNamespace"]},
                _from_field("POD_NAMESPACE", "metadata.namespace"),
                {"name": "KEDA_HTTP_DEFAULT_TIMEOUT", "value": str(int(full["http"]["timeout"]))},
            ],
            "ports": [
                {"containerPort": 6443, "name": "https", "protocol": "TCP"},
                {"containerPort": 8080, "name": "metrics", "protocol": "TCP"},
            ],
            "livenessProbe": _probe("/healthz", 6443, delay_s=5, scheme="HTTPS"),
            "readinessProbe": _probe("/readyz", 6443, delay_s=5, failures=3, scheme="HTTPS"),
            "resources": full["resources"]["metricServer"],
            "securityContext": full["securityContext"]["metricServer"],
            "volumeMounts": [_certificate_mount()],
        }

    def rights(self) -> list[JsonObject]:
        operator, reader = self._operator, f"{self._operator}-external-metrics-reader"
        restricted = self._full["permissions"]["operator"]["restrict"]["secret"]
        custom = self._full["rbac"]["enabledCustomScaledRefKinds"]
        controller = {
            "kind": "ServiceAccount",
            "name": "horizontal-pod-autoscaler",
            "namespace": "kube-system",
        }
        return [
            self._object(
                f"{_RBAC}/v1",
                "ClusterRole",
                operator,
                rules=_operator_rules(secrets=not restricted, custom=custom),
            ),
            self._binding("ClusterRole", operator, operator),
            self._object(f"{_RBAC}/v1", "Role", operator, rules=_operator_role_rules()),
            self._binding("Role", operator, operator),
            self._object(f"{_RBAC}/v1", "ClusterRole", _METRICS_ACCOUNT, rules=_server_rules()),
            self._binding("ClusterRole", _METRICS_ACCOUNT, _METRICS_ACCOUNT),
            self._binding(
                "ClusterRole",
                f"{operator}-system-auth-delegator",
                _METRICS_ACCOUNT,
                role="system:auth-delegator",
            ),
            self._binding(
                "Role",
                f"{operator}-auth-reader",
                _METRICS_ACCOUNT,
                role="extension-apiserver-authentication-reader",
                namespace="kube-system",
            ),
            self._object(
                f"{_RBAC}/v1",
                "ClusterRole",
                reader,
                rules=[_rule("external.metrics.k8s.io", ["*"], ("*",))],
            ),
            {
                **self._object(
                    f"{_RBAC}/v1",
                    "ClusterRoleBinding",
                    f"{operator}-hpa-controller-external-metrics",
                ),
                "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": reader},
                "subjects": [controller],
            },
        ]

    def _binding(
        self, kind: str, name: str, account: str, *, role: str = "", namespace: str = ""
    ) -> JsonObject:
        binding = self._object(f"{_RBAC}/v1", f"{kind}Binding", name)
        if namespace:
            binding["metadata"]["namespace"] = namespace
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self._namespace}
        return {
            **binding,
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role or name},
            "subjects": [subject],
        }

    def _service(self, name: str, app: str, ports: list[JsonObject]) -> JsonObject:
        return self._object("v1", "Service", name, spec={"ports": ports, "selector": {"app": app}})

    def _deployment(
        self,
        account: str,
        name: str,
        container: JsonObject,
        *,
        replicas: int,
        context: JsonObject,
        volumes: list[JsonObject],
    ) -> JsonObject:
        pod: JsonObject = {
            "serviceAccountName": account,
            "automountServiceAccountToken": True,
            "securityContext": context,
            "containers": [container],
            "volumes": volumes,
            "nodeSelector": {"kubernetes.io/os": "linux", **self._full["nodeSelector"]},
        }
        for key in ("affinity", "tolerations", "imagePullSecrets"):
            if self._full[key]:
                pod[key] = self._full[key]
        template = {"metadata": {"labels": {**self._labels(), "app": name}}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
        return self._object("apps/v1", "Deployment", name, spec={**spec, "template": template})

    def _certificates(self, *, optional: bool) -> JsonObject:
        secret = {
            "defaultMode": 420,
            "secretName": self._full["certificates"]["secretName"],
            **({"optional": True} if optional else {}),
        }
        return {"name": "certificates", "secret": secret}

    def _image(self, which: str) -> str:
        image = self._full["image"][which]
        registry = self._full["global"]["image"]["registry"] or image["registry"]
        return f"{registry}/{image['repository']}:{image['tag'] or VERSION}"

    def _object(self, api: str, kind: str, name: str, **body: Any) -> JsonObject:
        metadata: JsonObject = {"name": name, "labels": self._labels()}
        if not kind.startswith("Cluster") and kind != "APIService":
            metadata["namespace"] = self._namespace
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}

    def _labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/component": "operator",
            "app.kubernetes.io/instance": self._release,
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/part-of": "keda-operator",
            "app.kubernetes.io/version": VERSION,
            "helm.sh/chart": f"keda-{VERSION}",
            **self._full["additionalLabels"],
        }


def _certificate_mount() -> JsonObject:
    return {"mountPath": _CERTIFICATES, "name": "certificates", "readOnly": True}


def _from_field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(
    path: str, port: int, *, delay_s: int, failures: int = 3, scheme: str = "HTTP"
) -> JsonObject:
    return {
        "httpGet": {"path": path, "port": port, "scheme": scheme},
        "initialDelaySeconds": delay_s,
        "failureThreshold": failures,
        "periodSeconds": 10,
        "timeoutSeconds": 1,
    }


def _rule(group: str, resources: list[str], verbs: tuple[str, ...]) -> JsonObject:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _operator_rules(*, secrets: bool, custom: bool) -> list[JsonObject]:
    scaled = ["scaledobjects", "scaledjobs"]
    keda = [f"{resource}{part}" for resource in scaled for part in ("", "/finalizers", "/status")]
    keda += [
        f"{resource}{part}"
        for resource in ("triggerauthentications", "clustertriggerauthentications")
        for part in ("", "/status")
    ]
    events = ["cloudeventsources", "clustercloudeventsources"]
    scaled_kinds = ["deployments", "replicasets", "statefulsets"]
    read = ["configmaps", "configmaps/status", "external", "pods", "services"]
    rules = [
        _rule("", [*read, "secrets"] if secrets else read, _READ_VERBS),
        _rule("", ["limitranges", "serviceaccounts"], ("list", "watch")),
        _rule("", ["events"], ("create", "patch")),
        _rule("events.k8s.io", ["events"], ("create", "patch")),
        _rule("apiregistration.k8s.io", ["apiservices"], _CHANGED),
        _rule("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], _CHANGED),
        _rule("apps", scaled_kinds, _READ_VERBS),
        _rule("apps", [f"{resource}/scale" for resource in scaled_kinds], _CHANGED),
        _rule("autoscaling", ["horizontalpodautoscalers"], _ALL),
        _rule("batch", ["jobs"], _ALL),
        _rule("discovery.k8s.io", ["endpointslices"], _READ_VERBS),
        _rule("keda.sh", keda, _CHANGED),
        _rule("eventing.keda.sh", [f"{e}{p}" for e in events for p in ("", "/status")], _CHANGED),
    ]
    if custom:
        rules += [_rule("*", ["*"], ("get",)), _rule("*", ["*/scale"], _CHANGED)]
    return rules


def _operator_role_rules() -> list[JsonObject]:
    return [
        _rule("", ["secrets"], _ALL),
        _rule("coordination.k8s.io", ["leases"], _ALL),
    ]


def _server_rules() -> list[JsonObject]:
    return [
        _rule("keda.sh", ["scaledobjects"], _READ_VERBS),
        _rule("", ["events"], ("create", "patch")),
    ]

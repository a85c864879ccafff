"""The objects of the chart, without HAMi-core: the simulated NVML obeys its limits itself.

The Secret replaces the chart's Jobs that make the webhook's certificate. Source:
Project-HAMi/HAMi v2.10.0, charts/hami/templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.cert_manager.certificates import secret_of
from slicewright.rehearsal.plugins.charts.hami import plugin
from slicewright.rehearsal.plugins.charts.hami.values import VERSION, merged

_RBAC: Final = "rbac.authorization.k8s.io"
_KUBERNETES: Final = "v1.36.2"
"""The chart takes the cluster's version."""
_RESOURCES: Final = ("gpu", "gpumem", "gpucores", "gpumem-percentage", "priority")
_READ: Final = ["get", "list", "watch"]
_WRITTEN: Final = [*_READ, "update", "patch"]
_RULES: Final[Mapping[str, list[JsonObject]]] = {
    name: [
        {"apiGroups": [""], "resources": resources, "verbs": verbs} for resources, verbs in rules
    ]
    for name, rules in {
        "scheduler": (
            (["pods", "nodes"], _WRITTEN),
            (["pods/binding"], ["create"]),
            (["configmaps", "resourcequotas"], _READ),
        ),
        "device-plugin": ((["pods", "nodes"], _WRITTEN), (["configmaps"], _READ)),
    }.items()
}


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    hami = _Hami(full=merged(values), release=release, namespace=namespace)
    certificate = hami.certificate()
    manifests = [*hami.scheduler(), *hami.rights("scheduler"), certificate]
    if hami.full["scheduler"]["admissionWebhook"]["enabled"]:
        manifests.append(hami.webhook(certificate["data"]["tls.crt"]))
    if hami.full["devicePlugin"]["enabled"]:
        manifests += [*hami.device_plugin(), *hami.rights("device-plugin")]
    return manifests


@dataclass(frozen=True, kw_only=True)
class _Hami:
    full: JsonObject
    release: str
    namespace: str

    @property
    def _scheduler_name(self) -> str:
        return f"{self.release}-scheduler"

    @property
    def _certificate(self) -> str:
        return f"{self._scheduler_name}-tls"

    def scheduler(self) -> list[JsonObject]:
        name, settings = self._scheduler_name, self.full["scheduler"]
        labels = self._labels("hami-scheduler")
        pod: JsonObject = {
            "serviceAccountName": name,
            "priorityClassName": "system-node-critical",
            "containers": [self._kube_scheduler(), self._extender()],
            "volumes": [
                {"name": "scheduler-config", "configMap": {"name": name}},
                {"name": "device-config", "configMap": {"name": f"{name}-device"}},
                {"name": "tls-config", "secret": {"secretName": self._certificate}},
            ],
            **self._pull_secrets(),
        }
        for key in ("nodeSelector", "tolerations"):
            if settings[key]:
                pod[key] = settings[key]
        template = {"metadata": {"labels": {**labels, "hami.io/webhook": "ignore"}}, "spec": pod}
        spec = {
            "replicas": settings["replicas"],
            "selector": {"matchLabels": labels},
            "template": template,
        }
        service = settings["service"]
        port = {"name": "http", "port": service["httpPort"]}
        ports = [{**port, "targetPort": service["httpTargetPort"], "protocol": "TCP"}]
        exposed = {"type": service["type"], "ports": ports, "selector": labels}
        config = yaml.safe_dump(self._config(), sort_keys=False)
        return [
            self._object("apps/v1", "Deployment", name, spec=spec),
            self._object("v1", "Service", name, spec=exposed),
            self._object("v1", "ConfigMap", name, data={"config.yaml": config}),
            self._object("v1", "ConfigMap", f"{name}-device", data=self._device_config()),
        ]

    def _config(self) -> JsonObject:
        port = self.full["scheduler"]["service"]["httpTargetPort"]
        managed = [{"name": f"nvidia.com/{r}", "ignoredByScheduler": True} for r in _RESOURCES]
        extender = {
            "urlPrefix": f"https://127.0.0.1:{port}",
            "filterVerb": "filter",
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "weight": 1,
            "httpTimeout": "30s",
            "enableHTTPS": True,
            "tlsConfig": {"insecure": True},
            "managedResources": managed,
        }
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": self.full["schedulerName"]}],
            "extenders": [extender],
        }

    def _device_config(self) -> JsonObject:
        settings = self.full["devicePlugin"]
        names = ("deviceSplitCount", "deviceMemoryScaling", "deviceCoreScaling")
        nvidia = {
            "resourceCountName": "nvidia.com/gpu",
            "resourceMemoryName": "nvidia.com/gpumem",
            "resourceCoreName": "nvidia.com/gpucores",
            **{name: settings[name] for name in names},
        }
        return {"device-config.yaml": yaml.safe_dump({"nvidia": nvidia}, sort_keys=False)}

    def _kube_scheduler(self) -> JsonObject:
        settings = self.full["scheduler"]["kubeScheduler"]
        return {
            "name": "kube-scheduler",
            "image": self.image(settings["image"], _KUBERNETES),
            "imagePullPolicy": settings["image"]["pullPolicy"],
            "command": ["kube-scheduler", "--config=/config/config.yaml", "-v=4"],
            "resources": settings["resources"],
            "volumeMounts": [{"name": "scheduler-config", "mountPath": "/config"}],
        }

    def _extender(self) -> JsonObject:
        settings = self.full["scheduler"]
        policies, image = settings["defaultSchedulerPolicy"], settings["extender"]["image"]
        port = settings["service"]["httpTargetPort"]
        file = "device-config.yaml"
        return {
            "name": "vgpu-scheduler-extender",
            "image": self.image(image),
            "imagePullPolicy": image["pullPolicy"],
            "command": [
                "scheduler",
                f"--http_bind=0.0.0.0:{port}",
                "--cert_file=/tls/tls.crt",
                "--key_file=/tls/tls.key",
                f"--scheduler-name={self.full['schedulerName']}",
                f"--node-scheduler-policy={policies['nodeSchedulerPolicy']}",
                f"--gpu-scheduler-policy={policies['gpuSchedulerPolicy']}",
                f"--device-config-file=/{file}",
            ],
            "ports": [{"name": "https", "containerPort": port, "protocol": "TCP"}],
            "resources": settings["extender"]["resources"],
            "readinessProbe": {
                "httpGet": {"path": "/readyz", "port": "https", "scheme": "HTTPS"},
                "periodSeconds": 10,
                "timeoutSeconds": 5,
            },
            "volumeMounts": [
                {"name": "device-config", "mountPath": f"/{file}", "subPath": file},
                {"name": "tls-config", "mountPath": "/tls"},
            ],
        }

    def certificate(self) -> JsonObject:
        names = [f"{self._scheduler_name}.{self.namespace}.svc", "127.0.0.1"]
        spec = {"secretName": self._certificate, "dnsNames": names}
        metadata = {"name": self._certificate, "namespace": self.namespace}
        return secret_of({"metadata": metadata, "spec": spec})

    def webhook(self, trusted: str) -> JsonObject:
        settings = self.full["scheduler"]
        ignored = {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
        service = {
            "name": self._scheduler_name,
            "namespace": self.namespace,
            "path": "/webhook",
            "port": settings["service"]["httpPort"],
        }
        hook = {
            "name": "vgpu.hami.io",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": service, "caBundle": trusted},
            "failurePolicy": settings["admissionWebhook"]["failurePolicy"],
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [ignored]},
            "objectSelector": {"matchExpressions": [ignored]},
            "reinvocationPolicy": "Never",
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "*",
                }
            ],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }
        name = f"{self.release}-webhook"
        api = "admissionregistration.k8s.io/v1"
        return self._object(api, "MutatingWebhookConfiguration", name, webhooks=[hook])

    def device_plugin(self) -> list[JsonObject]:
        settings, name = self.full["devicePlugin"], f"{self.release}-device-plugin"
        labels = self._labels("hami-device-plugin")
        pod = {
            **plugin.pod(
                self.full,
                image=self.image(settings["image"]),
                monitor=self.image(settings["monitor"]["image"]),
                config=f"{self._scheduler_name}-device",
            ),
            "serviceAccountName": name,
            **self._pull_secrets(),
        }
        template = {"metadata": {"labels": {**labels, "hami.io/webhook": "ignore"}}, "spec": pod}
        spec = {
            "selector": {"matchLabels": labels},
            "updateStrategy": settings["updateStrategy"],
            "template": template,
        }
        data = {"config.json": settings["nodeConfiguration"]["config"]}
        return [
            self._object("apps/v1", "DaemonSet", name, spec=spec),
            self._object("v1", "ConfigMap", name, data=data),
        ]

    def rights(self, program: str) -> list[JsonObject]:
        name = f"{self.release}-{program}"
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": self.namespace}]
        roles = {name: name}
        if program == "scheduler":
            kubernetes = ("system:kube-scheduler", "system:volume-scheduler")
            roles |= {f"{name}-{role.partition(':')[2]}": role for role in kubernetes}
        return [
            self._object("v1", "ServiceAccount", name),
            self._object(f"{_RBAC}/v1", "ClusterRole", name, rules=_RULES[program]),
            *(
                self._object(
                    f"{_RBAC}/v1",
                    "ClusterRoleBinding",
                    binding,
                    roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
                    subjects=subjects,
                )
                for binding, role in roles.items()
            ),
        ]

    def image(self, image: JsonObject, tag: str = "") -> str:
        registry = self.full["global"]["imageRegistry"] or image["registry"]
        chosen = image["tag"] or tag or self.full["global"]["imageTag"]
        return f"{registry}/{image['repository']}:{chosen}"

    def _pull_secrets(self) -> JsonObject:
        secrets = [{"name": name} for name in self.full["global"]["imagePullSecrets"]]
        return {"imagePullSecrets": secrets} if secrets else {}

    def _labels(self, component: str) -> dict[str, str]:
        return {
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/name": "hami",
            "app.kubernetes.io/instance": self.release,
        }

    def _object(self, api: str, kind: str, name: str, **body: Any) -> JsonObject:
        labels = {"helm.sh/chart": f"hami-{VERSION}", "app.kubernetes.io/instance": self.release}
        metadata: JsonObject = {"name": name, "labels": labels}
        if not kind.startswith(("Cluster", "Mutating")):
            metadata["namespace"] = self.namespace
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}

"""The objects of the chart, without the roles that let people see its Jobs. Source:
volcano-sh/volcano v1.15.1, installer/helm/chart/volcano; its definitions and rights are its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts import crd_files
from slicewright.rehearsal.plugins.charts.volcano.values import merged

_HERE: Final = Path(__file__).parent
_RBAC: Final = "rbac.authorization.k8s.io"
_CONFIG: Final = "/volcano.scheduler"
_DEFAULT_CONFIG: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def render(values: Mapping[str, Any], release: str, namespace: str) -> list[JsonObject]:
    """The manifests, in no particular order. The values must have passed `check`."""
    volcano = _Volcano(full=merged(values), release=release, namespace=namespace)
    manifests = crd_files.read(_HERE / "crds")
    if volcano.custom["scheduler_enable"]:
        manifests += volcano.scheduler()
    if volcano.custom["controller_enable"]:
        manifests += volcano.controllers()
    return manifests


@dataclass(frozen=True, kw_only=True)
class _Program:
    """One of the two programs: its names in values, objects and rights."""

    prefix: str
    name: str
    app: str
    port: int
    arguments: Sequence[str]
    container: JsonObject
    volumes: Sequence[JsonObject] = ()


@dataclass(frozen=True, kw_only=True)
class _Volcano:
    full: JsonObject
    release: str
    namespace: str

    @property
    def custom(self) -> JsonObject:
        return dict(self.full["custom"])

    def scheduler(self) -> list[JsonObject]:
        file = Path(self.full["basic"]["scheduler_config_file"]).name
        config = self.custom["scheduler_config_override"] or _DEFAULT_CONFIG
        name = f"{self.release}-scheduler-configmap"
        mounts = [
            {"name": "scheduler-config", "mountPath": _CONFIG},
            {"name": "klog-sock", "mountPath": "/tmp/klog-socks"},  # noqa: S108 - in the container
        ]
        program = _Program(
            prefix="scheduler",
            name="scheduler",
            app="volcano-scheduler",
            port=8080,
            arguments=list(self._scheduler_arguments(f"{_CONFIG}/{file}")),
            container={
                "env": [{"name": "DEBUG_SOCKET_DIR", "value": "/tmp/klog-socks"}],  # noqa: S108
                "volumeMounts": mounts,
            },
            volumes=[
                {"name": "scheduler-config", "configMap": {"name": name}},
                {"name": "klog-sock", "emptyDir": {}},
            ],
        )
        data = {"volcano-scheduler.conf": config}
        return [self._object("v1", "ConfigMap", name, data=data), *self._objects(program)]

    def _scheduler_arguments(self, config: str) -> Iterator[str]:
        custom = self.custom
        yield from ("--logtostderr", f"--scheduler-conf={config}")
        if custom["scheduler_name"]:
            yield f"--scheduler-name={custom['scheduler_name']}"
        yield "--enable-healthz=true"
        if custom["scheduler_metrics_enable"]:
            yield "--enable-metrics=true"
        yield from self._leader_election()
        yield f"--kube-api-qps={custom['scheduler_kube_api_qps']}"
        yield f"--kube-api-burst={custom['scheduler_kube_api_burst']}"
        yield f"--schedule-period={custom['scheduler_schedule_period']}"
        yield f"--node-worker-threads={custom['scheduler_node_worker_threads']}"
        if custom["scheduler_feature_gates"]:
            yield f"--feature-gates={custom['scheduler_feature_gates']}"
        yield from (f"-v={custom['scheduler_log_level']}", "2>&1")

    def controllers(self) -> list[JsonObject]:
        env = [
            {"name": "KUBE_POD_NAMESPACE", "value": self.namespace},
            {"name": "HELM_RELEASE_NAME", "value": self.release},
        ]
        program = _Program(
            prefix="controller",
            name="controllers",
            app="volcano-controller",
            port=8081,
            arguments=list(self._controller_arguments()),
            container={"env": env},
        )
        config = f"{self.release}-controller-configmap"
        data = {"volcano-controller.conf": ""}
        objects = [*self._objects(program), self._object("v1", "ConfigMap", config, data=data)]
        if self.custom["sharding_configmap_enable"]:
            data = {"sharding.yaml": ""}
            objects.append(self._object("v1", "ConfigMap", self._sharding, data=data))
        return objects

    @property
    def _sharding(self) -> str:
        return f"{self.release}-sharding-configmap"

    def _controller_arguments(self) -> Iterator[str]:
        custom = self.custom
        yield from ("--logtostderr", "--enable-healthz=true")
        if custom["controller_metrics_enable"]:
            yield "--enable-metrics=true"
        if custom["scheduler_name"]:
            yield f"--scheduler-name={custom['scheduler_name']}"
        yield from self._leader_election()
        yield f"--kube-api-qps={custom['controller_kube_api_qps']}"
        yield f"--kube-api-burst={custom['controller_kube_api_burst']}"
        yield f"--worker-threads={custom['controller_worker_threads']}"
        yield f"--worker-threads-for-gc={custom['controller_worker_threads_for_gc']}"
        yield f"--worker-threads-for-podgroup={custom['controller_worker_threads_for_podgroup']}"
        if custom["sharding_configmap_enable"]:
            yield f"--sharding-configmap={self._sharding}"
            yield f"--sharding-configmap-namespace={self.namespace}"
        yield from (f"-v={custom['controller_log_level']}", "2>&1")

    def _leader_election(self) -> Iterator[str]:
        enabled = bool(self.custom["leader_elect_enable"])
        yield f"--leader-elect={str(enabled).lower()}"
        if enabled:
            yield f"--leader-elect-resource-namespace={self.namespace}"

    def _objects(self, program: _Program) -> list[JsonObject]:
        """Account, rights, Deployment and Service of one program."""
        name = f"{self.release}-{program.name}"
        rules = json.loads((_HERE / "rights.json").read_text())[program.name]
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        ports = {"name": "metrics", "port": program.port, "protocol": "TCP"}
        return [
            self._object("v1", "ServiceAccount", name),
            self._object(f"{_RBAC}/v1", "ClusterRole", name, rules=rules),
            self._object(
                f"{_RBAC}/v1",
                "ClusterRoleBinding",
                f"{name}-role",
                roleRef=role,
                subjects=[subject],
            ),
            self._deployment(program, name),
            self._object(
                "v1",
                "Service",
                f"{name}-service",
                spec={
                    "ports": [{**ports, "targetPort": program.port}],
                    "selector": {"app": program.app},
                    "type": "ClusterIP",
                },
            ),
        ]

    def _deployment(self, program: _Program, name: str) -> JsonObject:
        custom, labels = self.custom, {"app": program.app}
        pod: JsonObject = {
            "serviceAccount": name,
            "priorityClassName": "system-cluster-critical",
            "securityContext": custom["default_sc"],
            "containers": [self._container(program, name)],
            "volumes": list(program.volumes),
        }
        for key, suffix in (("tolerations", "tolerations"), ("nodeSelector", "ns")):
            if value := custom[f"{program.prefix}_{suffix}"] or custom[f"default_{suffix}"]:
                pod[key] = value
        if affinity := custom[f"{program.prefix}_affinity"] or custom["default_affinity"]:
            pod["affinity"] = affinity
        if secret := self.full["basic"]["image_pull_secret"]:
            pod["imagePullSecrets"] = [{"name": secret}]
        spec = {
            "replicas": custom[f"{program.prefix}_replicas"],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        return self._object("apps/v1", "Deployment", name, labels=labels, spec=spec)

    def _container(self, program: _Program, name: str) -> JsonObject:
        basic = self.full["basic"]
        tag = basic[f"{program.prefix}_image_tag_version"] or basic["image_tag_version"]
        repository = basic[f"{program.prefix}_image_name"]
        return {
            "name": name,
            "image": f"{basic['image_registry']}/{repository}:{tag}",
            "imagePullPolicy": basic["image_pull_policy"],
            "args": list(program.arguments),
            "resources": self.custom[f"{program.prefix}_resources"] or {},
            "securityContext": self.custom["default_csc"],
            **program.container,
        }

    def _object(
        self, api: str, kind: str, name: str, labels: Mapping[str, str] | None = None, **body: Any
    ) -> JsonObject:
        metadata: JsonObject = {"name": name}
        if merged_labels := {**(labels or {}), **(self.custom["common_labels"] or {})}:
            metadata["labels"] = merged_labels
        if not kind.startswith("Cluster"):
            metadata["namespace"] = self.namespace
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}

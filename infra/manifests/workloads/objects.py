"""Workloads that serve models, as Kubernetes objects.

Every pod passes Kubernetes' `restricted` Pod Security Standard, and has an account without rights
and without a token: a model server needs nothing from the API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slicewright.infra.manifests.pods import pod_request
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.manifests.workloads.container import container_server
from slicewright.infra.manifests.workloads.heads import head, labels, not_awaited, selector
from slicewright.infra.manifests.workloads.server import Server
from slicewright.infra.manifests.workloads.triton import triton_server
from slicewright.infra.manifests.workloads.vllm import vllm_server
from slicewright.infra.plan import CloudSettings, DeploymentPlan, FleetPlan, PoolPlan
from slicewright.infra.stack_file import (
    ContainerWorkload,
    HostResources,
    TritonWorkload,
    VllmWorkload,
)

_IMAGE_MINUTES: Final = 15
"""Time to pull the image, before the container starts and its start-up budget begins: vLLM's image
has 10 GB.
"""
_HOME: Final = "/home/server"
_STARTUP_S: Final = 10
_CHECK_S: Final = 20
"""Seconds between two readiness or liveness probes of a server that has started."""


@dataclass(frozen=True, kw_only=True)
class WorkloadObjects:
    """One workload's objects, in the order of creation."""

    before: tuple[JsonObject, ...]
    """Account, disruption budget, volumes and claims."""
    deployment: JsonObject
    service: JsonObject | None
    """Created after the Deployment: addresses of starting pods are not ready, and the provider
    would wait for them.
    """
    start_minutes: int
    """All replicas of a new workload must become ready within this time."""
    update_minutes: int
    """The same for an update, which replaces a few replicas at a time."""

    @property
    def all(self) -> tuple[JsonObject, ...]:
        return (*self.before, self.deployment, *([self.service] if self.service else []))


def workload_namespaces(fleet: FleetPlan) -> list[JsonObject]:
    """The namespaces that the stack creates for workloads."""
    names = {plan.namespace for plan in fleet.deployments if plan.workload.create_namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        }
        for name in sorted(names - {"default"})
    ]


def workload_objects(plan: DeploymentPlan, pool: PoolPlan) -> WorkloadObjects:
    """pool: the plan's pool."""
    workload, server = plan.workload, _server(plan)
    minutes = workload.startup_minutes + _IMAGE_MINUTES
    rounds = max(-(-plan.most // workload.max_unavailable), 1)
    return WorkloadObjects(
        before=(
            {
                **head(plan, "v1", "ServiceAccount"),
                "automountServiceAccountToken": False,
            },
            _disruption_budget(plan),
            *(manifest for mounted in server.volumes for manifest in mounted.objects),
        ),
        deployment=_deployment(plan, pool, server, deadline_s=minutes * 60),
        service=_service(plan, server),
        start_minutes=minutes,
        update_minutes=minutes * rounds,
    )


def _disruption_budget(plan: DeploymentPlan) -> JsonObject:
    return {
        **head(plan, "policy/v1", "PodDisruptionBudget"),
        "spec": {
            "maxUnavailable": plan.workload.max_unavailable,
            "selector": {"matchLabels": selector(plan)},
            # A replica that does not serve must not keep its node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _awaited(plan: DeploymentPlan, manifest: JsonObject) -> JsonObject:
    """The object, not awaited if some replicas have no device: `up` would wait for those replicas
    until its timeout.
    """
    return manifest if plan.awaited else not_awaited(manifest)


def _deployment(
    plan: DeploymentPlan, pool: PoolPlan, server: Server, *, deadline_s: int
) -> JsonObject:
    return {
        **_awaited(plan, head(plan, "apps/v1", "Deployment")),
        "spec": {
            # Once an autoscaled workload exists, its autoscaler sets the number.
            "replicas": plan.at_first,
            "selector": {"matchLabels": selector(plan)},
            # No extra pod: if all partitions are taken, it would never start.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": plan.workload.max_unavailable},
            },
            "progressDeadlineSeconds": deadline_s,
            "template": {
                "metadata": _pod_metadata(plan),
                "spec": _pod(plan, pool, server),
            },
        },
    }


def _pod_metadata(plan: DeploymentPlan) -> JsonObject:
    """Labels, and the annotations that the engine of a shared GPU reads."""
    annotations = {} if plan.share is None else dict(plan.share.annotations)
    return {"labels": labels(plan), **({"annotations": annotations} if annotations else {})}


def _pod(plan: DeploymentPlan, pool: PoolPlan, server: Server) -> JsonObject:
    workload, request = plan.workload, pod_request(pool, ())
    spec: JsonObject = {
        "serviceAccountName": plan.name,
        "automountServiceAccountToken": False,
        # Without this, a Service named vllm sets VLLM_PORT, which vLLM reads as its own setting.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": workload.grace_seconds,
        "securityContext": _pod_security(workload.run_as_user),
        "nodeSelector": request["nodeSelector"],
        "tolerations": request["tolerations"],
        "containers": [_container(plan, server)],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": workload.shared_memory}},
            {"name": "home", "emptyDir": {}},
            *(mounted.volume for mounted in server.volumes),
        ],
    }
    if workload.image_pull_secrets:
        secrets = dict.fromkeys(workload.image_pull_secrets)
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    if request.get("hostIPC"):
        spec["hostIPC"] = True
    if "schedulerName" in request:
        spec["schedulerName"] = request["schedulerName"]
    if plan.node_labels:
        spec["affinity"] = _node_affinity(plan.node_labels)
    if spread := _spread(plan, pool):
        spec["topologySpreadConstraints"] = spread
    return spec


def _pod_security(user: int) -> JsonObject:
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        # The kubelet then does not walk through hundreds of gigabytes at every start.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _node_affinity(node_labels: Mapping[str, str]) -> JsonObject:
    terms = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in sorted(node_labels.items())
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": terms}]
            }
        }
    }


def _spread(plan: DeploymentPlan, pool: PoolPlan) -> list[JsonObject]:
    """Spreads replicas over nodes and zones if there are several. No pod waits for the spread. On
    shared GPUs the engine's policy decides.
    """
    if plan.share is not None:
        return []
    keys = ["kubernetes.io/hostname"] if pool.nodes.max > 1 else []
    if isinstance(pool.settings, CloudSettings) and len(pool.settings.zones) > 1:
        keys.append("topology.kubernetes.io/zone")
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(plan)},
        }
        for key in keys
    ]


def _server(plan: DeploymentPlan) -> Server:
    match plan.workload:
        case VllmWorkload() as workload:
            return vllm_server(plan, workload)
        case TritonWorkload() as workload:
            return triton_server(plan, workload)
        case ContainerWorkload() as workload:
            return container_server(plan, workload)


def _container(plan: DeploymentPlan, server: Server) -> JsonObject:
    workload = plan.workload
    container: JsonObject = {
        "name": workload.kind,
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        "env": _env(plan, server),
        "resources": _resources(plan, workload.requests, workload.limits),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a path in the pod
            {"name": "home", "mountPath": _HOME},
            *(mounted.mount for mounted in server.volumes),
        ],
    }
    if server.ports:
        container["ports"] = [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in server.ports.items()
        ]
    if server.command:
        container["command"] = list(server.command)
    if server.args:
        container["args"] = list(server.args)
    return container | _probes(server, startup_minutes=workload.startup_minutes)


def _probes(server: Server, *, startup_minutes: int) -> JsonObject:
    if server.ready is None:
        return {}
    times = {"periodSeconds": _CHECK_S, "timeoutSeconds": 5, "failureThreshold": 3}
    return {
        # The other probes wait until this one has succeeded, so that none ends a server that loads.
        "startupProbe": {
            **server.ready,
            "periodSeconds": _STARTUP_S,
            "timeoutSeconds": 5,
            "failureThreshold": -(-startup_minutes * 60 // _STARTUP_S),
        },
        "readinessProbe": {**server.ready, **times},
        **({"livenessProbe": {**server.alive, **times}} if server.alive is not None else {}),
    }


def _env(plan: DeploymentPlan, server: Server) -> list[JsonObject]:
    workload = plan.workload
    # The user has no entry in the image's /etc/passwd, where programs look for name and home.
    plain = {"HOME": _HOME, "USER": "server", **server.env, **workload.env}
    return [
        *(
            {"name": name, "value": value}
            for name, value in plain.items()
            if name not in workload.secrets
        ),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
            for name, secret in sorted(workload.secrets.items())
        ),
    ]


def _resources(plan: DeploymentPlan, requests: HostResources, limits: HostResources) -> JsonObject:
    amounts = {plan.resource: plan.devices} if plan.share is None else plan.share.requests
    device = {name: str(amount) for name, amount in amounts.items()}
    return {"requests": {**_host(requests), **device}, "limits": {**_host(limits), **device}}


def _host(resources: HostResources) -> JsonObject:
    amounts = {"cpu": resources.cpu, "memory": resources.memory}
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _service(plan: DeploymentPlan, server: Server) -> JsonObject | None:
    if not server.ports:
        return None
    service = head(plan, "v1", "Service")
    if plan.workload.service.annotations:
        annotations = dict(sorted(plan.workload.service.annotations.items()))
        service["metadata"]["annotations"] = annotations
    return {
        **_awaited(plan, service),
        "spec": {
            "type": plan.workload.service.type,
            "selector": selector(plan),
            "ports": [
                {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
                for name, port in server.ports.items()
            ],
        },
    }


def workloads_of(fleet: FleetPlan) -> Sequence[tuple[DeploymentPlan, WorkloadObjects]]:
    """The objects of all workloads of a fleet."""
    pools = {pool.name: pool for pool in fleet.pools}
    return [(plan, workload_objects(plan, pools[plan.workload.pool])) for plan in fleet.deployments]

"""Workloads that serve models, as Kubernetes objects.

Every pod passes Kubernetes' `restricted` Pod Security Standard, and has an account without rights
and without a token: a model server asks nothing of the API server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.plan import CloudSettings, DeploymentPlan, FleetPlan, PoolPlan
from infra.spec import ContainerWorkload, HostResources, TritonWorkload, VllmWorkload
from infra.values.container import container_server
from infra.values.pods import pod_request
from infra.values.server import Server
from infra.values.text import JsonObject
from infra.values.triton import triton_server
from infra.values.vllm import vllm_server
from infra.values.workload_heads import head, labels, not_awaited, selector

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
    """Made after the Deployment: addresses of starting pods are not ready, and would be awaited."""
    start_minutes: int
    """How long the replicas may take until they are ready: all at the same time."""
    update_minutes: int
    """The same for an update, which replaces some at a time."""

    @property
    def all(self) -> tuple[JsonObject, ...]:
        return (*self.before, self.deployment, *([self.service] if self.service else []))


def workload_namespaces(fleet: FleetPlan) -> list[JsonObject]:
    """The namespaces that the stack makes for workloads."""
    made = {one.namespace for one in fleet.deployments if one.workload.create_namespace}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        }
        for name in sorted(made - {"default"})
    ]


def workload_objects(plan: DeploymentPlan, pool: PoolPlan) -> WorkloadObjects:
    """pool: the plan's pool."""
    asked, server = plan.workload, _server(plan)
    minutes = asked.startup_minutes + _IMAGE_MINUTES
    rounds = max(-(-plan.most // asked.max_unavailable), 1)
    return WorkloadObjects(
        before=(
            {
                **head(plan, "v1", "ServiceAccount"),
                "automountServiceAccountToken": False,
            },
            {
                **head(plan, "policy/v1", "PodDisruptionBudget"),
                "spec": {
                    "maxUnavailable": asked.max_unavailable,
                    "selector": {"matchLabels": selector(plan)},
                    # A replica that does not serve must not keep its node from being drained.
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",
                },
            },
            *(one for mounted in server.volumes for one in mounted.objects),
        ),
        deployment=_deployment(plan, pool, server, deadline_s=minutes * 60),
        service=_service(plan, server),
        start_minutes=minutes,
        update_minutes=minutes * rounds,
    )


def _awaited(plan: DeploymentPlan, of: JsonObject) -> JsonObject:
    """The object, not awaited if some replicas have no device: `up` would wait for those replicas
    until its timeout.
    """
    return of if plan.awaited else not_awaited(of)


def _deployment(
    plan: DeploymentPlan, pool: PoolPlan, server: Server, *, deadline_s: int
) -> JsonObject:
    asked = plan.workload
    return {
        **_awaited(plan, head(plan, "apps/v1", "Deployment")),
        "spec": {
            # Of a workload that is scaled only when it is made: then they are the autoscaler's.
            "replicas": plan.at_first,
            "selector": {"matchLabels": selector(plan)},
            # No extra pod: if all partitions are taken, it would never start.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": asked.max_unavailable},
            },
            "progressDeadlineSeconds": deadline_s,
            "template": {
                "metadata": {"labels": labels(plan)},
                "spec": _pod(plan, pool, server),
            },
        },
    }


def _pod(plan: DeploymentPlan, pool: PoolPlan, server: Server) -> JsonObject:
    asked, request = plan.workload, pod_request(pool, ())
    spec: JsonObject = {
        "serviceAccountName": plan.name,
        "automountServiceAccountToken": False,
        # Else a Service named vllm is a variable VLLM_PORT, which vLLM takes for its own.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": asked.grace_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": asked.run_as_user,
            "runAsGroup": asked.run_as_user,
            "fsGroup": asked.run_as_user,
            # A volume with hundreds of gigabytes is not gone through at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": request["nodeSelector"],
        "tolerations": request["tolerations"],
        "containers": [_container(plan, server)],
        "volumes": [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": asked.shared_memory}},
            {"name": "home", "emptyDir": {}},
            *(mounted.volume for mounted in server.volumes),
        ],
    }
    if asked.image_pull_secrets:
        named = dict.fromkeys(asked.image_pull_secrets)
        spec["imagePullSecrets"] = [{"name": name} for name in named]
    if request.get("hostIPC"):
        spec["hostIPC"] = True
    if plan.node_labels:
        terms = [
            {"key": key, "operator": "In", "values": [value]}
            for key, value in sorted(plan.node_labels.items())
        ]
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": terms}]
                }
            }
        }
    if spread := _spread(plan, pool):
        spec["topologySpreadConstraints"] = spread
    return spec


def _spread(plan: DeploymentPlan, pool: PoolPlan) -> list[JsonObject]:
    """Spreads replicas over nodes and zones if there are several. No pod waits for the spread."""
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
        case VllmWorkload() as asked:
            return vllm_server(plan, asked)
        case TritonWorkload() as asked:
            return triton_server(plan, asked)
        case ContainerWorkload() as asked:
            return container_server(plan, asked)


def _container(plan: DeploymentPlan, server: Server) -> JsonObject:
    asked = plan.workload
    container: JsonObject = {
        "name": asked.kind,
        "image": asked.image,
        "imagePullPolicy": "IfNotPresent",
        "env": _env(plan, server),
        "resources": _resources(plan, asked.requests, asked.limits),
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
    if server.ready is not None:
        tries = -(-asked.startup_minutes * 60 // _STARTUP_S)
        times = {"periodSeconds": _CHECK_S, "timeoutSeconds": 5, "failureThreshold": 3}
        # Nothing else is asked before it has succeeded, so nothing ends a server that loads.
        container["startupProbe"] = {
            **server.ready,
            "periodSeconds": _STARTUP_S,
            "timeoutSeconds": 5,
            "failureThreshold": tries,
        }
        container["readinessProbe"] = {**server.ready, **times}
        if server.alive is not None:
            container["livenessProbe"] = {**server.alive, **times}
    return container


def _env(plan: DeploymentPlan, server: Server) -> list[JsonObject]:
    asked = plan.workload
    # The user has no entry in the image's /etc/passwd, where programs look for name and home.
    plain = {"HOME": _HOME, "USER": "server", **server.env, **asked.env}
    return [
        *(
            {"name": name, "value": value}
            for name, value in plain.items()
            if name not in asked.secrets
        ),
        *(
            {"name": name, "valueFrom": {"secretKeyRef": {"name": of.name, "key": of.key}}}
            for name, of in sorted(asked.secrets.items())
        ),
    ]


def _resources(plan: DeploymentPlan, least: HostResources, most: HostResources) -> JsonObject:
    device = {plan.resource: str(plan.devices)}
    return {"requests": {**_host(least), **device}, "limits": {**_host(most), **device}}


def _host(asked: HostResources) -> JsonObject:
    written = {"cpu": asked.cpu, "memory": asked.memory}
    return {name: str(amount) for name, amount in written.items() if amount is not None}


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
    return [(one, workload_objects(one, pools[one.workload.pool])) for one in fleet.deployments]

"""Finds the addresses of a workload's servers.

The API server's proxy is not used: it would be measured instead of the servers, with a separate
connection for each concurrent request. There are three ways instead: a given address, the address
of the Service's load balancer, or the pods' addresses, if this machine is in a network that has
them.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from slicewright.infra.manifests import WORKLOAD_LABEL
from slicewright.infra.plan import DeploymentPlan
from slicewright.kubeapi import ApiError, Client
from slicewright.load.load import Target

_PORT: Final = 8000
"""The HTTP port of vLLM and Triton in the stack's Deployments."""


class BadUrl(Exception):
    """An unusable address. The message shows a correct one."""


class NoAddress(Exception):
    """There is no server to ask. The message gives the reason and the remedy."""


def given_targets(urls: list[str]) -> tuple[Target, ...]:
    """Raises BadUrl."""
    for url in urls:
        try:
            parts = urlsplit(url)
            wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        except ValueError:  # bad brackets or port
            raise _bad(url) from None
        if parts.username is not None or parts.password is not None:
            # The URL is not quoted, so that it cannot get into a log.
            raise BadUrl("--url contains a password, which every user of this machine can read")
        if wrong or parts.query or parts.fragment:
            raise _bad(url)
    return tuple(Target(name=url.rstrip("/"), url=url.rstrip("/")) for url in urls)


def _bad(url: str) -> BadUrl:
    address = "(not shown: it may have a password)" if "@" in url else url
    return BadUrl(f"--url {address}: write it like http://203.0.113.7:8000")


def service_targets(client: Client, workload: DeploymentPlan) -> tuple[Target, ...]:
    """The load balancer of the workload's Service. Raises NoAddress, ApiError, Unreachable."""
    namespace, name = workload.namespace, workload.name
    try:
        service = client.get(f"/api/v1/namespaces/{namespace}/services/{name}")
    except ApiError as e:
        if e.status == 404:
            raise NoAddress(
                f"the cluster has no Service {namespace}/{name}; has `pulumi up` finished?"
            ) from None
        raise
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    for ingress in balancer.get("ingress") or ():
        host = ingress.get("ip") or ingress.get("hostname")
        if host:
            host = f"[{host}]" if ":" in host else host
            return (Target(name=f"Service {namespace}/{name}", url=f"http://{host}:{_PORT}"),)
    kind = service["spec"].get("type", "ClusterIP")
    missing = (
        "has no address yet"
        if kind == "LoadBalancer"
        else "is reachable only from inside the cluster"
    )
    raise NoAddress(
        f"Service {namespace}/{name} of type {kind} {missing}. On a machine in the network of its "
        "pods, add --pods; in a pod of the cluster, "
        f"--url http://{name}.{namespace}.svc:{_PORT}; elsewhere `kubectl -n {namespace} "
        f"port-forward service/{name} {_PORT}` and --url http://localhost:{_PORT}, which reaches "
        "one replica"
    )


def pod_targets(client: Client, workload: DeploymentPlan) -> tuple[Target, ...]:
    """Each ready replica, with its node. Raises NoAddress, ApiError, Unreachable."""
    namespace, name = workload.namespace, workload.name
    pods = client.get(
        f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"{WORKLOAD_LABEL}={name}"
    )["items"]
    replicas = [_pod_target(pod, workload) for pod in pods if _ready(pod)]
    if not replicas:
        raise NoAddress(f"no replica of {namespace}/{name} is ready")
    return tuple(sorted(replicas, key=lambda target: target.name))


def _pod_target(pod: dict[str, Any], workload: DeploymentPlan) -> Target:
    address = pod["status"]["podIP"]
    host = f"[{address}]" if ":" in address else address
    return Target(
        name=pod["metadata"]["name"],
        url=f"http://{host}:{_PORT}",
        node=pod["spec"].get("nodeName"),
        partition=" or ".join(workload.profiles) or None,
    )


def _ready(pod: dict[str, Any]) -> bool:
    status = pod.get("status") or {}
    return (
        "deletionTimestamp" not in pod["metadata"]
        and bool(status.get("podIP"))
        and any(
            (condition["type"], condition["status"]) == ("Ready", "True")
            for condition in status.get("conditions") or ()
        )
    )

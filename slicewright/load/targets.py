"""Where a workload's servers are reached.

Not through the API server's proxy: it would be measured instead of them, with a connection of its
own for each request that is under way. So there are three ways: an address that is given, that of
the Service's load balancer, or the pods' own, where this machine is in a network that has them.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from infra.plan import DeploymentPlan
from kubeapi import ApiError, Client
from slicewright.load.asked import Target

_PORT: Final = 8000
"""Of HTTP, of vLLM and Triton as the stack makes them."""


class BadUrl(Exception):
    """An address that cannot be meant; the message says what would be right."""


class NoAddress(Exception):
    """Nothing to ask; the message says why, and what to do."""


def given(urls: list[str]) -> tuple[Target, ...]:
    """Raises BadUrl."""
    for url in urls:
        try:
            parts = urlsplit(url)
            wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        except ValueError:  # of brackets, or the port
            raise _bad(url) from None
        if parts.username is not None or parts.password is not None:
            # Not quoted: it would be in a log.
            raise BadUrl("--url has a password, which everybody on this machine can read")
        if wrong or parts.query or parts.fragment:
            raise _bad(url)
    return tuple(Target(name=url.rstrip("/"), url=url.rstrip("/")) for url in urls)


def _bad(url: str) -> BadUrl:
    shown = "(not shown: it may have a password)" if "@" in url else url
    return BadUrl(f"--url {shown}: write it like http://203.0.113.7:8000")


def of_service(client: Client, workload: DeploymentPlan) -> tuple[Target, ...]:
    """The load balancer of its Service. Raises NoAddress, ApiError, Unreachable."""
    namespace, name = workload.namespace, workload.name
    try:
        service = client.get(f"/api/v1/namespaces/{namespace}/services/{name}")
    except ApiError as e:
        if e.status == 404:
            raise NoAddress(
                f"the cluster has no Service {namespace}/{name}; is `pulumi up` done?"
            ) from None
        raise
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    for ingress in balancer.get("ingress") or ():
        host = ingress.get("ip") or ingress.get("hostname")
        if host:
            host = f"[{host}]" if ":" in host else host
            return (Target(name=f"Service {namespace}/{name}", url=f"http://{host}:{_PORT}"),)
    kind = service["spec"].get("type", "ClusterIP")
    missing = "has no address yet" if kind == "LoadBalancer" else "is reached from the cluster only"
    raise NoAddress(
        f"Service {namespace}/{name} of type {kind} {missing}. On a machine in the network of its "
        "pods, add --pods; in a pod of the cluster, "
        f"--url http://{name}.{namespace}.svc:{_PORT}; elsewhere `kubectl -n {namespace} "
        f"port-forward service/{name} {_PORT}` and --url http://localhost:{_PORT}, which reaches "
        "one replica"
    )


def of_pods(client: Client, workload: DeploymentPlan) -> tuple[Target, ...]:
    """Each ready replica. Raises NoAddress, ApiError, Unreachable."""
    namespace, name = workload.namespace, workload.name
    slices = client.get(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={name}",
    )["items"]
    found = sorted(
        (target for one in slices for target in _ready(one)), key=lambda target: target.name
    )
    if not found:
        raise NoAddress(f"no replica of {namespace}/{name} is ready")
    return tuple(found)


def _ready(of: dict[str, Any]) -> list[Target]:
    port = next((one["port"] for one in of.get("ports") or () if one.get("name") == "http"), None)
    found = []
    for endpoint in of.get("endpoints") or ():
        if port is None or not (endpoint.get("conditions") or {}).get("ready"):
            continue
        address = endpoint["addresses"][0]
        pod = (endpoint.get("targetRef") or {}).get("name", address)
        host = f"[{address}]" if ":" in address else address
        found.append(Target(name=pod, url=f"http://{host}:{port}"))
    return found

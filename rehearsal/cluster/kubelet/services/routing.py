"""Where connections to a Service go. Pure functions.

From Services and pods, not from EndpointSlices: the API server takes no loopback addresses there,
and those are what pods of a rehearsal have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slicewright.kubeapi import JsonObject

Backend = tuple[str, int]
"""Address and port of a pod."""


def is_routed(service: JsonObject) -> bool:
    """Whether kube-proxy would route it: it selects pods and has an address."""
    spec = service.get("spec") or {}
    kind = spec.get("type", "ClusterIP")
    return bool(
        spec.get("selector")
        and kind in ("ClusterIP", "NodePort", "LoadBalancer")
        and spec.get("clusterIP") != "None"
        and "deletionTimestamp" not in service["metadata"]
    )


def tcp_ports(service: JsonObject) -> tuple[int, ...]:
    return tuple(p["port"] for p in _ports(service) if p.get("protocol", "TCP") == "TCP")


def backends(service: JsonObject, port: int, pods: Iterable[JsonObject]) -> tuple[Backend, ...]:
    """The ready pods that a port of the Service leads to, in order of their names."""
    (asked,) = (p for p in _ports(service) if p["port"] == port)
    target = asked.get("targetPort", port)
    found = [
        (pod["metadata"]["name"], pod["status"]["podIP"], number)
        for pod in pods
        if _is_selected(service, pod) and _is_ready(pod)
        for number in _numbers(pod, target)
    ]
    return tuple((address, number) for _, address, number in sorted(found))


def _ports(service: JsonObject) -> list[JsonObject]:
    ports: list[JsonObject] = service["spec"].get("ports") or []
    return ports


def _is_selected(service: JsonObject, pod: JsonObject) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return bool(
        service["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and service["spec"]["selector"].items() <= labels.items()
    )


def _is_ready(pod: JsonObject) -> bool:
    status = pod.get("status") or {}
    return (
        "deletionTimestamp" not in pod["metadata"]
        and bool(status.get("podIP"))
        and any(
            c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()
        )
    )


def _numbers(pod: JsonObject, target: int | str) -> Iterator[int]:
    """The number of a port that may be named; none where the pod has no such name."""
    if isinstance(target, int):
        yield target
        return
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == target:
                yield port["containerPort"]
                return

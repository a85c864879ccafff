"""Asks a cluster who hands out, partitions or labels GPUs. It only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from slicewright.apis.device_plugins import image_name
from slicewright.doctor.checks.gpu_owners import (
    DRA_DRIVER,
    ENGINE_ANNOTATIONS,
    DaemonSet,
    DeviceOwners,
    GpuOperator,
    OwnerAnswers,
)
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable, list_all
from slicewright.kubeapi.kubeconfig import BadKubeconfig, context_of
from slicewright.live.access import Access, NoCluster, error_message

_OPERATOR_IMAGE: Final = "gpu-operator"
_POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
_GPU_CLUSTERS: Final = "/apis/nvidia.com/v1alpha1/gpuclusters"
_DRA: Final = "/apis/resource.k8s.io"
_T = TypeVar("_T")


def gpu_operators(client: Client) -> tuple[GpuOperator, ...]:
    """Returns no operators if the API server does not know their kind: none was ever installed."""
    return tuple(
        GpuOperator(
            name=raw["metadata"]["name"],
            release_namespace=(raw["metadata"].get("annotations") or {}).get(
                "meta.helm.sh/release-namespace"
            ),
        )
        for raw in _objects(client, _POLICIES)
    )


def device_owners(client: Client) -> DeviceOwners:
    return DeviceOwners(
        gpu_clusters=_names(_objects(client, _GPU_CLUSTERS)),
        operator_namespaces=tuple(
            sorted(
                raw["metadata"]["namespace"]
                for raw in _objects(client, "/apis/apps/v1/deployments")
                if any(image_name(c["image"]) == _OPERATOR_IMAGE for c in _containers(raw))
            )
        ),
        device_classes=_names(raw for raw in _dra(client, "deviceclasses") if _selects_gpus(raw)),
        slice_nodes=tuple(
            sorted(
                {
                    str(raw["spec"].get("nodeName") or "all nodes")
                    for raw in _dra(client, "resourceslices")
                    if raw["spec"].get("driver") == DRA_DRIVER
                }
            )
        ),
        annotated_nodes=_annotated(client),
    )


def daemonsets(client: Client) -> tuple[DaemonSet, ...]:
    return tuple(_daemonset(raw) for raw in list_all(client, "/apis/apps/v1/daemonsets").items)


def _daemonset(raw: JsonObject) -> DaemonSet:
    metadata, pod = raw["metadata"], raw["spec"]["template"]["spec"]
    owners = metadata.get("ownerReferences") or ()
    volumes = pod.get("volumes") or ()
    return DaemonSet(
        namespace=metadata["namespace"],
        name=metadata["name"],
        images=tuple(c["image"] for c in pod["containers"]),
        pods=int((raw.get("status") or {}).get("desiredNumberScheduled") or 0),
        of_operator=any(owner.get("kind") == "ClusterPolicy" for owner in owners),
        host_paths=tuple(v["hostPath"]["path"] for v in volumes if v.get("hostPath")),
        words=tuple(_words(raw)),
        node_selector=dict(pod.get("nodeSelector") or {}),
        required_affinity=tuple(_affinity_terms(pod)),
        runtime_class=pod.get("runtimeClassName") or "",
        tolerations=tuple(pod.get("tolerations") or ()),
    )


def _affinity_terms(pod: JsonObject) -> Iterator[tuple[JsonObject, ...]]:
    """Yields the expressions on labels. A term that only names nodes may match any of them."""
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        yield tuple(term.get("matchExpressions") or ())


def _words(raw: JsonObject) -> Iterator[str]:
    for container in _containers(raw):
        yield from (str(word) for word in container.get("command") or ())
        yield from (str(word) for word in container.get("args") or ())
        for variable in container.get("env") or ():
            yield f"{variable['name']}={variable.get('value') or ''}"


def _containers(raw: JsonObject) -> tuple[JsonObject, ...]:
    pod = raw["spec"]["template"]["spec"]
    return (*(pod.get("initContainers") or ()), *pod["containers"])


def _selects_gpus(device_class: JsonObject) -> bool:
    """True by its name, or by an expression that compares the driver's name."""
    if device_class["metadata"]["name"] in (DRA_DRIVER, "mig.nvidia.com"):
        return True
    selectors = device_class["spec"].get("selectors") or ()
    return any(
        f'"{DRA_DRIVER}"' in str((selector.get("cel") or {}).get("expression")).replace("'", '"')
        for selector in selectors
    )


def _annotated(client: Client) -> dict[str, tuple[str, ...]]:
    nodes = list_all(client, "/api/v1/nodes").items
    registered = {
        annotation: tuple(
            node["metadata"]["name"]
            for node in nodes
            if annotation in (node["metadata"].get("annotations") or {})
        )
        for annotation in ENGINE_ANNOTATIONS
    }
    return {annotation: names for annotation, names in registered.items() if names}


def _dra(client: Client, kind: str) -> tuple[Any, ...]:
    """The objects in the version that the API server has: GA is 1.34."""
    for version in ("v1", "v1beta2", "v1beta1"):
        if objects := _objects(client, f"{_DRA}/{version}/{kind}"):
            return objects
    return ()


def _objects(client: Client, path: str) -> tuple[Any, ...]:
    """The objects of a kind. None of them if the API server does not know the kind."""
    try:
        return tuple(list_all(client, path).items)
    except ApiError as e:
        if e.status != 404:
            raise
        return ()


def _names(objects: Any) -> tuple[str, ...]:
    return tuple(sorted(raw["metadata"]["name"] for raw in objects))


def ask_inside(kubeconfig: JsonObject) -> OwnerAnswers:
    """Asks an existing cluster of a cloud, with the credentials that `pulumi up` would use."""
    try:
        connected = Access(context_of(kubeconfig, Path("/"), context=None))
        client = connected.client()
    except (NoCluster, BadKubeconfig) as e:
        unknown = NotAnswered(why=str(e))
        return OwnerAnswers(policies=unknown, owners=unknown, daemonsets=unknown)
    return OwnerAnswers(
        policies=answered(gpu_operators, client, connected),
        owners=answered(device_owners, client, connected),
        daemonsets=answered(daemonsets, client, connected),
    )


def answered(question: Callable[[Client], _T], client: Client, connected: Access) -> Answer[_T]:
    try:
        return question(client)
    except (ApiError, Unreachable) as e:
        remedy = "run the command as an administrator of the cluster"
        denied = isinstance(e, ApiError) and e.status == 403
        return NotAnswered(why=error_message(e, connected), remedy=remedy if denied else "")

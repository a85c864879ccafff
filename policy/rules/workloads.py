"""Rules about workloads in the cluster: images, privileges, rights, disruption, spot capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from policy.rules import pools
from policy.rules.declared import UNKNOWN, Resource, at, items, texts, whole
from policy.rules.rule import ResourceRule, Setting, Settings, StackRule, names
from slicewright.apis.names import POOL_LABEL

_REPLICATED = ("Deployment", "StatefulSet")
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    **dict.fromkeys((*_REPLICATED, "DaemonSet", "Job"), ("spec", "template", "spec")),
    "ReplicaSet": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
_LISTS = ("initContainers", "containers", "ephemeralContainers")
# Google preloads both on each node, and its installer never pulls them: they have no digest.
# Source: GoogleCloudPlatform/container-engine-accelerators, nvidia-driver-installer.
_ON_NODES = ("cos-nvidia-installer:fixed", "gke-nvidia-installer:fixed")


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A Kubernetes object with pods."""

    kind: str
    namespace: str | None
    """None: not known yet."""
    path: str | None
    """NAMESPACE/NAME. None: not known yet."""
    urn: str
    pod: Mapping[str, Any]
    """The pod's spec."""
    labels: Any
    """Labels of its pods. All labels, or some values, may be UNKNOWN."""
    replicas: int | None
    """None: not known yet."""

    @property
    def containers(self) -> Iterator[Any]:
        for key in _LISTS:
            yield from items(at(self.pod, key))

    @property
    def uses_gpus(self) -> bool:
        return any(
            key.startswith(("nvidia.com/", "volcano.sh/vgpu-")) and value != "0"
            for container in self.containers
            for key, value in _resource_amounts(container).items()
        )

    @property
    def pool(self) -> str | None:
        """The pool that its pods select by label."""
        selected = at(self.pod, "nodeSelector", POOL_LABEL)
        return selected if isinstance(selected, str) else None


def read(resource: Resource) -> Workload | None:
    """The workload that a resource declares, None without pods or before they are known."""
    group, _, kind = resource.type.rpartition(":")
    path = _TEMPLATES.get(kind)
    if path is None or not group.startswith("kubernetes:"):
        return None
    pod = at(resource.props, *path)
    if not isinstance(pod, Mapping):
        return None
    metadata = at(resource.props, *path[:-1], "metadata")
    replicas = at(resource.props, "spec", "replicas")
    name, namespace = at(resource.props, "metadata", "name"), _namespace(resource)
    return Workload(
        kind=kind,
        namespace=namespace,
        path=None
        if namespace is None or name is UNKNOWN
        else f"{namespace}/{name or resource.name}",
        urn=resource.urn,
        pod=pod,
        labels=at(metadata, "labels"),
        replicas=1 if replicas is None else whole(replicas),
    )


def _images(resource: Resource, settings: Settings) -> Iterator[str]:
    workload = read(resource)
    for image in _images_of(workload):
        if "@sha256:" not in image and not _matches(image, settings["exempt"]):
            yield (
                f"{image} names no digest: another pod may get another image under the same tag; "
                "write NAME@sha256:..."
            )


def _registries(resource: Resource, settings: Settings) -> Iterator[str]:
    for image in _images_of(read(resource)):
        if not _matches(image, settings["allowed"]):
            allowed = ", ".join(settings["allowed"]) or "none"
            yield f"{image} is not from an allowed registry: {allowed}"


def _images_of(workload: Workload | None) -> list[str]:
    images = [at(container, "image") for container in workload.containers] if workload else []
    return sorted({image for image in images if isinstance(image, str)})


def _privilege(resource: Resource, settings: Settings) -> Iterator[str]:
    workload = read(resource)
    if workload is None or workload.path is None or _matches(workload.path, settings["exempt"]):
        return
    shared = [key for key in ("hostNetwork", "hostPID", "hostIPC") if at(workload.pod, key) is True]
    privileged = [
        str(at(container, "name"))
        for container in workload.containers
        if at(container, "securityContext", "privileged") is True
    ]
    where = f"{workload.kind} {workload.path}"
    if shared:
        yield f"{where} shares with its node: {', '.join(shared)}"
    if privileged:
        yield f"{where} has privileged containers: {', '.join(privileged)}"


def _rights(resource: Resource, settings: Settings) -> Iterator[str]:
    kind = resource.type.rpartition(":")[2]
    if not resource.type.startswith("kubernetes:rbac.authorization.k8s.io/"):
        return
    if kind in ("Role", "ClusterRole"):
        for rule in items(at(resource.props, "rules")):
            wild = [
                key for key in ("apiGroups", "resources", "verbs") if "*" in [*items(at(rule, key))]
            ]
            if wild:
                yield f"{kind} {resource.name!r} uses wildcards for: {', '.join(wild)}"
    if kind.endswith("RoleBinding") and at(resource.props, "roleRef", "name") == "cluster-admin":
        yield f"{kind} {resource.name!r} grants all rights (cluster-admin)"


def _disruption(resources: Sequence[Resource], settings: Settings) -> Iterator[tuple[str, str]]:
    budgets = [
        (_namespace(resource), at(resource.props, "spec", "selector"))
        for resource in resources
        if resource.type.startswith("kubernetes:policy/")
        and resource.type.endswith(":PodDisruptionBudget")
    ]
    for workload in filter(None, map(read, resources)):
        served = (
            workload.kind in _REPLICATED and workload.uses_gpus and (workload.replicas or 0) > 1
        )
        if served and not any(
            None in (namespace, workload.namespace)
            or (namespace == workload.namespace and _selects(selector, workload.labels))
            for namespace, selector in budgets
        ):
            yield (
                workload.urn,
                f"{workload.kind} {workload.path or workload.urn} has {workload.replicas} "
                "replicas on GPUs and no PodDisruptionBudget: a rollout or an upgrade of nodes "
                "may stop all of them at once",
            )


def _spot_workloads(resources: Sequence[Resource], settings: Settings) -> Iterator[tuple[str, str]]:
    spot = {pool.name for pool in map(pools.read, resources) if pool is not None and pool.spot}
    for workload in filter(None, map(read, resources)):
        if workload.kind not in _REPLICATED or workload.pool not in spot:
            continue
        listed = workload.path is not None and _matches(workload.path, settings["may_not_be_lost"])
        single = settings["single_replicas"] and workload.replicas == 1
        if listed or single:
            why = "is listed in may_not_be_lost" if listed else "has one replica"
            yield (
                workload.urn,
                f"{workload.kind} {workload.path or workload.urn} {why}, and pool "
                f"{workload.pool!r} uses spot capacity, which the cloud may reclaim at any time",
            )


def _selects(selector: Any, labels: Any) -> bool:
    """Whether Kubernetes matches the pods. Unknown values count as a match: `up` checks them."""
    if selector is None:
        return False
    if labels is UNKNOWN:
        return True
    match_labels = texts(at(selector, "matchLabels"))
    if any(at(labels, key) not in (value, UNKNOWN) for key, value in match_labels.items()):
        return False
    return all(_meets(expression, labels) for expression in items(at(selector, "matchExpressions")))


def _meets(expression: Any, labels: Any) -> bool:
    """Whether labels match an expression. Unknown operators and values count as a match."""
    key, values = at(expression, "key"), at(expression, "values")
    actual = at(labels, key) if isinstance(key, str) else UNKNOWN
    if actual is UNKNOWN or values is UNKNOWN or UNKNOWN in (values or ()):
        return True
    match at(expression, "operator"):
        case "In":
            return actual in (values or ())
        case "NotIn":
            return actual not in (values or ())
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
        case _:
            return True


def _resource_amounts(container: Any) -> Mapping[str, str]:
    resources = at(container, "resources")
    parts = [at(resources, part) for part in ("limits", "requests")]
    return {
        str(key): str(value)
        for part in parts
        if isinstance(part, Mapping)
        for key, value in part.items()
    }


def _namespace(resource: Resource) -> str | None:
    namespace = at(resource.props, "metadata", "namespace")
    return None if namespace is UNKNOWN else str(namespace or "default")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


RULES = (
    ResourceRule(
        name="image-digest",
        description="Pods run images that cannot change.",
        level="mandatory",
        settings=(names("exempt", "images that need no digest", _ON_NODES),),
        check=_images,
    ),
    ResourceRule(
        name="image-registry",
        description="Pods run only images from allowed registries.",
        level="mandatory",
        settings=(names("allowed", "patterns of whole image names, such as nvcr.io/*", ("*",)),),
        check=_registries,
    ),
    ResourceRule(
        name="pod-privilege",
        description="Pods have no more power over their node than they need.",
        level="mandatory",
        settings=(
            names(
                "exempt",
                "NAMESPACE/NAME of workloads that need it",
                # GKE gives device nodes only to privileged pods, unless they request a GPU, and
                # Google's driver installer loads kernel modules.
                ("slicewright-system/node-agent-*", "*/nvidia-driver-installer*"),
            ),
        ),
        check=_privilege,
    ),
    ResourceRule(
        name="rbac-wildcard",
        description="Roles grant rights without wildcards.",
        level="mandatory",
        check=_rights,
    ),
    StackRule(
        name="disruption-budget",
        description="Replicated workloads on GPUs have a PodDisruptionBudget.",
        level="mandatory",
        check=_disruption,
    ),
    StackRule(
        name="spot-workloads",
        description="Workloads that must not be lost do not run on spot capacity.",
        level="mandatory",
        settings=(
            names("may_not_be_lost", "NAMESPACE/NAME patterns of workloads"),
            Setting(
                name="single_replicas",
                schema={
                    "type": "boolean",
                    "description": "whether workloads with one replica count",
                },
                default=True,
            ),
        ),
        check=_spot_workloads,
    ),
)

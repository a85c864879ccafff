"""Rules about the power of pods over their node, and over all nodes by the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from policy.rules import karpenter, workloads
from policy.rules.resources import UNKNOWN, Resource, items, property_at, whole
from policy.rules.rule import ResourceRule, Settings, names

_AGENTS: Final = "slicewright-system/node-agent-*"
_INSTALLER: Final = "*/nvidia-driver-installer*"
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_HOPS: Final = "httpPutResponseHopLimit"


def _host_paths(resource: Resource, settings: Settings) -> Iterator[str]:
    workload = workloads.read(resource)
    if workload is None or _is_exempt(workload, settings):
        return
    paths = [
        property_at(volume, "hostPath", "path")
        for volume in items(property_at(workload.pod, "volumes"))
    ]
    mounted = sorted(path for path in paths if isinstance(path, str))
    if mounted:
        yield (
            f"{workload.kind} {workload.path} mounts files of its node: {', '.join(mounted)}; use "
            "a separate volume, or add it to exempt"
        )


def _capabilities(resource: Resource, settings: Settings) -> Iterator[str]:
    workload = workloads.read(resource)
    if workload is None or _is_exempt(workload, settings):
        return
    offenders = [
        str(property_at(container, "name"))
        for container in workload.containers
        if not _drops_all(property_at(container, "securityContext", "capabilities"))
    ]
    if offenders:
        yield (
            f"{workload.kind} {workload.path} has containers that keep or add kernel "
            f"capabilities: {', '.join(offenders)}; set securityContext.capabilities.drop to [ALL]"
        )


def _drops_all(capabilities: Any) -> bool:
    """Whether all capabilities are dropped. Unknown values count as dropped: `up` checks them."""
    dropped, added = property_at(capabilities, "drop"), property_at(capabilities, "add")
    if UNKNOWN in (capabilities, dropped, added):
        return True
    stated = dropped or ()
    return ("ALL" in stated or UNKNOWN in stated) and not [*items(added)]


def _nodes(resource: Resource, settings: Settings) -> Iterator[str]:
    kind = resource.type.rpartition(":")[2]
    name = property_at(resource.props, "metadata", "name") or resource.name
    if resource.type != f"kubernetes:rbac.authorization.k8s.io/v1:{kind}" or kind != "ClusterRole":
        return
    if name is UNKNOWN or any(fnmatchcase(str(name), pattern) for pattern in settings["exempt"]):
        return
    for rule in items(property_at(resource.props, "rules")):
        touched = {"nodes", "nodes/status"} & {*_texts(property_at(rule, "resources"))}
        verbs = sorted(_WRITES & {*_texts(property_at(rule, "verbs"))})
        if touched and verbs and "" in _texts(property_at(rule, "apiGroups")):
            yield (
                f"ClusterRole {name!r} may {', '.join(verbs)} {', '.join(sorted(touched))}: it "
                "can decide where pods run; give it read rights only, or add it to exempt"
            )


def _hops(resource: Resource, settings: Settings) -> Iterator[str]:
    match resource.type:
        case "aws:ec2/launchTemplate:LaunchTemplate":
            hops = property_at(resource.props, "metadataOptions", _HOPS)
            source = "launch template"
        case karpenter.NODE_CLASS:
            hops = property_at(resource.props, "spec", "metadataOptions", _HOPS)
            source = "EC2NodeClass"
        case _:
            return
    if (whole(hops) or 1) > 1:
        yield (
            f"tokens of the metadata service travel {whole(hops)} hops on instances of {source} "
            f"{resource.name!r}, so that pods can take their node's credentials; set "
            f"metadataOptions.{_HOPS} to 1"
        )


def _is_exempt(workload: workloads.Workload, settings: Settings) -> bool:
    path = workload.path
    return path is None or any(fnmatchcase(path, pattern) for pattern in settings["exempt"])


def _texts(value: Any) -> list[str]:
    return [text for text in items(value) if isinstance(text, str)]


RULES = (
    ResourceRule(
        name="pod-host-path",
        description="Pods mount no files of their node.",
        level="mandatory",
        settings=(
            names("exempt", "NAMESPACE/NAME of workloads that need it", (_AGENTS, _INSTALLER)),
        ),
        check=_host_paths,
    ),
    ResourceRule(
        name="pod-capabilities",
        description="Containers drop all kernel capabilities.",
        level="advisory",
        settings=(
            names("exempt", "NAMESPACE/NAME of workloads that need it", (_AGENTS, _INSTALLER)),
        ),
        check=_capabilities,
    ),
    ResourceRule(
        name="rbac-nodes",
        description="Only exempt roles may change nodes.",
        level="mandatory",
        settings=(
            names(
                "exempt",
                "names of ClusterRoles that may change nodes",
                # The controller adds and removes the startup taint, and changes layouts by a label.
                ("slicewright-fleet-controller*",),
            ),
        ),
        check=_nodes,
    ),
    ResourceRule(
        name="template-hop-limit",
        description="Pods cannot get the credentials of their EC2 node.",
        level="mandatory",
        check=_hops,
    ),
)

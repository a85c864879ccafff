"""Rules about what pods can do to their node, and to all nodes by Kubernetes' API."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from policy.rules import karpenter, workloads
from policy.rules.declared import UNKNOWN, Resource, at, items, whole
from policy.rules.rule import ResourceRule, Settings, names

_AGENTS: Final = "slicewright-system/node-agent-*"
_INSTALLER: Final = "*/nvidia-driver-installer*"
_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_HOPS: Final = "httpPutResponseHopLimit"


def _host_paths(resource: Resource, settings: Settings) -> Iterator[str]:
    workload = workloads.read(resource)
    if workload is None or _is_exempt(workload, settings):
        return
    paths = [at(one, "hostPath", "path") for one in items(at(workload.pod, "volumes"))]
    found = sorted(path for path in paths if isinstance(path, str))
    if found:
        yield (
            f"{workload.kind} {workload.path} mounts files of its node: {', '.join(found)}; use a "
            "volume of its own, or add it to exempt"
        )


def _capabilities(resource: Resource, settings: Settings) -> Iterator[str]:
    workload = workloads.read(resource)
    if workload is None or _is_exempt(workload, settings):
        return
    kept = [
        str(at(one, "name"))
        for one in workload.containers
        if not _drops_all(at(one, "securityContext", "capabilities"))
    ]
    if kept:
        yield (
            f"{workload.kind} {workload.path} has containers that keep or add capabilities of the "
            f"kernel: {', '.join(kept)}; set securityContext.capabilities.drop to [ALL]"
        )


def _drops_all(capabilities: Any) -> bool:
    """What is not known yet may: `up` sees it."""
    dropped, added = at(capabilities, "drop"), at(capabilities, "add")
    if UNKNOWN in (capabilities, dropped, added):
        return True
    stated = dropped or ()
    return ("ALL" in stated or UNKNOWN in stated) and not [*items(added)]


def _nodes(resource: Resource, settings: Settings) -> Iterator[str]:
    kind = resource.type.rpartition(":")[2]
    name = at(resource.props, "metadata", "name") or resource.name
    if resource.type != f"kubernetes:rbac.authorization.k8s.io/v1:{kind}" or kind != "ClusterRole":
        return
    if name is UNKNOWN or any(fnmatchcase(str(name), one) for one in settings["exempt"]):
        return
    for rule in items(at(resource.props, "rules")):
        touched = {"nodes", "nodes/status"} & {*_texts(at(rule, "resources"))}
        verbs = sorted(_WRITES & {*_texts(at(rule, "verbs"))})
        if touched and verbs and "" in _texts(at(rule, "apiGroups")):
            yield (
                f"ClusterRole {name!r} may {', '.join(verbs)} {', '.join(sorted(touched))}: it "
                "decides which pods go where; give it read rights, or add it to exempt"
            )


def _hops(resource: Resource, settings: Settings) -> Iterator[str]:
    match resource.type:
        case "aws:ec2/launchTemplate:LaunchTemplate":
            hops = at(resource.props, "metadataOptions", _HOPS)
            what = "launch template"
        case karpenter.NODE_CLASS:
            hops = at(resource.props, "spec", "metadataOptions", _HOPS)
            what = "EC2NodeClass"
        case _:
            return
    if (whole(hops) or 1) > 1:
        yield (
            f"tokens of the metadata service travel {whole(hops)} hops on instances of {what} "
            f"{resource.name!r}, so that pods can take their node's credentials; set "
            f"metadataOptions.{_HOPS} to 1"
        )


def _is_exempt(workload: workloads.Workload, settings: Settings) -> bool:
    path = workload.path
    return path is None or any(fnmatchcase(path, one) for one in settings["exempt"])


def _texts(value: Any) -> list[str]:
    return [one for one in items(value) if isinstance(one, str)]


RULES = (
    ResourceRule(
        name="pod-host-path",
        description="Pods mount no files of their node.",
        level="mandatory",
        settings=(names("exempt", "NAMESPACE/NAME of those that need it", (_AGENTS, _INSTALLER)),),
        check=_host_paths,
    ),
    ResourceRule(
        name="pod-capabilities",
        description="Containers drop all capabilities of the kernel.",
        level="advisory",
        settings=(names("exempt", "NAMESPACE/NAME of those that need it", (_AGENTS, _INSTALLER)),),
        check=_capabilities,
    ),
    ResourceRule(
        name="rbac-nodes",
        description="Few may change nodes.",
        level="mandatory",
        settings=(
            names(
                "exempt",
                "names of ClusterRoles that may",
                # It sets and lifts the startup taint, and changes layouts by a label.
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

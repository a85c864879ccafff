"""Karpenter's NodePools as pools of nodes, and rules about their EC2NodeClasses.

Sources: kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go; aws/karpenter-provider-aws,
pkg/apis/v1/ec2nodeclass.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policy.rules.labels import keys_with_value
from policy.rules.resources import UNKNOWN, Resource, items, property_at, texts, whole
from policy.rules.rule import ResourceRule, Settings
from slicewright.apis.names import POOL_LABEL

NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
_TYPE = "node.kubernetes.io/instance-type"
_CAPACITY = "karpenter.sh/capacity-type"
_GPU_KEYS = "karpenter.k8s.aws/instance-gpu-"
_GPU = "nvidia.com/gpu"


def machine_types(pool: Resource) -> tuple[str, ...]:
    """The known machine types, empty if it names none."""
    return tuple(
        value
        for requirement in _requirements(pool)
        if property_at(requirement, "key") == _TYPE and property_at(requirement, "operator") == "In"
        for value in items(property_at(requirement, "values"))
        if isinstance(value, str)
    )


def takes_any_machine(pool: Resource) -> bool:
    """Whether it is for GPUs and leaves the machine types to Karpenter."""
    if not _is_known(pool) or any(
        property_at(requirement, "key") == _TYPE for requirement in _requirements(pool)
    ):
        return False
    by_gpu = any(
        str(property_at(requirement, "key")).startswith(_GPU_KEYS)
        and property_at(requirement, "operator") != "DoesNotExist"
        for requirement in _requirements(pool)
    )
    return by_gpu or POOL_LABEL in labels(pool)


def takes_spot(pool: Resource) -> bool:
    """Whether Karpenter uses spot capacity, which it prefers if no requirement excludes it. Source:
    aws/karpenter-provider-aws, pkg/providers/instance/instance.go, getCapacityType.
    """
    if not _is_known(pool):
        return False
    return all(
        _admits(requirement, "spot")
        for requirement in _requirements(pool)
        if property_at(requirement, "key") == _CAPACITY
    )


def states_capacity(pool: Resource) -> bool:
    """Whether a requirement names the type of capacity, or might: not all may be known yet."""
    return not _is_known(pool) or any(
        property_at(requirement, "key") == _CAPACITY for requirement in _requirements(pool)
    )


def most_nodes(pool: Resource, *, gpus: int | None) -> int | None:
    """The node limit, None if there is none or it is unknown. gpus: minimum per node, if known."""
    limits = property_at(pool.props, "spec", "limits")
    nodes, devices = property_at(limits, "nodes"), property_at(limits, _GPU)
    if UNKNOWN in (nodes, devices) or (devices is not None and gpus is None):
        return None
    of_gpus = None if devices is None or gpus is None else (whole(devices) or 0) // gpus
    return min((n for n in (whole(nodes), of_gpus) if n is not None), default=None)


def is_unlimited(pool: Resource) -> bool:
    """Whether neither nodes nor GPUs are limited. CPU and memory limits do not count."""
    limits = property_at(pool.props, "spec", "limits")
    return not any(
        property_at(limits, key) is UNKNOWN or property_at(limits, key) for key in ("nodes", _GPU)
    )


def labels(pool: Resource) -> Mapping[str, str]:
    """The labels of its nodes."""
    return texts(property_at(pool.props, "spec", "template", "metadata", "labels"))


def taints(pool: Resource) -> list[Any] | Any:
    """All initial taints of its nodes, UNKNOWN if a part is unknown."""
    of_nodes = property_at(pool.props, "spec", "template", "spec")
    parts = [property_at(of_nodes, "taints"), property_at(of_nodes, "startupTaints")]
    if UNKNOWN in parts:
        return UNKNOWN
    return [taint for part in parts for taint in part or ()]


def tags(node_class: Resource) -> frozenset[str] | None:
    """Keys of the instances' tags with a value. None: not known yet."""
    return keys_with_value(property_at(node_class.props, "spec", "tags"))


def _requirements(pool: Resource) -> Iterator[Any]:
    return items(property_at(pool.props, "spec", "template", "spec", "requirements"))


def _is_known(pool: Resource) -> bool:
    stated = property_at(pool.props, "spec", "template", "spec", "requirements")
    if stated is UNKNOWN:
        return False
    return not any(
        requirement is UNKNOWN
        or UNKNOWN
        in (
            property_at(requirement, "key"),
            property_at(requirement, "operator"),
            property_at(requirement, "values"),
        )
        or any(value is UNKNOWN for value in property_at(requirement, "values") or ())
        for requirement in stated or ()
    )


def _admits(requirement: Any, value: str) -> bool:
    stated = list(items(property_at(requirement, "values")))
    match property_at(requirement, "operator"):
        case "In":
            return value in stated
        case "NotIn":
            return value not in stated
        case operator:
            return bool(operator == "Exists")


def _image(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type != NODE_CLASS:
        return
    name = property_at(resource.props, "metadata", "name")
    for term in items(property_at(resource.props, "spec", "amiSelectorTerms")):
        alias, identity = property_at(term, "alias"), property_at(term, "id")
        if identity is not None or alias is UNKNOWN or UNKNOWN in dict(term).values():
            continue
        if isinstance(alias, str) and not alias.endswith("@latest"):
            continue
        yield (
            f"EC2NodeClass {name!r} selects its machine image by {_format_term(term)}: Karpenter "
            "replaces the nodes whenever a new image is published; name a release, such as "
            "alias: al2023@v20260714, or an id"
        )


def _format_term(term: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value!r}" for key, value in sorted(term.items()))


RULES = (
    ResourceRule(
        name="karpenter-image-pinned",
        description="Karpenter's nodes have a pinned machine image.",
        level="mandatory",
        check=_image,
    ),
)

"""Tags of a stack's resources in AWS. Every service must accept them, and slicewright's own tags
are reserved.

`infra/components` decides which resources get them, and adds further tags.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule

MOST_TAGS: Final = 50
_AT: Final = ("cluster", "tags")
_SLICEWRIGHT_TAGS: Final = 3
"""Tags that slicewright adds to a subnet, which gets most of them: Name, the role for load
balancers, and the stack's.
"""
_LIMITS: Final = "AWS docs, tag naming limits"
_IAM: Final = "IAM user guide, rules for tagging in IAM and AWS STS"
_SIGNS: Final = "_.:/=+-@"
_RESERVED: Final[Mapping[str, str]] = {
    "slicewright.io/": "reserved: slicewright finds a stack's resources by it",
    "kubernetes.io/": "reserved: Kubernetes' controllers and `slicewright destroy` find a "
    "cluster's resources by it",
    "k8s.io/": "reserved: cluster-autoscaler reads a node group's resources from it",
    "karpenter.sh/": "reserved: Karpenter finds its resources by it",
    "karpenter.k8s.aws/": "reserved: Karpenter finds its resources by it",
    "eks:": "reserved: EKS sets such tags itself",
}
"""Beginning of a key -> why it is not the file's to set."""


@rule("eks-tags")
def tags_of(cluster: stack_file.EksCluster) -> Checked[Mapping[str, str]]:
    """`cluster.tags`, in the order of their keys."""
    tags = cluster.tags
    if len(tags) > MOST_TAGS - _SLICEWRIGHT_TAGS:
        yield refuse(
            _AT,
            f"{len(tags)} tags are too many: AWS allows {MOST_TAGS} on a resource, and slicewright "
            f"has up to {_SLICEWRIGHT_TAGS} of its own",
            f"write {MOST_TAGS - _SLICEWRIGHT_TAGS} or less",
            _LIMITS,
        )
    by_folded_key: dict[str, str] = {}
    for key, value in tags.items():
        path = (*_AT, key)
        if (why := _why_reserved(key)) is not None:
            yield refuse(path, why, "leave it out, or choose another key", in_key=True)
        if (other := by_folded_key.setdefault(key.casefold(), key)) != key:
            yield refuse(
                path,
                f"differs from {other} in upper and lower case only, which IAM takes for the same "
                "key, and roles have these tags too",
                "leave one of them out",
                _IAM,
                in_key=True,
            )
        for text, in_key in ((key, True), (value, False)):
            if signs := _refused_by_iam(text):
                yield refuse(
                    path,
                    f"has {signs}, and IAM takes letters, digits, spaces and {' '.join(_SIGNS)} "
                    "only: roles have these tags too",
                    "write it without",
                    _IAM,
                    in_key=in_key,
                )
    return dict(sorted(tags.items()))


@rule("eks-instance-tags")
def instance_tags_of(cluster: stack_file.EksCluster) -> Checked[Mapping[str, str]]:
    """`cluster.instance_tags`."""
    path = ("cluster", "instance_tags")
    for key in cluster.instance_tags:
        if (why := _why_reserved(key)) is not None:
            yield refuse((*path, key), why, "leave it out, or choose another key", in_key=True)
    return cluster.instance_tags


@rule("eks-tag-count")
def check_group(
    path: stack_file.Path,
    *,
    of_pool: Mapping[str, str],
    of_cluster: Mapping[str, str],
    of_autoscaler: Mapping[str, str],
) -> Checked[None]:
    """Refuses too many tags on a node group, which has all three kinds. path: of the pool."""
    tags = {**of_cluster, **of_pool, **of_autoscaler}
    if len(tags) > MOST_TAGS >= len(of_cluster) + _SLICEWRIGHT_TAGS:
        sources = {
            "its own": of_pool,
            "of cluster.tags": {k: v for k, v in of_cluster.items() if k not in of_pool},
            "by which cluster-autoscaler knows its nodes": of_autoscaler,
        }
        parts = (f"{len(part)} {name}" for name, part in sources.items() if part)
        yield refuse(
            (*path, "tags"),
            f"{len(tags)} tags are too many ({', '.join(parts)}): AWS allows {MOST_TAGS} on a node "
            "group",
            "remove some",
            "EKS API",
        )


def _why_reserved(key: str) -> str | None:
    if key == "Name":
        return "reserved: slicewright sets Name itself, and its IAM policy depends on it"
    return next((why for start, why in _RESERVED.items() if key.startswith(start)), None)


def _refused_by_iam(text: str) -> str:
    """The characters, each once."""
    wrong = [
        character
        for character in text
        if character not in _SIGNS and unicodedata.category(character)[0] not in "LNZ"
    ]
    return " ".join(dict.fromkeys(wrong))

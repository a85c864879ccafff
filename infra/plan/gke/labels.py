"""Google Cloud's resource labels of a cluster and of its pools. They assign cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule

_MOST: Final = 64
_OF_THE_PROVIDER: Final = 1
"""The label goog-pulumi-provisioned of a cluster. Pulumi's provider adds it unless told not to.
Source: pulumi/pulumi-gcp #3933.
"""
_RESERVED: Final = "goog-"
_DOCS: Final = "Compute Engine docs, labels: requirements"


@rule("gke-cluster-labels")
def check_cluster_labels(labels: Mapping[str, str]) -> Checked[None]:
    """`cluster.resource_labels`."""
    path = ("cluster", "resource_labels")
    most = _MOST - _OF_THE_PROVIDER
    if len(labels) > most:
        yield refuse(
            path,
            f"{len(labels)} labels are too many: Google Cloud allows {_MOST} on a resource, and "
            "Pulumi's provider adds goog-pulumi-provisioned",
            f"write {most} or less",
            f"{_DOCS}; pulumi/pulumi-gcp #3933",
        )
    yield from _check_keys(labels, path)


@rule("gke-pool-labels")
def check_pool_labels(labels: Mapping[str, str], path: stack_file.Path) -> Checked[None]:
    """`resource_labels` of the pool at the path."""
    if len(labels) > _MOST:
        yield refuse(
            (*path, "resource_labels"),
            f"{len(labels)} labels are too many: Google Cloud allows {_MOST} on a resource",
            "remove some",
            _DOCS,
        )
    yield from _check_keys(labels, (*path, "resource_labels"))


@rule("gke-label-key")
def _check_keys(labels: Mapping[str, str], path: stack_file.Path) -> Checked[None]:
    for key in labels:
        if key.startswith(_RESERVED):
            yield refuse(
                (*path, key),
                f"begins with {_RESERVED}, the prefix of labels that Google's services set",
                "choose another key",
                "GKE docs, create and manage cluster and node pool labels",
                in_key=True,
            )

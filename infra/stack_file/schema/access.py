"""Exceptions for users and pods: who may repartition nodes, read the metrics, and run on GPUs that
are not verified or not requested.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from slicewright.infra.stack_file.schema.constraints import Cidr, NotEmpty, Pattern
from slicewright.infra.stack_file.schema.field_types import Labels, NamespaceName
from slicewright.infra.stack_file.schema.model import SpecModel

AdminGroup = Annotated[
    str,
    Pattern(
        pattern=r"(?!system:(?:authenticated|unauthenticated|nodes|serviceaccounts)$)\S(?:.*\S)?",
        is_not="a group of administrators: it is empty, starts or ends with a space, or includes "
        "every user, node or service account",
        examples=("system:masters", "gpu-admins"),
        source="Kubernetes docs, RBAC: default roles and subjects",
    ),
]


class PodGuard(SpecModel):
    """An admission policy for pods of tenants: they can use only GPUs that they requested, and only
    after the GPUs are verified.
    """

    exempt_namespaces: tuple[NamespaceName, ...] = ()
    """Exempt namespaces, such as for monitoring, storage and network plugins. The namespaces of
    Kubernetes, slicewright, the GPU operator and the engine for fractions, and on GKE of its
    agents, are always exempt.
    """


class MetricsNamespace(SpecModel):
    """Pods of a namespace."""

    namespace: NamespaceName
    pods: Annotated[
        Labels,
        NotEmpty(
            why="it would select all pods of the namespace",
            instead="write labels, or leave it out for all pods",
            source="Kubernetes API, LabelSelector",
        ),
    ] = Field(default_factory=dict)
    """Labels that select the pods. By default all pods of the namespace."""


class MetricsRange(SpecModel):
    """Addresses, for scrapers outside the cluster or in the network of their node."""

    cidr: Annotated[str, Cidr()]


def _tag(value: Any) -> str:
    return "cidr" if isinstance(value, dict) and "cidr" in value else "namespace"


MetricsSource = Annotated[
    Annotated[MetricsNamespace, Tag("namespace")] | Annotated[MetricsRange, Tag("cidr")],
    Discriminator(_tag),
]

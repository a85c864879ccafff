"""Who may do what slicewright keeps for itself: repartition nodes, read the metrics, and run on
GPUs that are not verified or not requested.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from infra.spec.schema.constraints import Cidr, Pattern
from infra.spec.schema.field_types import Labels, NamespaceName
from infra.spec.schema.model import SpecModel

AdminGroup = Annotated[
    str,
    Pattern(
        pattern=r"(?!system:(?:authenticated|unauthenticated|nodes|serviceaccounts)$)\S(?:.*\S)?",
        is_not="a group of administrators: it is empty, starts or ends with a space, or is one of "
        "the groups to which every user, node or service account belongs",
        examples=("system:masters", "gpu-admins"),
        source="Kubernetes docs, RBAC: default roles and subjects",
    ),
]


class PodGuard(SpecModel):
    """An admission policy for pods: no pod of a tenant gets to GPUs before they are verified, or to
    GPUs that it has not requested.
    """

    exempt_namespaces: tuple[NamespaceName, ...] = ()
    """Namespaces whose pods may: of monitoring, of storage, of network plugins. Always exempt are
    those of Kubernetes, of slicewright and of the GPU operator, on GKE also those of its agents.
    """


class MetricsNamespace(SpecModel):
    """Pods of a namespace."""

    namespace: NamespaceName
    pods: Labels = Field(default_factory=dict)
    """Labels of those pods. By default all pods of the namespace."""


class MetricsRange(SpecModel):
    """Addresses, for scrapers outside the cluster or in the network of their node."""

    cidr: Annotated[str, Cidr()]


def _tag(value: Any) -> str:
    return "cidr" if isinstance(value, dict) and "cidr" in value else "namespace"


MetricsSource = Annotated[
    Annotated[MetricsNamespace, Tag("namespace")] | Annotated[MetricsRange, Tag("cidr")],
    Discriminator(_tag),
]

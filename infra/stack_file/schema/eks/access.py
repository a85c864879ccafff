"""`cluster.access` of an EKS fleet: who may use the Kubernetes API, by IAM."""

from __future__ import annotations

from typing import Annotated, Literal

from slicewright.infra.stack_file.schema.constraints import NotEmpty, Pattern
from slicewright.infra.stack_file.schema.model import SpecModel

_GUIDE = "EKS user guide, create access entries"

PrincipalArn = Annotated[
    str,
    Pattern(
        pattern=r"arn:aws[a-z-]*:iam::[0-9]{12}:(?:role|user)/[A-Za-z0-9_+=,.@/-]{1,576}",
        is_not="the ARN of an IAM role or user; the ARN of a session (sts, assumed-role) is valid "
        "for a single login only",
        examples=("arn:aws:iam::111122223333:role/ml-engineers",),
        source=_GUIDE,
    ),
]
_Namespace = Annotated[
    str,
    Pattern(
        pattern=r"[a-z0-9*](?:[-a-z0-9*]{0,61}[a-z0-9*])?",
        is_not="the name of a namespace, or a prefix of names with '*'",
        examples=("training", "team-*"),
        source="EKS user guide, associate access policies with access entries",
    ),
]
_Group = Annotated[
    str,
    Pattern(
        pattern=r"(?!system:|eks:|aws:|amazon:|iam:)\S(?:.*\S)?",
        is_not="a group that EKS accepts: it is empty, starts or ends with a space, or starts with "
        "system:, eks:, aws:, amazon: or iam:",
        examples=("gpu-admins",),
        source="terraform-aws-modules/terraform-aws-eks #2915; EKS user guide, create access "
        "entries",
    ),
]


class AccessPolicy(SpecModel):
    """A named set of Kubernetes rights, defined by EKS."""

    name: Literal[
        "AmazonEKSAdminPolicy",
        "AmazonEKSAdminViewPolicy",
        "AmazonEKSClusterAdminPolicy",
        "AmazonEKSEditPolicy",
        "AmazonEKSSecretReaderPolicy",
        "AmazonEKSViewPolicy",
    ]
    namespaces: Annotated[
        tuple[_Namespace, ...],
        NotEmpty(
            why="the policy would cover the whole cluster",
            instead="name namespaces, or leave it out for the whole cluster",
            source="EKS API, AccessScope.namespaces",
        ),
    ] = ()
    """Namespaces that the policy covers. By default the whole cluster."""


class AccessEntry(SpecModel):
    principal: PrincipalArn
    """ARN of an IAM role, with its path, or of a user, in any account."""
    policies: tuple[AccessPolicy, ...] = ()
    groups: tuple[_Group, ...] = ()
    """Kubernetes groups of the principal, for your role bindings and for `admin_groups`."""


class EksAccess(SpecModel):
    """Access entries: IAM roles and users, and their rights in Kubernetes."""

    creator_admin: bool = True
    """Whether the creator of the cluster administers it. Applied only when the cluster is created.
    """
    entries: tuple[AccessEntry, ...] = ()

"""`cluster.pod_identities` of an EKS fleet: IAM roles of pods."""

from __future__ import annotations

from typing import Annotated

from slicewright.infra.stack_file.schema.constraints import Pattern
from slicewright.infra.stack_file.schema.model import SpecModel

_GUIDE = "EKS user guide, EKS Pod Identity"


class PodIdentity(SpecModel):
    """Gives pods of a service account the rights of your IAM role."""

    namespace: Annotated[
        str,
        Pattern(
            pattern=r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?",
            is_not="the name of a namespace: at most 63 lowercase letters, digits and '-', not "
            "starting or ending with '-'",
            examples=("training",),
            source="Kubernetes docs, object names",
        ),
    ]
    service_account: Annotated[
        str,
        Pattern(
            pattern=r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*",
            is_not="the name of a service account: lowercase letters, digits, '-' and '.'",
            examples=("trainer",),
            source="Kubernetes docs, object names",
        ),
    ]
    role: Annotated[
        str,
        Pattern(
            pattern=r"arn:aws[a-z-]*:iam::[0-9]{12}:role/(?!aws-service-role/)[A-Za-z0-9_+=,.@/-]{1,576}",
            is_not="the ARN of an IAM role that can be given to pods",
            examples=("arn:aws:iam::111122223333:role/trainer",),
            source=_GUIDE,
        ),
    ]
    """ARN of an existing role in the cluster's account. Its trust policy must let
    pods.eks.amazonaws.com assume it and tag the session.
    """

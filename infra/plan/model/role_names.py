"""The names of the IAM roles that a stack makes: they tell its roles from any other stack's."""

from __future__ import annotations

import hashlib
from typing import Final

ROLE_NAME_MAX: Final = 64
"""Characters. Source: IAM user guide, IAM and AWS STS quotas."""
_LONGEST_PART: Final = len("control-plane")
_DIGEST: Final = 10
"""The hexadecimal digits that replace the end of a name that is too long."""


def role_name(*, cluster: str, region: str, part: str, existing: bool = False) -> str:
    """Returns `slicewright.REGION.CLUSTER.PART`, shortened by a digest if it is too long.

    existing: another stack or person creates the cluster. The names then begin with
    `slicewright-existing`, because the stack that creates the cluster has such roles, too.

    IAM's roles belong to all regions, and a cluster's name is unique in one region.
    """
    return f"{_prefix(cluster, region, existing)}{part}"


def role_pattern(*, cluster: str, region: str, existing: bool = False) -> str:
    """Returns a pattern of the names of all roles of the stack, and of no other stack's: neither
    regions nor clusters nor parts have a dot. With dashes, prod-* would match
    roles of prod-2.
    """
    return f"{_prefix(cluster, region, existing)}*"


def _prefix(cluster: str, region: str, existing: bool) -> str:
    maker = "slicewright-existing" if existing else "slicewright"
    stack = f"{region}.{cluster}"
    room = ROLE_NAME_MAX - len(f"{maker}..") - _LONGEST_PART
    if len(stack) > room:
        digest = hashlib.sha256(stack.encode()).hexdigest()[:_DIGEST]
        stack = f"{stack[: room - _DIGEST - 1]}_{digest}"
    return f"{maker}.{stack}."

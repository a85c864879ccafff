"""The names of the IAM roles that a stack makes: they tell its roles from any other stack's."""

from __future__ import annotations

import hashlib
from typing import Final

ROLE_NAME_MAX: Final = 64
"""Characters. Source: IAM user guide, IAM and AWS STS quotas."""
_LONGEST_PART: Final = len("control-plane")
_DIGEST: Final = 10
"""Hexadecimal digits in place of what a name has no room for."""


def role_name(*, cluster: str, region: str, part: str) -> str:
    """`slicewright.REGION.CLUSTER.PART`, shortened by a digest where that is too long.

    IAM's roles belong to all regions, and a cluster's name is unique in one.
    """
    return f"{_prefix(cluster, region)}{part}"


def role_pattern(*, cluster: str, region: str) -> str:
    """Matches the names of all roles of the stack, and of no other stack's: neither regions nor
    clusters nor parts have a dot or an underscore. With dashes, prod-* would match roles of prod-2.
    """
    return f"{_prefix(cluster, region)}*"


def _prefix(cluster: str, region: str) -> str:
    stack = f"{region}.{cluster}"
    room = ROLE_NAME_MAX - len("slicewright..") - _LONGEST_PART
    if len(stack) > room:
        digest = hashlib.sha256(stack.encode()).hexdigest()[:_DIGEST]
        stack = f"{stack[: room - _DIGEST - 1]}_{digest}"
    return f"slicewright.{stack}."

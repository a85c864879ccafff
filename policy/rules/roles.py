"""Rules about IAM roles of AWS."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from policy.rules.resources import UNKNOWN, Resource, property_at
from policy.rules.rule import ResourceRule, Settings, names

_ROLE: Final = "aws:iam/role:Role"


def _boundary(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type != _ROLE or not settings["allowed"]:
        return
    boundary = property_at(resource.props, "permissionsBoundary")
    if boundary is UNKNOWN:
        return
    if any(boundary and fnmatchcase(str(boundary), pattern) for pattern in settings["allowed"]):
        return
    has = f"has the permissions boundary {boundary}" if boundary else "has no permissions boundary"
    yield (
        f"role {resource.name!r} {has}; allowed: {', '.join(settings['allowed'])}. Write one into "
        "cluster.permissions_boundary of its stack file, or where else its program takes it from"
    )


RULES = (
    ResourceRule(
        name="role-boundary",
        description="An IAM role has one of the permissions boundaries that are allowed.",
        level="mandatory",
        settings=(names("allowed", "ARNs or patterns of managed policies; empty: not looked at"),),
        check=_boundary,
    ),
)

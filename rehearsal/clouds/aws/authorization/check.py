"""One thing that a request needs: an action on a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slicewright.rehearsal.clouds.aws.policy_evaluation import Context


@dataclass(frozen=True, kw_only=True)
class Check:
    action: str
    """iam:CreateRole."""
    arn: str
    """`*` where AWS knows no resource for the action."""
    context: Context = field(default_factory=dict)
    """Condition keys, in lower case, with their values."""


def request_tags(tags: Mapping[str, str]) -> Context:
    """The condition keys of the tags that a request gives to a resource."""
    if not tags:
        return {}
    by_key = {f"aws:requesttag/{key.lower()}": [value] for key, value in tags.items()}
    return {**by_key, "aws:tagkeys": [*tags]}


def resource_tags(tags: Mapping[str, str]) -> Context:
    """The condition keys of the tags that a resource has."""
    return {f"aws:resourcetag/{key.lower()}": [value] for key, value in tags.items()}


def by_key(tags: Sequence[Mapping[str, Any]] | None) -> dict[str, str]:
    """A list of tags in the form of EC2 and IAM, as a mapping."""
    return {str(tag["Key"]): str(tag.get("Value", "")) for tag in tags or ()}

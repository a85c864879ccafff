"""Shared by the resources: the region, calls that may find nothing, tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.fields import Field
from slicewright.rehearsal.plugins.bridge.resources import Session
from slicewright.rehearsal.plugins.engine.plugin import ProviderError


def region_of(session: Session, inputs: Mapping[str, Any]) -> str:
    """The resource's region, else the provider's."""
    region = inputs.get("region") or session.settings.get("region")
    if not region:
        raise ProviderError(
            "region: Missing region configuration; set aws:region, the provider's region, "
            "or the resource's region"
        )
    return str(region)


def call(
    session: Session, inputs: Mapping[str, Any], service: str, operation: str, **body: Any
) -> JsonObject:
    """The answer of an API call; arguments that are None are not sent."""
    arguments = {k: v for k, v in body.items() if v is not None}
    return session.cloud.call(service, operation, {"region": region_of(session, inputs)}, arguments)


def or_none(
    session: Session, inputs: Mapping[str, Any], service: str, operation: str, **body: Any
) -> JsonObject | None:
    """The answer of an API call; None if what it names does not exist."""
    try:
        return call(session, inputs, service, operation, **body)
    except CloudError as e:
        if "NotFound" in e.reason or e.reason == "NoSuchEntity":
            return None
        raise


def capital(*names: str, computed: bool = False) -> dict[str, Field]:
    """Properties that EC2 writes with a capital letter: imageId, ImageId."""
    return {n: Field(api=n[:1].upper() + n[1:], computed=computed) for n in names}


def tag_list(tags: Mapping[str, str] | None) -> list[JsonObject]:
    return [{"Key": k, "Value": v} for k, v in sorted((tags or {}).items())]


def tag_map(tags: list[JsonObject] | None) -> dict[str, str]:
    return {t["Key"]: t["Value"] for t in tags or []}


def tag_specifications(resource_type: str, inputs: Mapping[str, Any]) -> list[JsonObject] | None:
    """TagSpecifications of an EC2 create call; None without tags."""
    return (
        [{"ResourceType": resource_type, "Tags": tag_list(inputs["tags"])}]
        if inputs.get("tags")
        else None
    )


def tag_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The keys to remove, and the tags to set."""
    before, after = old.get("tags") or {}, new.get("tags") or {}
    removed = [k for k in before if k not in after]
    return removed, {k: v for k, v in after.items() if before.get(k) != v}


def retag_ec2(
    session: Session, resource_id: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> None:
    removed, set_ = tag_changes(old, new)
    if removed:
        keys = [{"Key": key} for key in removed]
        call(session, new, "ec2", "DeleteTags", Resources=[resource_id], Tags=keys)
    if set_:
        call(session, new, "ec2", "CreateTags", Resources=[resource_id], Tags=tag_list(set_))


def retag_eks(session: Session, arn: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    removed, set_ = tag_changes(old, new)
    if removed:
        call(session, new, "eks", "UntagResource", resourceArn=arn, tagKeys=removed)
    if set_:
        call(session, new, "eks", "TagResource", resourceArn=arn, tags=set_)


def seen_tags(tags: Mapping[str, str], inputs: Mapping[str, Any]) -> JsonObject:
    """Tags as inputs; absent where there are none and none were requested."""
    return {"tags": dict(tags)} if tags or "tags" in inputs else {}

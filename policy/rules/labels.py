"""Rules about labels and tags, which identify the owner of a resource and its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from policy.rules.resources import UNKNOWN, Resource, property_at
from policy.rules.rule import ResourceRule, Settings, names

LABELLED: Final[Mapping[str, str]] = {
    "gcp:container/cluster:Cluster": "resourceLabels",
    **dict.fromkeys(
        (
            *("gcp:compute/address:Address", "gcp:compute/globalAddress:GlobalAddress"),
            *("gcp:compute/disk:Disk", "gcp:compute/instance:Instance"),
            *("gcp:compute/forwardingRule:ForwardingRule", "gcp:kms/cryptoKey:CryptoKey"),
            *("gcp:filestore/instance:Instance", "gcp:storage/bucket:Bucket"),
        ),
        "labels",
    ),
}
"""Type -> its property. Google has no labels for VPC networks, subnets, firewall rules, routers and
service accounts. The rule `pool-labelled` checks GKE node pools, whose nodes inherit the cluster's.
"""
TAGGED: Final = frozenset(
    f"aws:{kind}"
    for kind in (
        *("ec2/vpc:Vpc", "ec2/subnet:Subnet", "ec2/internetGateway:InternetGateway"),
        *("ec2/routeTable:RouteTable", "ec2/eip:Eip", "ec2/natGateway:NatGateway"),
        *("ec2/securityGroup:SecurityGroup", "ec2/vpcEndpoint:VpcEndpoint"),
        *("ec2/launchTemplate:LaunchTemplate", "ec2/placementGroup:PlacementGroup"),
        *("ec2/instance:Instance", "ebs/volume:Volume", "efs/fileSystem:FileSystem"),
        *("eks/cluster:Cluster", "eks/nodeGroup:NodeGroup", "eks/addon:Addon"),
        *("eks/accessEntry:AccessEntry", "eks/podIdentityAssociation:PodIdentityAssociation"),
        *("iam/role:Role", "iam/openIdConnectProvider:OpenIdConnectProvider", "iam/policy:Policy"),
        *("kms/key:Key", "cloudwatch/logGroup:LogGroup", "sqs/queue:Queue"),
    )
)
"""The types that AWS can tag, of a fleet and of resources often created with it."""


def keys_with_value(*parts: Any) -> frozenset[str] | None:
    """Keys with a value in any of the properties. None: not known yet."""
    properties = [parse_nested(part) for part in parts]
    if UNKNOWN in properties:
        return None
    return frozenset(
        key
        for part in properties
        if isinstance(part, Mapping)
        for key, value in part.items()
        if value
    )


def tags_of(resource: Resource) -> frozenset[str] | None:
    """Keys of an AWS resource's tags, including its provider's. None: not known yet."""
    props, default = resource.props, parse_nested(property_at(resource.provider, "defaultTags"))
    return keys_with_value(
        property_at(props, "tags"), property_at(props, "tagsAll"), property_at(default, "tags")
    )


def labels_of(resource: Resource, declared: Any) -> frozenset[str] | None:
    """Keys of `declared` labels and of the provider's default labels. None: not known yet."""
    return keys_with_value(declared, property_at(resource.provider, "defaultLabels"))


def missing_keys(present: frozenset[str] | None, settings: Settings) -> list[str]:
    """Required keys that are missing, none while the present keys are not known."""
    return [key for key in settings["required"] if present is not None and key not in present]


def parse_nested(value: Any) -> Any:
    """The value of a nested provider input, which is JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _required_keys(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type in TAGGED:
        kind, where, present = "tags", "cluster.tags", tags_of(resource)
    elif (key := LABELLED.get(resource.type)) is not None:
        kind, where = "labels", "cluster.resource_labels"
        present = labels_of(resource, property_at(resource.props, key))
    else:
        return
    if missing := missing_keys(present, settings):
        yield (
            f"{resource.type.rpartition(':')[2]} {resource.name!r} lacks the {kind} "
            f"{', '.join(missing)}; set them in {where} of its stack file, or where its program "
            "reads them"
        )


RULES = (
    ResourceRule(
        name="resource-labelled",
        description="Resources that can have labels or tags have the required keys.",
        level="mandatory",
        settings=(names("required", "keys of Google's labels and of AWS's tags"),),
        check=_required_keys,
    ),
)

"""Labels and tags, by which clouds tell whose a resource and its cost are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from policy.rules.declared import UNKNOWN, Resource, at
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
"""Type -> the property. Google has no labels for VPC networks, subnets, firewall rules, routers and
service accounts. Of a GKE node pool: `pool-labelled`, as GKE gives its nodes those of the cluster.
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
"""What AWS can tag of what a fleet consists of, and of what is made beside one."""


def stated(*parts: Any) -> frozenset[str] | None:
    """Keys that have a value in one of the properties; None: they are not known yet."""
    found = [as_object(part) for part in parts]
    if UNKNOWN in found:
        return None
    return frozenset(
        key for part in found if isinstance(part, Mapping) for key, value in part.items() if value
    )


def tags_of(resource: Resource) -> frozenset[str] | None:
    """Keys of the tags of a resource of AWS, with those of its provider; None: as `stated`."""
    props, default = resource.props, as_object(at(resource.provider, "defaultTags"))
    return stated(at(props, "tags"), at(props, "tagsAll"), at(default, "tags"))


def labels_of(resource: Resource, own: Any) -> frozenset[str] | None:
    """Keys of the labels of one of Google's, of which `own` are its; None: as `stated`."""
    return stated(own, at(resource.provider, "defaultLabels"))


def lacking(there: frozenset[str] | None, settings: Settings) -> list[str]:
    """Required keys that are not there; none while it is not known what is."""
    return [key for key in settings["required"] if there is not None and key not in there]


def as_object(value: Any) -> Any:
    """Providers get their nested inputs as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _labelled(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type in TAGGED:
        what, where, there = "tags", "cluster.tags", tags_of(resource)
    elif (key := LABELLED.get(resource.type)) is not None:
        what, where = "labels", "cluster.resource_labels"
        there = labels_of(resource, at(resource.props, key))
    else:
        return
    if missing := lacking(there, settings):
        yield (
            f"{resource.type.rpartition(':')[2]} {resource.name!r} lacks the {what} "
            f"{', '.join(missing)}; write them into {where} of its stack file, or where else its "
            "program takes them from"
        )


RULES = (
    ResourceRule(
        name="resource-labelled",
        description="All that can have labels or tags has those that are required.",
        level="mandatory",
        settings=(names("required", "keys of Google's labels and of AWS's tags"),),
        check=_labelled,
    ),
)

"""Rules about clusters, launch templates, charts and layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from policy.rules import karpenter
from policy.rules.resources import UNKNOWN, Resource, items, property_at
from policy.rules.rule import ResourceRule, Settings, names

GKE = "gcp:container/cluster:Cluster"
EKS = "aws:eks/cluster:Cluster"
_VERSION = re.compile(r"v?\d+\.\d+\.\d+([-+][\w.+-]+)?")


def _endpoint(resource: Resource, settings: Settings) -> Iterator[str]:
    reachable = _source_networks(resource)
    allowed = [ip_network(cidr, strict=False) for cidr in settings["allowed_cidrs"]]
    for cidr in reachable:
        network = ip_network(cidr, strict=False)
        if network.prefixlen == 0:
            yield (
                f"the API of cluster {resource.name!r} answers the whole internet ({cidr}); name "
                "the networks that may reach it, or make its endpoint private"
            )
        elif allowed and not any(
            network.version == permitted.version and network.subnet_of(permitted)  # type: ignore[arg-type]
            for permitted in allowed
        ):
            yield (
                f"the API of cluster {resource.name!r} answers {cidr}, which is in none of "
                f"{', '.join(map(str, allowed))}"
            )


def _source_networks(resource: Resource) -> list[str]:
    """The known networks that may reach the public endpoint."""
    props = resource.props
    if resource.type == EKS:
        config = property_at(props, "vpcConfig")
        if property_at(config, "endpointPublicAccess") in (False, UNKNOWN):
            return []
        stated = property_at(config, "publicAccessCidrs")
        # Without CIDRs, EKS uses 0.0.0.0/0. Source: EKS API, VpcConfigRequest.
        return _texts(stated) if stated else ["0.0.0.0/0"]
    if resource.type == GKE:
        if property_at(props, "privateClusterConfig", "enablePrivateEndpoint") in (True, UNKNOWN):
            return []
        networks = property_at(props, "masterAuthorizedNetworksConfig")
        if networks is None:
            return ["0.0.0.0/0"]
        return _texts(
            [
                property_at(block, "cidrBlock")
                for block in items(property_at(networks, "cidrBlocks"))
            ]
        )
    return []


def _texts(value: Any) -> list[str]:
    return [text for text in items(value) if isinstance(text, str)]


def _protection(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type not in (GKE, EKS) or resource.protect:
        return
    if property_at(resource.props, "deletionProtection") not in (True, UNKNOWN):
        yield (
            f"cluster {resource.name!r} is deleted together with the stack; to prevent this, turn "
            "deletion protection on"
        )


def _workload_identity(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type == GKE and property_at(resource.props, "workloadIdentityConfig") is None:
        yield (
            f"cluster {resource.name!r} has no workload identity: its pods need keys, or use "
            "their node's account"
        )


def _imds(resource: Resource, settings: Settings) -> Iterator[str]:
    match resource.type:
        case "aws:ec2/launchTemplate:LaunchTemplate":
            tokens = property_at(resource.props, "metadataOptions", "httpTokens")
            source = "launch template"
        case karpenter.NODE_CLASS:
            # Tokens are required by default.
            tokens = (
                property_at(resource.props, "spec", "metadataOptions", "httpTokens") or "required"
            )
            source = "EC2NodeClass"
        case _:
            return
    if tokens not in ("required", UNKNOWN):
        yield (
            f"instances of {source} {resource.name!r} answer IMDSv1, which lets a single "
            "forged request of a pod read their credentials; set metadataOptions.httpTokens to "
            "required"
        )


def _chart(resource: Resource, settings: Settings) -> Iterator[str]:
    if resource.type != "kubernetes:helm.sh/v3:Release":
        return
    version = property_at(resource.props, "version")
    if version is UNKNOWN or (isinstance(version, str) and _VERSION.fullmatch(version)):
        return
    yield (
        f"chart {resource.name!r} has the version {version!r}; pin a release, such as "
        "v26.7.0: otherwise a later run may install another release"
    )


def _layouts(resource: Resource, settings: Settings) -> Iterator[str]:
    for profile in sorted(_profiles(resource)):
        if "*" not in settings["allowed"] and profile not in settings["allowed"]:
            yield (
                f"{resource.name!r} partitions GPUs into {profile}; allowed: "
                f"{', '.join(settings['allowed']) or 'none'}"
            )


def _profiles(resource: Resource) -> set[str]:
    """The MIG profiles that a node pool or the desired state of a pool's agents requests."""
    if resource.type == "gcp:container/nodePool:NodePool":
        gpus = items(property_at(resource.props, "nodeConfig", "guestAccelerators"))
        sizes = (property_at(gpu, "gpuPartitionSize") for gpu in gpus)
        return {size for size in sizes if isinstance(size, str) and size}
    if resource.type != "kubernetes:core/v1:ConfigMap":
        return set()
    desired = property_at(resource.props, "data", "desired.json")
    if not isinstance(desired, str):
        return set()
    return {
        p
        for gpu in items(property_at(json.loads(desired), "gpus"))
        for p in property_at(gpu, "instances") or {}
    }


RULES = (
    ResourceRule(
        name="cluster-endpoint",
        description="A cluster's API does not answer the whole internet.",
        level="mandatory",
        settings=(
            names(
                "allowed_cidrs",
                "the only networks that may reach it; empty: any except the whole internet",
            ),
        ),
        check=_endpoint,
    ),
    ResourceRule(
        name="cluster-protected",
        description="A cluster is protected from deletion.",
        level="advisory",
        check=_protection,
    ),
    ResourceRule(
        name="cluster-workload-identity",
        description="Pods of a GKE cluster have separate identities.",
        level="mandatory",
        check=_workload_identity,
    ),
    ResourceRule(
        name="template-imdsv2",
        description="EC2 instances give their credentials to IMDSv2 requests only.",
        level="mandatory",
        check=_imds,
    ),
    ResourceRule(
        name="chart-pinned",
        description="Charts are pinned to a version.",
        level="mandatory",
        check=_chart,
    ),
    ResourceRule(
        name="layouts",
        description="GPUs are partitioned only into allowed profiles.",
        level="mandatory",
        settings=(names("allowed", "MIG profiles, such as 3g.40gb; *: any", ("*",)),),
        check=_layouts,
    ),
)

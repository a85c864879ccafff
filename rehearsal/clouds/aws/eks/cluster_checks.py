"""What EKS refuses of a cluster although its API model allows it.

Sources: the EKS user guide and API reference (CreateCluster, UpdateClusterConfig), and messages as
reported in public issues, which stand beside each.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import NamedTuple

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.subnets import find_subnet
from slicewright.rehearsal.clouds.aws.eks.checks import (
    VERSIONS,
    check_single_vpc,
    check_trust,
    invalid,
    subnet_of,
)
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import attached, known_role
from slicewright.rehearsal.clouds.aws.state import VPCS, ClusterRecord
from slicewright.rehearsal.clouds.aws.zones import holds_control_planes, zone_ids
from slicewright.rehearsal.clouds.core.context import Context

_PRIVATE = tuple(
    ipaddress.IPv4Network(b) for b in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
"""Of authentication, in the only direction in which it changes."""


def check_cluster(context: Context, region: str, body: JsonObject) -> str:
    """The id of the VPC that the subnets are in. Raises CloudError."""
    version = body.get("version")
    if version and version not in VERSIONS:
        raise invalid(f"unsupported Kubernetes version {version}; supported: {', '.join(VERSIONS)}")
    network = body["resourcesVpcConfig"]
    subnets = [subnet_of(context, region, i) for i in network.get("subnetIds") or []]
    if len({s["AvailabilityZone"] for s in subnets}) < 2:
        # awsdocs/amazon-eks-user-guide #795
        raise invalid("Subnets specified must be in at least two different AZs")
    check_single_vpc(subnets)
    _check_zones(context, region, body["name"], subnets)
    check_endpoint(network)
    _check_access(body.get("accessConfig") or {})
    check_encryption(context, body.get("encryptionConfig") or [], region)
    vpc = str(subnets[0]["VpcId"])
    _check_services(context, region, vpc, body.get("kubernetesNetworkConfig") or {})
    # Last, so that a caller that retries while its role spreads retries nothing else.
    _check_role(context, body["roleArn"])
    return vpc


def _check_zones(context: Context, region: str, name: str, subnets: list[JsonObject]) -> None:
    """Source: EKS user guide, "Troubleshoot problems with Amazon EKS clusters and nodes"."""
    for subnet in subnets:
        zone = subnet["AvailabilityZone"]
        if not holds_control_planes(zone, subnet["AvailabilityZoneId"], region):
            zones = zone_ids(account_of(context), region)
            able = [n for n, i in sorted(zones.items()) if holds_control_planes(n, i, region)]
            raise aws_error(
                "UnsupportedAvailabilityZoneException",
                f"Cannot create cluster '{name}' because {zone}, the targeted availability zone, "
                "does not currently have sufficient capacity to support the cluster. Retry and "
                f"choose from these availability zones: {', '.join(able)}",
            )


def check_endpoint(network: JsonObject) -> None:
    """network: a complete configuration. Raises CloudError."""
    if network.get("endpointPublicAccess") is False and not network.get("endpointPrivateAccess"):
        raise invalid("Private and public endpoint access cannot be false")
    for text in network.get("publicAccessCidrs") or ():
        try:
            block = ipaddress.ip_network(text)
        except ValueError:
            raise invalid(f"The following CIDRs are invalid in publicAccessCidrs: [{text}]") from (
                None
            )
        if block.version == 4 and any(block.subnet_of(private) for private in _PRIVATE):
            raise invalid(f"The following CIDRs are not allowed in publicAccessCidrs: [{text}]")


def _check_access(access: JsonObject) -> None:
    """Source: terraform-aws-modules/terraform-aws-eks #3206."""
    mode = access.get("authenticationMode", "CONFIG_MAP")
    if mode == "CONFIG_MAP" and access.get("bootstrapClusterCreatorAdminPermissions") is False:
        raise invalid(
            "bootstrapClusterCreatorAdminPermissions must be true if cluster authentication mode "
            "is set to CONFIG_MAP"
        )


def check_encryption(context: Context, config: list[JsonObject], region: str) -> None:
    """Sources: EKS API reference, EncryptionConfig and Provider: the key is of the cluster's
    region. That EKS says the same of a key that is not there is not published.
    """
    for entry in config:
        if entry.get("resources") != ["secrets"]:
            raise invalid("encryptionConfig.resources: the only supported value is secrets")
        arn = (entry.get("provider") or {}).get("keyArn", "")
        keys = account_of(context).keys
        usable = keys is None or (arn in keys and keys[arn].state == "Enabled")
        if not arn.startswith("arn:") or f":kms:{region}:" not in arn or not usable:
            raise invalid(f"The keyArn in encryptionConfig provider {arn} is invalid")


def _check_services(context: Context, region: str, vpc: str, network: JsonObject) -> None:
    """Source: EKS API reference, KubernetesNetworkConfigRequest."""
    text = network.get("serviceIpv4Cidr")
    if not text:
        return
    try:
        block = ipaddress.IPv4Network(text)
    except ValueError:
        raise invalid(f"serviceIpv4Cidr {text} is not a valid CIDR block") from None
    if not 12 <= block.prefixlen <= 24 or not any(block.subnet_of(p) for p in _PRIVATE):
        raise invalid(
            f"serviceIpv4Cidr {text} must be between /24 and /12, and within one of "
            f"{', '.join(map(str, _PRIVATE))}"
        )
    if block.overlaps(vpc_range(context, region, vpc)):
        raise invalid(f"serviceIpv4Cidr {text} overlaps with the CIDR block of VPC {vpc}")


def vpc_range(context: Context, region: str, vpc: str) -> ipaddress.IPv4Network:
    vpc_record = context.store.get(VPCS, f"{region}/{vpc}")
    return ipaddress.IPv4Network(vpc_record["CidrBlock"] if vpc_record else "10.0.0.0/16")


def _check_role(context: Context, arn: str) -> None:
    """Its messages are those that hashicorp/terraform-provider-aws retries on
    (internal/service/eks/cluster.go).
    """
    role = known_role(context, arn)
    if role is None:
        raise invalid(f"roleArn, {arn}, does not exist")
    check_trust(role, "eks.amazonaws.com")
    if "AmazonEKSClusterPolicy" not in attached(role):
        raise invalid(
            "The provided role doesn't have the Amazon EKS Managed Policies associated with it. "
            "Please ensure the following policy is attached: "
            "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
        )


class Change(NamedTuple):
    """An update of a cluster's configuration that EKS accepts."""

    kind: str
    """The API's UpdateType."""
    parameters: Mapping[str, object]
    """By the API's UpdateParamType."""
    fields: JsonObject
    """Of the cluster, as they will be."""


_ENDPOINT = ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs")
_OTHER: Mapping[str, tuple[str, str]] = {
    "upgradePolicy": ("UpgradePolicyUpdate", "UpgradePolicy"),
    "zonalShiftConfig": ("ZonalShiftConfigUpdate", "ZonalShiftConfig"),
    "deletionProtection": ("DeletionProtectionUpdate", "DeletionProtection"),
}


def config_change(
    context: Context, region: str, item: ClusterRecord, requested: JsonObject
) -> Change:
    """requested: the request without the cluster's name. Raises CloudError."""
    cluster = item["cluster"]
    if not requested:
        # aws/aws-cli #4072
        raise invalid("Invalid type for cluster update.")
    network = requested.get("resourcesVpcConfig") or {}
    kinds = set(requested) - {"resourcesVpcConfig"}
    kinds |= {"endpoint"} if set(network) & set(_ENDPOINT) else set()
    kinds |= {"subnets"} if set(network) - set(_ENDPOINT) else set()
    if len(kinds) != 1:
        # kubernetes-sigs/cluster-api-provider-aws #3553
        raise invalid("Only one type of update can be allowed.")
    (kind,) = kinds
    if kind == "endpoint":
        return _endpoint_change(cluster, network)
    if kind == "subnets":
        return _subnet_change(context, region, item, network)
    if kind == "accessConfig":
        return _access_change(cluster, requested["accessConfig"])
    if kind == "logging":
        return _logging_change(cluster, requested["logging"])
    if kind not in _OTHER:
        raise invalid(f"the rehearsal's cloud does not simulate an update of {kind}")
    update, parameter = _OTHER[kind]
    if cluster.get(kind) == requested[kind]:
        raise invalid(f"No changes needed for the {kind} provided")
    return Change(update, {parameter: requested[kind]}, {kind: requested[kind]})


def _endpoint_change(cluster: JsonObject, network: JsonObject) -> Change:
    now = cluster["resourcesVpcConfig"]
    desired = {**now, **network}
    check_endpoint(desired)
    if desired == now:
        # eksctl-io/eksctl #4043
        raise invalid(
            "Cluster is already at the desired configuration with endpointPrivateAccess: "
            f"{str(now['endpointPrivateAccess']).lower()} , endpointPublicAccess: "
            f"{str(now['endpointPublicAccess']).lower()}, and Public Endpoint Restrictions: "
            f"[{', '.join(now['publicAccessCidrs'])}]"
        )
    parameters = {k[:1].upper() + k[1:]: desired[k] for k in _ENDPOINT}
    return Change("EndpointAccessUpdate", parameters, {"resourcesVpcConfig": desired})


def _subnet_change(
    context: Context, region: str, item: ClusterRecord, network: JsonObject
) -> Change:
    """Source: aws/containers-roadmap #2258, #2330."""
    now = item["cluster"]["resourcesVpcConfig"]
    desired = {**now, **network}
    if all(sorted(desired[k]) == sorted(now[k]) for k in ("subnetIds", "securityGroupIds")):
        raise invalid("No changes needed for the VPC config provided")
    subnets = [subnet_of(context, region, i) for i in desired["subnetIds"]]
    check_single_vpc(subnets)
    zones = item["zones"]
    if {s["AvailabilityZone"] for s in subnets} != set(zones) or any(
        s["VpcId"] != now["vpcId"] for s in subnets
    ):
        raise invalid(
            f"Provided subnets {' '.join(desired['subnetIds'])} should belong to the exact set of "
            f"AZs {','.join(zones)} in which subnets were provided during cluster creation"
        )
    parameters = {"Subnets": desired["subnetIds"], "SecurityGroups": desired["securityGroupIds"]}
    return Change("VpcConfigUpdate", parameters, {"resourcesVpcConfig": desired})


def _access_change(cluster: JsonObject, access: JsonObject) -> Change:
    """Source: pulumi/pulumi-eks #1493, aws/aws-cdk #31032."""
    old = cluster["accessConfig"]["authenticationMode"]
    new = access.get("authenticationMode", old)
    if _MODES.index(new) != _MODES.index(old) + 1:
        raise invalid(f"Unsupported authentication mode update from {old} to {new}")
    fields = {"accessConfig": cluster["accessConfig"] | {"authenticationMode": new}}
    return Change("AccessConfigUpdate", {"AuthenticationMode": new}, fields)


def _logging_change(cluster: JsonObject, logging: JsonObject) -> Change:
    """Source: aws-controllers-k8s/eks-controller #29."""
    before = enabled_logs(cluster["logging"])
    after = set(before)
    for group in logging.get("clusterLogging", []):
        types = set(group.get("types", []))
        after = after | types if group.get("enabled") else after - types
    if after == set(before):
        raise invalid("No changes needed for the logging config provided")
    return Change(
        "LoggingUpdate", {"ClusterLogging": logging}, {"logging": logging_of(sorted(after))}
    )


def enabled_logs(logging: JsonObject) -> list[str]:
    return [t for g in logging["clusterLogging"] if g.get("enabled") for t in g.get("types", [])]


_LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")


def logging_of(enabled: list[str]) -> JsonObject:
    """In the API's form, which lists what is off, too."""
    off = [t for t in _LOGS if t not in enabled]
    groups = [{"types": enabled, "enabled": True}] if enabled else []
    return {"clusterLogging": [*groups, *([{"types": off, "enabled": False}] if off else [])]}


def check_version_change(cluster: JsonObject, version: str) -> None:
    """Source: EKS user guide, "Update existing cluster to new Kubernetes version". Raises
    CloudError.
    """
    old = cluster["version"]
    if version not in VERSIONS or VERSIONS.index(version) != VERSIONS.index(old) + 1:
        raise invalid(f"Unsupported Kubernetes minor version update from {old} to {version}")


def zones_of(context: Context, region: str, subnets: list[str]) -> list[str]:
    subnet_records = (find_subnet(context, region, i) for i in subnets)
    return sorted({s["AvailabilityZone"] for s in subnet_records if s})

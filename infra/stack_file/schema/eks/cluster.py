"""`cluster` of an EKS fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema.constraints import Cidr, NotEmpty, Pattern
from slicewright.infra.stack_file.schema.eks.access import EksAccess
from slicewright.infra.stack_file.schema.eks.autoscaler import EksAutoscaler
from slicewright.infra.stack_file.schema.eks.identities import PodIdentity
from slicewright.infra.stack_file.schema.field_types import KmsKeyArn, OptionalZones, Tags
from slicewright.infra.stack_file.schema.model import Shorthand, SpecModel

SubnetId = Annotated[
    str,
    Pattern(
        pattern=r"subnet-(?:[0-9a-f]{8}|[0-9a-f]{17})",
        is_not="the ID of a subnet: subnet- and 8 or 17 hexadecimal digits",
        examples=("subnet-0123456789abcdef0",),
        source="EC2 user guide, resource IDs",
    ),
]


class PublicNetwork(SpecModel):
    """A new VPC. Nodes are in public subnets, one per zone, and have public addresses."""

    mode: Literal["public"] = "public"


class PrivateNetwork(SpecModel):
    """A new VPC. Nodes are in private subnets, one per zone, behind NAT gateways, which AWS bills
    by the hour and by the gigabyte.
    """

    mode: Literal["private"] = "private"
    nat_gateways: Literal["one", "per-zone"] = "one"
    """`one` for all zones: if its zone fails, all nodes lose the internet. `per-zone`: one gateway
    in each zone.
    """


class ExistingNetwork(SpecModel):
    """Existing subnets of a single VPC, which are never changed or deleted."""

    mode: Literal["existing"] = "existing"
    subnets: Annotated[
        tuple[SubnetId, ...],
        NotEmpty(why="cluster and nodes need subnets", instead="name at least two subnets"),
    ]
    """Subnets, at least one in each zone of the cluster and of every pool. If a zone has subnets
    with and without public addresses for nodes, nodes use the subnets without.
    """


EksNetwork = Annotated[
    PublicNetwork | PrivateNetwork | ExistingNetwork,
    Field(discriminator="mode"),
    Shorthand("public", "private"),
]


class EksEndpoint(SpecModel):
    """Access to the cluster's API server."""

    public: bool = True
    """Reachable from the internet, with credentials."""
    private: bool = False
    """Reachable from the VPC, without leaving it."""
    public_cidrs: Annotated[
        tuple[Annotated[str, Cidr("EKS API, VpcConfigRequest")], ...],
        NotEmpty(
            why="EKS would open the endpoint to all addresses",
            instead="list ranges, or write public: false to close the endpoint; leave it out for "
            "all addresses",
            source="EKS API, VpcConfigRequest.publicAccessCidrs",
        ),
    ] = ()
    """Ranges of public addresses that may reach a public endpoint. By default all."""


AddonName = Annotated[
    str,
    Pattern(
        pattern="aws-ebs-csi-driver|coredns|eks-node-monitoring-agent|eks-pod-identity-agent"
        "|kube-proxy|vpc-cni",
        is_not="an add-on that slicewright installs: coredns, kube-proxy, vpc-cni, "
        "aws-ebs-csi-driver, eks-node-monitoring-agent or eks-pod-identity-agent",
        examples=("eks-node-monitoring-agent",),
        source="EKS user guide, AWS add-ons",
    ),
]


class EksAddon(SpecModel):
    version: (
        Annotated[
            str,
            Pattern(
                pattern=r"v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+",
                is_not="the version of an EKS add-on",
                examples=("v1.21.1-eksbuild.1",),
                source="EKS API, DescribeAddonVersions",
            ),
        ]
        | None
    ) = None
    """Version of the add-on. By default EKS chooses it when the add-on is installed."""
    settings: Mapping[str, Any] | None = None
    """EKS's configuration values. DescribeAddonConfiguration lists them."""


BoundaryArn = Annotated[
    str,
    Pattern(
        pattern=r"arn:aws[a-z-]*:iam::[0-9]{12}:policy/[A-Za-z0-9_+=,.@/-]{1,640}",
        is_not="the ARN of a customer managed IAM policy; AWS's policies allow more than the roles "
        "of a stack need, and `slicewright rights --boundary` writes a minimal policy",
        examples=("arn:aws:iam::111122223333:policy/slicewright-boundary",),
        source="IAM user guide, permissions boundaries for IAM entities",
    ),
]
LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]


class EksCluster(SpecModel):
    name: Annotated[
        str,
        Pattern(
            pattern=r"[0-9A-Za-z][-0-9A-Za-z_]{0,99}",
            is_not="the name of an EKS cluster: at most 100 letters, digits, '-' and '_', starting "
            "with a letter or digit",
            examples=("main",),
            source="EKS API, CreateClusterRequest.name",
        ),
    ]
    """The name. That of a new cluster is a DNS label."""
    region: Annotated[
        str,
        Pattern(
            pattern=r"[a-z]{2}(-[a-z]+)+-[0-9]",
            is_not="an AWS region",
            examples=("eu-west-1", "us-gov-west-1"),
            source="AWS docs, regions",
        ),
    ]
    zones: OptionalZones = None
    """Zones, at least two. By default a and b of the region."""
    version: (
        Annotated[
            str,
            Pattern(
                pattern=r"[0-9]+\.[0-9]+",
                is_not="an EKS version",
                examples=('"1.34"',),
                source="EKS API, Cluster.version",
            ),
        ]
        | None
    ) = None
    network: EksNetwork = PublicNetwork()
    """Network of the cluster and its nodes."""
    endpoint: EksEndpoint = EksEndpoint()
    logs: tuple[LogType, ...] = ()
    """Logs of the control plane that are sent to CloudWatch, which bills for them."""
    secrets_key: KmsKeyArn | None = None
    """ARN of your symmetric KMS key that encrypts Kubernetes secrets. It can be added later, but a
    change or removal needs a new cluster.
    """
    addons: Mapping[AddonName, EksAddon] = Field(default_factory=dict)
    """Versions and settings of vpc-cni, kube-proxy and coredns, which every new cluster has, and of
    further add-ons.
    """
    autoscaler: EksAutoscaler | None = None
    """The autoscaler of pools with `nodes: {min, max}`. By default slicewright installs none."""
    pod_identities: tuple[PodIdentity, ...] = ()
    """IAM roles of pods, by service account."""
    access: EksAccess = EksAccess()
    """Access to the Kubernetes API by IAM."""
    tags: Tags = Field(default_factory=dict)
    """Tags of all taggable resources of the stack, except instances and disks."""
    permissions_boundary: BoundaryArn | None = None
    """ARN of your IAM policy that limits every role of the stack."""
    instance_tags: Tags = Field(default_factory=dict)
    """Tags of the instances and disks of all pools, including the system pool, in addition to a
    pool's `instance_tags`. Each node group then has a launch template.
    """
    existing: bool = False
    """The cluster already exists: it is looked up by name and never deleted."""

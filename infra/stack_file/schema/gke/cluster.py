"""Keys of a GKE cluster and its network."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema.constraints import (
    Cidr,
    DnsLabel,
    FreeText,
    NotNull,
    Pattern,
)
from slicewright.infra.stack_file.schema.field_types import CloudLabels
from slicewright.infra.stack_file.schema.gke.capacity import PROJECT
from slicewright.infra.stack_file.schema.gke.maintenance import GkeMaintenance
from slicewright.infra.stack_file.schema.gke.observability import GkeLogging, GkeMonitoring
from slicewright.infra.stack_file.schema.model import SpecModel

_COMPUTE_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
_RangeName = Annotated[
    str,
    Pattern(
        pattern=_COMPUTE_NAME,
        is_not="the name of a secondary range of a subnet: at most 63 lowercase letters, digits "
        "and '-', starting with a letter, not ending with '-'",
        examples=("pods", "gke-pods"),
        source="Compute Engine API, SubnetworkSecondaryRange.rangeName",
    ),
]


_KmsKey = Annotated[
    str,
    Pattern(
        pattern=rf"projects/{PROJECT}/locations/[a-z0-9-]+/keyRings/[A-Za-z0-9_-]{{1,63}}"
        r"/cryptoKeys/[A-Za-z0-9_-]{1,63}",
        is_not="the name of a Cloud KMS key, with its project, location and key ring",
        examples=("projects/p-123456/locations/us-central1/keyRings/gke/cryptoKeys/disks",),
        source="Cloud KMS API, CryptoKey.name",
    ),
]


class GkeNetwork(SpecModel):
    """An existing VPC and subnet, which are never changed or deleted."""

    vpc: Annotated[
        str,
        Pattern(
            pattern=rf"(?:projects/{PROJECT}/global/networks/)?{_COMPUTE_NAME}",
            is_not="a VPC network: its name, or its path if it belongs to another project",
            examples=("main", "projects/host-project/global/networks/shared"),
            source="Compute Engine API, Network.selfLink",
        ),
    ]
    """Name of the VPC, or for a Shared VPC `projects/<host project>/global/networks/<name>`."""
    subnet: Annotated[
        str,
        Pattern(
            pattern=_COMPUTE_NAME,
            is_not="the name of a subnet: at most 63 lowercase letters, digits and '-', starting "
            "with a letter, not ending with '-'",
            examples=("gpu-nodes",),
            source="Compute Engine API, Subnetwork.name",
        ),
    ]
    """The subnet of the nodes, in the project of the VPC and the region of the cluster."""
    pods_range: _RangeName
    """The secondary range of the subnet for pods."""
    services_range: _RangeName
    """The secondary range of the subnet for Services."""


class GpuNetwork(SpecModel):
    """An existing VPC and subnet for a network interface of each node."""

    vpc: Annotated[
        str,
        Pattern(
            pattern=_COMPUTE_NAME,
            is_not="the name of a VPC network: at most 63 lowercase letters, digits and '-', "
            "starting with a letter, not ending with '-'",
            examples=("gpu-0",),
            source="Compute Engine API, Network.name",
        ),
    ]
    """A VPC in the project of the cluster."""
    subnet: Annotated[
        str,
        Pattern(
            pattern=_COMPUTE_NAME,
            is_not="the name of a subnet: at most 63 lowercase letters, digits and '-', starting "
            "with a letter, not ending with '-'",
            examples=("gpu-0",),
            source="Compute Engine API, Subnetwork.name",
        ),
    ]
    """A subnet in the region of the cluster."""


class AuthorizedNetwork(SpecModel):
    """Addresses that may use the control plane's IP address."""

    cidr: Annotated[str, Cidr()]
    name: (
        Annotated[str, FreeText("a name", "GKE API, CidrBlock.displayName", "office", "ci")] | None
    ) = None


class GkeControlPlane(SpecModel):
    """Access to the control plane. Missing keys keep GKE's defaults."""

    dns_endpoint: bool = False
    """Open the control plane's DNS name to all clients that IAM allows. The kubeconfig then has
    that name.
    """
    private_endpoint: bool = False
    """Give the control plane no public IP address."""
    authorized_networks: Annotated[
        tuple[AuthorizedNetwork, ...] | None,
        NotNull(
            why="GKE would keep its default, which is open to all addresses",
            instead="list networks, or write [] for none besides the nodes; leave it out for "
            "GKE's default",
            source="GKE API, MasterAuthorizedNetworksConfig",
        ),
    ] = None
    """Networks that may use the control plane's IP address, besides the cluster's nodes. `[]`: only
    the nodes.
    """


class GkeCluster(SpecModel):
    name: Annotated[str, DnsLabel(40, "GKE API, Cluster.name")]
    location: Annotated[
        str,
        Pattern(
            pattern=r"[a-z]+-[a-z]+[0-9]+(-[a-z])?",
            is_not="a Google Cloud location: a region or a zone",
            examples=("us-central1", "us-central1-c"),
            source="Compute Engine docs, regions and zones",
        ),
    ]
    """A region, or a zone for a zonal cluster."""
    version: (
        Annotated[
            str,
            Pattern(
                pattern=r"latest|[0-9]+\.[0-9]+(\.[0-9]+(-gke\.[0-9]+)?)?",
                is_not="a GKE version",
                examples=('"1.34"', "1.34.1-gke.1431000"),
                source="GKE API, minMasterVersion",
            ),
        ]
        | None
    ) = None
    release_channel: Literal["RAPID", "REGULAR", "STABLE", "EXTENDED"] = "REGULAR"
    network: GkeNetwork | None = None
    """An existing VPC and subnet. By default the stack creates a network."""
    gpu_networks: tuple[GpuNetwork, ...] = ()
    """Existing networks for pools with `gpu_network: tcpx` or `tcpxo`: one for each of their
    interfaces, in this order. By default the stack creates them.
    """
    private_nodes: bool | None = None
    """Nodes without external addresses. If the stack creates the network, it adds Cloud NAT."""
    control_plane: GkeControlPlane | None = None
    maintenance: GkeMaintenance | None = None
    """When GKE may upgrade the cluster by itself. By default at any time."""
    monitoring: GkeMonitoring | None = None
    """Metrics. By default GKE's choice: system, Kubernetes objects and GPUs, by Prometheus."""
    logging: GkeLogging | None = None
    """Logs. By default GKE's choice: system components and workloads."""
    kms_key: _KmsKey | None = None
    """Key that encrypts the boot disks of all nodes. By default Google's keys."""
    secrets_key: _KmsKey | None = None
    """Key that encrypts Kubernetes Secrets in the control plane's store, in addition to Google's
    keys.
    """
    resource_labels: CloudLabels = Field(default_factory=dict)
    """Labels of the cluster for billing. GKE adds them to its nodes and disks, too."""
    existing: bool = False
    """The cluster already exists: it is looked up by name and never deleted."""

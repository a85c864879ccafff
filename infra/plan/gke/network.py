"""The network of a GKE cluster: an existing one, or one that the stack makes."""

from __future__ import annotations

import ipaddress
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.clusters import GkeClusterPlan, GkeNetworkPlan

_PATH: stack_file.Path = ("cluster", "network")
_PRIVATE: Final = tuple(
    ipaddress.IPv4Network(block)
    for block in (
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "192.0.0.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
    )
)
"""Source: VPC docs, valid ranges: private IPv4 addresses."""


@rule("gke-network-ranges")
def plan_network(network: stack_file.GkeNetwork | None) -> Checked[GkeNetworkPlan | None]:
    """None: the stack has a network of its own."""
    if network is None:
        return None
    if network.pods_range == network.services_range:
        yield refuse(
            (*_PATH, "services_range"),
            f"{network.services_range} is also pods_range: pods and Services need separate ranges",
            "name another secondary range of the subnet",
            "GKE API, IPAllocationPolicy",
        )
    *path, vpc = network.vpc.split("/")
    return GkeNetworkPlan(
        project=path[1] if path else None,
        vpc=vpc,
        subnet=network.subnet,
        pods_range=network.pods_range,
        services_range=network.services_range,
    )


@rule("gke-authorized-network")
def check_control_plane(control_plane: stack_file.GkeControlPlane | None) -> Checked[None]:
    """The private endpoint takes private addresses only. GKE finds errors only while it creates."""
    if control_plane is None or not control_plane.private_endpoint:
        return
    for i, network in enumerate(control_plane.authorized_networks or ()):
        if not _is_private(network.cidr):
            yield refuse(
                ("cluster", "control_plane", "authorized_networks", i, "cidr"),
                f"{network.cidr} is not in a private range, and the control plane has only a "
                "private address",
                "leave it out, or write private_endpoint: false",
                "GoogleCloudPlatform/cluster-toolkit #3364",
            )


def _is_private(cidr: str) -> bool:
    network = ipaddress.ip_network(cidr)
    return isinstance(network, ipaddress.IPv4Network) and any(
        network.subnet_of(private) for private in _PRIVATE
    )


def network_notes(cluster: GkeClusterPlan) -> list[str]:
    """Notes on an existing network, and on the networks that reach the control plane."""
    notes = []
    if (network := cluster.network) is not None:
        of = f" of project {network.project}" if network.project else ""
        notes.append(
            f"cluster {cluster.name}: slicewright creates, changes and deletes nothing in VPC "
            f"{network.vpc}{of}: that its nodes reach registries and Google's APIs (Cloud NAT, "
            "Private Google Access), and what its firewall allows, is up to whoever manages it"
        )
    control_plane = cluster.control_plane
    if control_plane is not None and not control_plane.dns_endpoint:
        if control_plane.private_endpoint:
            notes.append(
                f"cluster {cluster.name}: its control plane has a private address only: run "
                "`pulumi up` in its VPC or a network connected with it, or write dns_endpoint: true"
            )
        elif control_plane.authorized_networks is not None:
            notes.append(
                f"cluster {cluster.name}: `pulumi up` reaches the control plane from its "
                "authorized_networks only"
            )
    return notes

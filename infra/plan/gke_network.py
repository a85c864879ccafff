"""The network of a GKE cluster: one that exists, or one of the stack's own."""

from __future__ import annotations

from infra import spec
from infra.plan.findings import Checked, refuse
from infra.plan.fleet import GkeNetworkPlan

_PATH: spec.Path = ("cluster", "network")


def plan_network(asked: spec.GkeNetwork | None) -> Checked[GkeNetworkPlan | None]:
    """None: the stack has a network of its own."""
    if asked is None:
        return None
    if asked.pods_range == asked.services_range:
        yield refuse(
            (*_PATH, "services_range"),
            f"{asked.services_range} is the range of the pods too",
            "name another secondary range of the subnet",
            "GKE API, IPAllocationPolicy",
        )
    *path, vpc = asked.vpc.split("/")
    return GkeNetworkPlan(
        project=path[1] if path else None,
        vpc=vpc,
        subnet=asked.subnet,
        pods_range=asked.pods_range,
        services_range=asked.services_range,
    )


def network_notes(cluster: str, network: GkeNetworkPlan | None) -> list[str]:
    """What becomes of a network that exists, in one sentence."""
    if network is None:
        return []
    of = f" of project {network.project}" if network.project else ""
    return [
        f"cluster {cluster}: slicewright creates, changes and deletes nothing in VPC "
        f"{network.vpc}{of}: that its nodes reach registries and Google's APIs (Cloud NAT, Private "
        "Google Access), and what its firewall allows, is up to whoever manages it"
    ]

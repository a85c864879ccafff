"""The subject of a stack's destruction: its cluster, its networks, the contents of its state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from slicewright.infra.plan import EksFleetPlan, FleetPlan, GkeFleetPlan
from slicewright.teardown.record import STACK, record_of

Cloud = Literal["eks", "gke", "byo"]
_NETWORKS: Final = frozenset({"aws:ec2/vpc:Vpc", "gcp:compute/network:Network"})
_CLUSTERS: Final = frozenset({"aws:eks/cluster:Cluster", "gcp:container/cluster:Cluster"})
_GROUPS: Final = frozenset({"aws:ec2/securityGroup:SecurityGroup"})

_NO_RESOURCE: Final = ("pulumi:pulumi:", "pulumi:providers:")


@dataclass(frozen=True, kw_only=True)
class Subject:
    cloud: Cloud
    cluster: str
    """The cluster's name. A byo stack has one, too, but its cluster is never deleted."""
    location: str
    """The region for EKS, the region or zone for GKE, empty for byo."""
    existing: bool
    """True if the stack did not create the cluster: then only its own resources are removed."""
    audited: bool = False
    """True if the stack file asks EKS for the cluster's audit log."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The facts about the stack in Pulumi's state."""

    counts: Mapping[str, int]
    """Type -> number of resources, without the stack itself, its providers, and read resources."""
    networks: frozenset[str]
    """IDs of the networks that the stack created."""
    protected: Sequence[str]
    """URNs that Pulumi refuses to delete."""
    guarded: Sequence[str]
    """URNs of clusters that their cloud refuses to delete: deletion protection is on."""
    pending: Sequence[str]
    """URNs of resources whose creation was cut off."""
    kubeconfig: str | None
    """The kubeconfig of the stack's Kubernetes provider. None: missing, or encrypted."""
    hidden_kubeconfig: bool
    """True if the provider's kubeconfig is encrypted, so that it cannot be read here."""
    groups: frozenset[str] = frozenset()
    """IDs of the security groups that the stack created."""
    has_cluster: bool = False
    """True if the stack created a cluster that is not deleted."""
    record: str = ""
    """The record that an earlier `slicewright destroy` wrote."""
    inside: frozenset[tuple[str, str]] = frozenset()
    """Kind, and NAMESPACE/NAME or name alone, of the objects that it created in the cluster."""

    @property
    def resources(self) -> int:
        return sum(self.counts.values())

    @property
    def namespaces(self) -> Sequence[str]:
        """Namespaces that are deleted with the stack, and everything in them."""
        return sorted(name for kind, name in self.inside if kind == "Namespace")


def subject_of(fleet: FleetPlan) -> Subject:
    match fleet:
        case EksFleetPlan():
            cluster = fleet.cluster
            return Subject(
                cloud="eks",
                cluster=cluster.name,
                location=cluster.region,
                existing=cluster.existing,
                audited="audit" in cluster.logs,
            )
        case GkeFleetPlan():
            return Subject(
                cloud="gke",
                cluster=fleet.cluster.name,
                location=fleet.cluster.location,
                existing=fleet.cluster.existing,
            )
        case _:
            name = fleet.cluster.name if fleet.cluster is not None else "hosts"
            return Subject(cloud="byo", cluster=name, location="", existing=True)


def state_of(exported: Mapping[str, Any]) -> State:
    """exported: the checked output of `pulumi stack export` (processes.pulumi_state)."""
    deployment = exported["deployment"]
    resources = [r for r in deployment.get("resources") or () if not r.get("external")]
    managed = [r for r in resources if r.get("custom") and not r["type"].startswith(_NO_RESOURCE)]
    kubeconfigs = [
        kubeconfig
        for r in resources
        if r["type"] == "pulumi:providers:kubernetes"
        and (kubeconfig := (r.get("inputs") or {}).get("kubeconfig")) is not None
    ]
    return State(
        counts=dict(Counter(r["type"] for r in managed)),
        networks=frozenset(str(r["id"]) for r in managed if r["type"] in _NETWORKS and r.get("id")),
        protected=tuple(r["urn"] for r in managed if r.get("protect")),
        guarded=tuple(
            r["urn"]
            for r in managed
            if r["type"] in _CLUSTERS and (r.get("outputs") or {}).get("deletionProtection") is True
        ),
        pending=tuple(
            o["resource"]["urn"]
            for o in deployment.get("pending_operations") or ()
            if o.get("type") == "creating"
        ),
        kubeconfig=next((k for k in kubeconfigs if isinstance(k, str)), None),
        inside=frozenset(
            (r["type"].rpartition(":")[2], str(r.get("id")))
            for r in managed
            if r["type"].startswith("kubernetes:")
        ),
        groups=frozenset(str(r["id"]) for r in managed if r["type"] in _GROUPS and r.get("id")),
        has_cluster=any(r["type"] in _CLUSTERS for r in managed),
        record=next((record_of(r) for r in resources if r["type"] == STACK), ""),
        hidden_kubeconfig=bool(kubeconfigs) and not any(isinstance(k, str) for k in kubeconfigs),
    )

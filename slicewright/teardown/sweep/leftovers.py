"""The leftovers of a deleted cluster in the clouds, and the marks and proofs that identify them.

Pure: the resources of an account go in, those of the cluster come out. A similar name proves
nothing, and a mark that names the cluster does not tell one life from another. Without proof, a
resource is deleted only if somebody saw it in the report and agreed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ORDER: Final = (
    # Running machines recreate the other kinds, and hold them.
    "instance",
    "launch template",
    "instance profile",
    "load balancer",
    # A target group is in use as long as a load balancer forwards to it.
    "target group",
    "forwarding rule",
    "address",
    "target pool",
    "target proxy",
    "certificate",
    "redirect map",
    # The name of an Ingress's frontend on GKE is explained only by its URL map.
    "URL map",
    "backend service",
    "health check",
    "network endpoint group",
    "network interface",
    "security group",
    # The firewall rule is last of its group: its network tag proves the others.
    "firewall rule",
    # A snapshot in Compute Engine is identified by its disk.
    "snapshot",
    "disk",
    "log group",
)
"""The order of deletion by kind: users before the resources they use."""
_FRONTENDS: Final = frozenset(
    {"forwarding rule", "address", "target proxy", "certificate", "redirect map"}
)
PROOFS: Final[Mapping[str, frozenset[str]]] = {
    "URL map": _FRONTENDS,
    "firewall rule": _FRONTENDS
    | frozenset({"target pool", "URL map", "backend service", "health check"}),
    "disk": frozenset({"snapshot"}),
}
"""Kind -> kinds that may be identified only by it.

It must not be deleted before them, nor while their identity is unknown.
"""
_BALANCER: Final = re.compile(r"a[0-9a-f]{31}")
"""Names that the service controllers of both clouds give: `a`, and the Service's UID."""

KARPENTER_POOL: Final = "karpenter.sh/nodepool"
"""The key of the tag on everything that Karpenter launches."""

CLUSTER_EXISTS: Final = "its cluster still exists"
"""The reason for keeping a deletable resource for now."""

Resource = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Leftover:
    kind: str
    """One of ORDER."""
    id: str
    """The form that the cloud's API takes: an ID, an ARN or a path."""
    proof: str
    """The proof that the cluster of this life created it. Empty: no proof."""
    mark: str = ""
    """A sign that names the cluster, such as a tag. Anybody may have set it, in any life.

    A leftover without mark and proof only blocks the deletion.
    """
    retained: bool = False
    """True if it must outlive the cluster."""
    created: str = ""
    """The creation time by the cloud's clock, in ISO 8601. Empty: the cloud does not tell it."""
    held: str = ""
    """The reason why it cannot be deleted yet. Empty: no known reason."""


def in_order(leftovers: Iterable[Leftover]) -> list[Leftover]:
    return sorted(leftovers, key=lambda leftover: (ORDER.index(leftover.kind), leftover.id))


def marked_by(tags: Sequence[Mapping[str, str]], cluster: str) -> str:
    """Returns the tag that marks a resource as the EKS cluster's own, or an empty string.

    Sources: kubernetes/cloud-provider-aws, pkg/providers/v1/tags.go (`owned`; `shared` means that
    others may use it, too); kubernetes-sigs/aws-load-balancer-controller, docs, "Resource tags";
    aws/amazon-vpc-cni-k8s, README, "ENI tags"; kubernetes-sigs/aws-ebs-csi-driver, docs/tagging.md.
    """
    value_of = {tag["Key"]: tag.get("Value", "") for tag in tags}
    for key, value in marks(cluster).items():
        if value_of.get(key) == value:
            return f"tag {key}={value}"
    return ""


def marks(cluster: str) -> Mapping[str, str]:
    """Tag -> its value on resources of an EKS cluster."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        "elbv2.k8s.aws/cluster": cluster,
        "cluster.k8s.amazonaws.com/name": cluster,
        "aws:eks:cluster-name": cluster,
    }


def made_by_karpenter(tags: Sequence[Mapping[str, str]], cluster: str) -> str:
    """Returns the tags that show that Karpenter created a resource for the EKS cluster, if any.

    The machines of node groups have the cluster's tag too, but their groups end them. Source:
    aws/karpenter-provider-aws, pkg/utils/utils.go, GetTags.
    """
    pool = {tag["Key"]: tag.get("Value", "") for tag in tags}.get(KARPENTER_POOL)
    mark = marked_by(tags, cluster)
    return f"{mark}, {KARPENTER_POOL}={pool}" if pool is not None and mark else ""


def karpenter_profiles(cluster: str, region: str) -> str:
    """The IAM path of Karpenter's instance profiles. It names the region, since IAM is global.

    Source: aws/karpenter-provider-aws, pkg/controllers/nodeclass/instanceprofile.go.
    """
    return f"/karpenter/{region}/{cluster}/"


def disk_leftovers(disks: Iterable[Resource], cluster: str, location: str) -> list[Leftover]:
    """Compute Engine's disks that GKE created for claims of the cluster."""
    required = {"goog-k8s-cluster-name": cluster, "goog-k8s-cluster-location": location}
    mine = [d for d in disks if required.items() <= (d.get("labels") or {}).items()]
    labels = " ".join(f"{key}={value}" for key, value in required.items())
    return [
        Leftover(
            kind="disk",
            id=path_of(disk),
            proof="",
            mark=f"labels {labels}",
            created=_created(disk),
            held=f"in use by {path_of({'selfLink': disk['users'][0]})}"
            if disk.get("users")
            else "",
        )
        for disk in mine
    ]


def snapshot_leftovers(
    snapshots: Iterable[Resource], disks: Iterable[Leftover], named: frozenset[str]
) -> list[Leftover]:
    """Compute Engine's snapshots of the cluster's disks. They carry no label of the cluster.

    disks: the cluster's remaining disks. named: IDs of the snapshots that the cluster's objects
    named. A person's backups are snapshots of these disks, too.
    """
    mine = {disk.id for disk in disks}
    leftovers = []
    for snapshot in snapshots:
        source = path_of({"selfLink": snapshot.get("sourceDisk", "")})
        mark = f"of the cluster's disk {source}" if source in mine else ""
        if path_of(snapshot) in named:
            mark = mark or "named by a VolumeSnapshot of the cluster"
        if mark:
            leftovers.append(_marked("snapshot", snapshot, mark, proven=False))
    return leftovers


@dataclass(frozen=True, kw_only=True)
class GoogleNetwork:
    """The networks and load balancers of a project, global or in a region."""

    firewalls: Sequence[Resource]
    forwarding_rules: Sequence[Resource]
    target_pools: Sequence[Resource]
    backend_services: Sequence[Resource]
    endpoint_groups: Sequence[Resource]
    addresses: Sequence[Resource]
    target_proxies: Sequence[Resource] = ()
    """HTTP and HTTPS proxies."""
    url_maps: Sequence[Resource] = ()
    health_checks: Sequence[Resource] = ()
    certificates: Sequence[Resource] = ()


def network_leftovers(
    project: GoogleNetwork,
    cluster: str,
    *,
    stack_networks: frozenset[str],
    name_taken: bool,
    is_of_this_life: Callable[[str], bool],
) -> list[Leftover]:
    """Finds the cluster's firewall rules, load balancers and endpoint groups.

    stack_networks: IDs of the networks that the stack created, projects/P/global/networks/N.
    name_taken: another cluster of this project has the same name, in another location. Then the
    nodes' network tag proves nothing in a network that both may use. is_of_this_life: takes a
    creation time, and returns True if it is after the cluster's.
    """
    tag = re.compile(rf"gke-{re.escape(cluster)}-[0-9a-f]{{8}}-node")
    leftovers: list[Leftover] = []
    balancers: dict[str, Leftover] = {}
    for rule in project.firewalls:
        network = _network_of(rule, stack_networks)
        target = next((t for t in rule.get("targetTags") or () if tag.fullmatch(t)), "")
        of_cluster = bool(target) and bool(network or not name_taken)
        if not (of_cluster or network):
            continue
        mark = f"for nodes with the network tag {target}" if of_cluster else ""
        proven = of_cluster and bool(network or is_of_this_life(_created(rule)))
        leftovers.append(_marked("firewall rule", rule, mark, proven=proven))
        name = str(rule["name"]).removeprefix("k8s-fw-")
        if of_cluster and name != rule["name"] and _BALANCER.fullmatch(name):
            balancers[name] = leftovers[-1]
    leftovers += _balancer_parts(project, balancers)
    return leftovers + _endpoint_groups(project, stack_networks)


def _network_of(resource: Resource, stack_networks: frozenset[str]) -> str:
    """Returns the stack's network that the resource is in, or an empty string."""
    url = str(resource.get("network", ""))
    return next((network for network in stack_networks if url.endswith(f"/{network}")), "")


def _balancer_parts(
    project: GoogleNetwork, firewall_rules: Mapping[str, Leftover]
) -> list[Leftover]:
    """Finds the parts of load balancers, which name no cluster but share their rule's name.

    firewall_rules: name of the load balancer -> its firewall rule.
    """
    leftovers = []
    for kind, resources in (
        ("forwarding rule", project.forwarding_rules),
        ("target pool", project.target_pools),
        ("backend service", project.backend_services),
        ("address", project.addresses),
    ):
        for resource in resources:
            name = resource["name"]
            if (rule := firewall_rules.get(name)) is not None:
                mark = f"named as firewall rule k8s-fw-{name}, which is {rule.mark}"
                leftovers.append(_marked(kind, resource, mark, proven=bool(rule.proof)))
    return leftovers


def _endpoint_groups(project: GoogleNetwork, stack_networks: frozenset[str]) -> list[Leftover]:
    """Endpoint groups name the UID of a cluster that is gone, so only the network proves them."""
    return [
        Leftover(
            kind="network endpoint group",
            id=path_of(group),
            proof=f"created by GKE, in {network}, which the stack created",
        )
        for group in project.endpoint_groups
        if (network := _network_of(group, stack_networks))
        and "cluster-uid" in str(group.get("description", ""))
    ]


def _marked(kind: str, resource: Resource, mark: str, *, proven: bool) -> Leftover:
    return Leftover(
        kind=kind,
        id=path_of(resource),
        mark=mark,
        proof=mark if proven else "",
        created=_created(resource),
    )


def _created(resource: Resource) -> str:
    return str(resource.get("creationTimestamp") or "")


def path_of(resource: Resource) -> str:
    """The path of a Compute Engine resource, projects/P/…, as its API takes it."""
    return f"projects/{str(resource['selfLink']).partition('/projects/')[2]}"

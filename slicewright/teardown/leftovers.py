"""What clouds leave of a deleted cluster, and by what mark it is known to be this cluster's.

Pure: what an account shows goes in, what belongs to the cluster comes out. A name that merely looks
like it proves nothing; what is not proven is never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ORDER: Final = (
    # What runs recreates the rest, and holds it.
    "instance",
    "launch template",
    "instance profile",
    "load balancer",
    # In use as long as a load balancer forwards to it.
    "target group",
    "forwarding rule",
    "address",
    "target pool",
    "target proxy",
    "certificate",
    "redirect map",
    # Of an Ingress on GKE: what is before it has a name that only its URL map explains.
    "URL map",
    "backend service",
    "health check",
    "network endpoint group",
    "network interface",
    "security group",
    # Last of what hangs together: its network tag is the proof of the rest.
    "firewall rule",
    # Of Compute Engine, a snapshot is known by its disk.
    "snapshot",
    "disk",
    "log group",
)
"""In which kinds are deleted: what uses another goes before it."""
_FRONTENDS: Final = frozenset(
    {"forwarding rule", "address", "target proxy", "certificate", "redirect map"}
)
PROOFS: Final[Mapping[str, frozenset[str]]] = {
    "URL map": _FRONTENDS,
    "firewall rule": _FRONTENDS
    | frozenset({"target pool", "URL map", "backend service", "health check"}),
    "disk": frozenset({"snapshot"}),
}
"""Kind -> kinds that may be known by it only: it must not go before them, nor while it is not known
whether they are.
"""
_BALANCER: Final = re.compile(r"a[0-9a-f]{31}")
"""Name of what the service controllers of both clouds make: `a`, and the Service's UID."""

KARPENTER_POOL: Final = "karpenter.sh/nodepool"
"""Key of the tag on all that Karpenter launches."""

Resource = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Leftover:
    kind: str
    """One of ORDER."""
    id: str
    """As the cloud's API takes it: an ID, an ARN or a path."""
    proof: str
    """By what it is known to be the cluster's; empty: it is not, and only blocks the deletion."""
    held: str = ""
    """Why it cannot be deleted yet; empty where nothing is known of that."""


def in_order(found: Iterable[Leftover]) -> list[Leftover]:
    return sorted(found, key=lambda one: (ORDER.index(one.kind), one.id))


def marked_by(tags: Sequence[Mapping[str, str]], cluster: str) -> str:
    """The tag that says that a resource is the EKS cluster's own; empty without one.

    Sources: kubernetes/cloud-provider-aws, pkg/providers/v1/tags.go (`owned`; `shared` is what
    others may use, too); kubernetes-sigs/aws-load-balancer-controller, docs, "Resource tags";
    aws/amazon-vpc-cni-k8s, README, "ENI tags"; kubernetes-sigs/aws-ebs-csi-driver, docs/tagging.md.
    """
    found = {tag["Key"]: tag.get("Value", "") for tag in tags}
    for key, value in marks(cluster).items():
        if found.get(key) == value:
            return f"tag {key}={value}"
    return ""


def marks(cluster: str) -> Mapping[str, str]:
    """Tag -> its value on what belongs to an EKS cluster."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        "elbv2.k8s.aws/cluster": cluster,
        "cluster.k8s.amazonaws.com/name": cluster,
        "aws:eks:cluster-name": cluster,
    }


def made_by_karpenter(tags: Sequence[Mapping[str, str]], cluster: str) -> str:
    """The tags that say that Karpenter made a resource for the EKS cluster; empty without them.

    The machines of node groups have the cluster's tag too: their groups end them. Source:
    aws/karpenter-provider-aws, pkg/utils/utils.go, GetTags.
    """
    pool = {tag["Key"]: tag.get("Value", "") for tag in tags}.get(KARPENTER_POOL)
    mark = marked_by(tags, cluster)
    return f"{mark}, {KARPENTER_POOL}={pool}" if pool is not None and mark else ""


def karpenter_profiles(cluster: str, region: str) -> str:
    """The path of the instance profiles that Karpenter makes, in IAM, which knows no regions.
    Source: aws/karpenter-provider-aws, pkg/controllers/nodeclass/instanceprofile.go.
    """
    return f"/karpenter/{region}/{cluster}/"


def of_interfaces(
    found: Iterable[Resource], cluster: str, groups: frozenset[str]
) -> list[Leftover]:
    """EC2's network interfaces. groups: the security groups that are the cluster's own.

    Older releases of the CNI do not tag what they make; then the group is the proof. Interfaces of
    load balancers go with them.
    """
    left = []
    for one in found:
        proof = marked_by(one.get("TagSet") or (), cluster)
        inside = sorted({g["GroupId"] for g in one.get("Groups") or ()} & groups)
        if not proof and inside:
            proof = f"in security group {inside[0]} of the cluster"
        status = one["Status"]
        left.append(
            Leftover(
                kind="network interface",
                id=one["NetworkInterfaceId"],
                proof=proof,
                held="" if status == "available" else f"{status}: {one.get('Description', '')}",
            )
        )
    return left


def of_disks(found: Iterable[Resource], cluster: str, location: str) -> list[Leftover]:
    """Compute Engine's disks that GKE made for claims of the cluster."""
    wanted = {"goog-k8s-cluster-name": cluster, "goog-k8s-cluster-location": location}
    mine = [d for d in found if wanted.items() <= (d.get("labels") or {}).items()]
    proof = " ".join(f"{key}={value}" for key, value in wanted.items())
    return [
        Leftover(
            kind="disk",
            id=path_of(one),
            proof=f"labels {proof}",
            held=f"in use by {path_of({'selfLink': one['users'][0]})}" if one.get("users") else "",
        )
        for one in mine
    ]


def of_snapshots(found: Iterable[Resource], disks: Iterable[Leftover]) -> list[Leftover]:
    """Compute Engine's snapshots of the cluster's disks, which have no label of it.

    disks: those of the cluster that are still there.
    """
    mine = {disk.id for disk in disks}
    return [
        Leftover(kind="snapshot", id=path_of(one), proof=f"of the cluster's disk {source}")
        for one in found
        if (source := path_of({"selfLink": one.get("sourceDisk", "")})) in mine
    ]


@dataclass(frozen=True, kw_only=True)
class GoogleNetwork:
    """What a project shows of networks and load balancers, global or of a region."""

    firewalls: Sequence[Resource]
    forwarding_rules: Sequence[Resource]
    target_pools: Sequence[Resource]
    backend_services: Sequence[Resource]
    endpoint_groups: Sequence[Resource]
    addresses: Sequence[Resource]
    target_proxies: Sequence[Resource] = ()
    """Of HTTP and HTTPS."""
    url_maps: Sequence[Resource] = ()
    health_checks: Sequence[Resource] = ()
    certificates: Sequence[Resource] = ()


def of_network(
    found: GoogleNetwork, cluster: str, *, own: frozenset[str], name_taken: bool
) -> list[Leftover]:
    """own: IDs of the networks that the stack made, projects/P/global/networks/N.

    name_taken: another cluster of this project has the same name, in another location, so that the
    network tag of the nodes says nothing in a network that both may use.

    A firewall rule of GKE names the cluster in its target tag. Load balancers name nothing, but
    have the name of their firewall rule. Endpoint groups name a cluster's UID, which is not known
    any more, so they are proven by the network only.
    """
    tag = re.compile(rf"gke-{re.escape(cluster)}-[0-9a-f]{{8}}-node")

    def lies_in(resource: Resource) -> str:
        return next((n for n in own if str(resource.get("network", "")).endswith(f"/{n}")), "")

    left: list[Leftover] = []
    balancers: dict[str, str] = {}
    for rule in found.firewalls:
        network = lies_in(rule)
        named = next((t for t in rule.get("targetTags") or () if tag.fullmatch(t)), "")
        mine = bool(named) and bool(network or not name_taken)
        if not (mine or network):
            continue
        proof = f"for nodes with the network tag {named}" if mine else ""
        left.append(Leftover(kind="firewall rule", id=path_of(rule), proof=proof))
        name = str(rule["name"]).removeprefix("k8s-fw-")
        if mine and name != rule["name"] and _BALANCER.fullmatch(name):
            balancers[name] = f"named as firewall rule {rule['name']}, which is {proof}"
    for kind, resources in (
        ("forwarding rule", found.forwarding_rules),
        ("target pool", found.target_pools),
        ("backend service", found.backend_services),
        ("address", found.addresses),
    ):
        for one in resources:
            if proof := balancers.get(one["name"], ""):
                left.append(Leftover(kind=kind, id=path_of(one), proof=proof))
    for one in found.endpoint_groups:
        if (network := lies_in(one)) and "cluster-uid" in str(one.get("description", "")):
            proof = f"made by GKE, in {network}, which the stack made"
            left.append(Leftover(kind="network endpoint group", id=path_of(one), proof=proof))
    return left


def path_of(resource: Resource) -> str:
    """Of Compute Engine: projects/P/…, as its API takes it."""
    return f"projects/{str(resource['selfLink']).partition('/projects/')[2]}"

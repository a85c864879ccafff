"""What clouds leave of a deleted cluster, and by what mark and proof it is known to be this one's.

Pure: what an account shows goes in, what belongs to the cluster comes out. A name that merely looks
like it proves nothing, and a mark that names the cluster does not tell one life from another: what
is not proven is deleted only if somebody was shown it, and agreed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
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

THERE: Final = "its cluster is there"
"""Why what may be deleted is not deleted yet."""

Resource = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Leftover:
    kind: str
    """One of ORDER."""
    id: str
    """As the cloud's API takes it: an ID, an ARN or a path."""
    proof: str
    """What proves that the cluster of this life made it; empty: nothing does."""
    mark: str = ""
    """What names the cluster, as a tag does; anybody may have set it, in any life. Without mark and
    proof it only blocks the deletion.
    """
    retained: bool = False
    """It is to outlive the cluster."""
    created: str = ""
    """By the cloud's clock, in ISO 8601; empty: the cloud does not tell."""
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


def of_disks(found: Iterable[Resource], cluster: str, location: str) -> list[Leftover]:
    """Compute Engine's disks that GKE made for claims of the cluster."""
    wanted = {"goog-k8s-cluster-name": cluster, "goog-k8s-cluster-location": location}
    mine = [d for d in found if wanted.items() <= (d.get("labels") or {}).items()]
    labels = " ".join(f"{key}={value}" for key, value in wanted.items())
    return [
        Leftover(
            kind="disk",
            id=path_of(one),
            proof="",
            mark=f"labels {labels}",
            created=_created(one),
            held=f"in use by {path_of({'selfLink': one['users'][0]})}" if one.get("users") else "",
        )
        for one in mine
    ]


def of_snapshots(
    found: Iterable[Resource], disks: Iterable[Leftover], named: frozenset[str]
) -> list[Leftover]:
    """Compute Engine's snapshots of the cluster's disks, which have no label of it.

    disks: those of the cluster that are still there. named: IDs of the snapshots that the cluster's
    objects named. Somebody's backups are snapshots of these disks, too.
    """
    mine = {disk.id for disk in disks}
    left = []
    for one in found:
        source = path_of({"selfLink": one.get("sourceDisk", "")})
        mark = f"of the cluster's disk {source}" if source in mine else ""
        if path_of(one) in named:
            mark = mark or "named by a VolumeSnapshot of the cluster"
        if mark:
            left.append(_marked("snapshot", one, mark, proven=False))
    return left


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
    found: GoogleNetwork,
    cluster: str,
    *,
    own: frozenset[str],
    name_taken: bool,
    is_of_this_life: Callable[[str], bool],
) -> list[Leftover]:
    """own: IDs of the networks that the stack made, projects/P/global/networks/N.

    is_of_this_life: whether something that was created then is younger than the cluster.

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
    balancers: dict[str, tuple[str, bool]] = {}
    for rule in found.firewalls:
        network = lies_in(rule)
        named = next((t for t in rule.get("targetTags") or () if tag.fullmatch(t)), "")
        mine = bool(named) and bool(network or not name_taken)
        if not (mine or network):
            continue
        mark = f"for nodes with the network tag {named}" if mine else ""
        proven = mine and bool(network or is_of_this_life(_created(rule)))
        left.append(_marked("firewall rule", rule, mark, proven=proven))
        name = str(rule["name"]).removeprefix("k8s-fw-")
        if mine and name != rule["name"] and _BALANCER.fullmatch(name):
            balancers[name] = (f"named as firewall rule {rule['name']}, which is {mark}", proven)
    for kind, resources in (
        ("forwarding rule", found.forwarding_rules),
        ("target pool", found.target_pools),
        ("backend service", found.backend_services),
        ("address", found.addresses),
    ):
        for one in resources:
            if (known := balancers.get(one["name"])) is not None:
                left.append(_marked(kind, one, known[0], proven=known[1]))
    for one in found.endpoint_groups:
        if (network := lies_in(one)) and "cluster-uid" in str(one.get("description", "")):
            proof = f"made by GKE, in {network}, which the stack made"
            left.append(Leftover(kind="network endpoint group", id=path_of(one), proof=proof))
    return left


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
    """Of Compute Engine: projects/P/…, as its API takes it."""
    return f"projects/{str(resource['selfLink']).partition('/projects/')[2]}"

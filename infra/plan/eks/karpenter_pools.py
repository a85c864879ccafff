"""GPU pools whose nodes Karpenter makes: the settings that NodePool and EC2NodeClass allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.plan.eks.karpenter import NO_WHOLE_GPU
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.nodes import WHOLE_GPU, Taint
from slicewright.infra.plan.model.pools import KarpenterPool, PoolPlan
from slicewright.infra.plan.partition.bottlerocket import with_bottlerocket

_NODE_CLASS: Final = "aws/karpenter-provider-aws, pkg/apis/v1/ec2nodeclass.go"
_NODE_POOL: Final = "kubernetes-sigs/karpenter, pkg/apis/v1/nodepool.go"
_RESTRICTED_TAGS: Final = (
    *("eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim"),
    "karpenter.k8s.aws/ec2nodeclass",
)
_RESTRICTED_DOMAINS: Final = ("karpenter.sh", "karpenter.k8s.aws")
_LARGEST_DISK: Final = 59_000
_NODE_GROUP: Final = "nodes: {count: …}, which is a node group"


def check_karpenter_pool(
    pool: stack_file.EksPool, path: stack_file.Path, settings: stack_file.Karpenter
) -> Checked[None]:
    """Refuses settings that Karpenter does not support. path: of the pool."""
    yield from _check_count(pool, path)
    yield from _check_capacity(pool, path, settings)
    yield from _check_image(pool, path)
    yield from _check_machine(pool, path)
    yield from _check_node_group_keys(pool, path)
    yield from _check_names(pool, path)


@rule("karpenter-image")
def _check_image(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[None]:
    if with_bottlerocket(pool):
        yield refuse(
            (*path, "ami_type"),
            "slicewright makes no EC2NodeClass for Bottlerocket",
            f"write an AL2023 type, or {_NODE_GROUP}",
            _NODE_CLASS,
        )
    if pool.release_version is None:
        yield refuse(
            (*path, "release_version"),
            "is required: Karpenter replaces nodes whose image is not the pool's, so without a "
            "release it would replace them whenever EKS publishes a newer one",
            "write one, like 1.35.0-20260714 (`aws ssm get-parameters-by-path` lists them)",
            "karpenter.sh docs, NodeClasses, spec.amiSelectorTerms",
        )


@rule("karpenter-machine")
def _check_machine(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[None]:
    if pool.efa:
        yield refuse(
            (*path, "efa"),
            "Karpenter attaches EFAs only for pending pods that request "
            "vpc.amazonaws.com/efa, and slicewright configures no others",
            f"leave it out, or write {_NODE_GROUP}",
            "karpenter.sh docs, NodeClasses",
        )
    if pool.placement is not None:
        yield refuse(
            (*path, "placement"),
            "slicewright makes no placement group for Karpenter's nodes",
            f"leave it out, or write {_NODE_GROUP}",
            _NODE_CLASS,
        )
    if pool.disk.size_gb > _LARGEST_DISK:
        yield refuse(
            (*path, "disk", "size_gb"),
            f"Karpenter takes disks of at most {_LARGEST_DISK} GB",
            f"write {_LARGEST_DISK} or less, or {_NODE_GROUP}",
            _NODE_CLASS,
        )


@rule("karpenter-node-group-key")
def _check_node_group_keys(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[None]:
    """Refuses settings that only managed node groups have."""
    if pool.repair is not None:
        yield refuse(
            (*path, "repair"),
            "EKS repairs the nodes of node groups, and Karpenter's own node repair is alpha",
            f"leave it out, or write {_NODE_GROUP}",
            "karpenter.sh docs, feature gates",
        )
    if pool.tags:
        yield refuse(
            (*path, "tags"),
            "apply to node groups only, and Karpenter makes this pool's nodes",
            "write instance_tags",
            "karpenter.sh docs, NodeClasses, spec.tags",
        )
    if "strategy" in pool.update.model_fields_set and pool.update.strategy == "minimal":
        yield refuse(
            (*path, "update", "strategy"),
            "Karpenter starts a new node before it ends an old one",
            f"write default, or leave it out, or write {_NODE_GROUP}",
            "karpenter.sh docs, disruption, drift",
        )


@rule("karpenter-node-count")
def _check_count(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[None]:
    if isinstance(pool.nodes, stack_file.Autoscaled) and pool.nodes.min > 0:
        yield refuse(
            (*path, "nodes", "min"),
            "Karpenter has no minimum number of nodes: it creates them for pending pods; its fixed "
            "number (NodePool.spec.replicas) is alpha",
            f"write 0, or {_NODE_GROUP}",
            _NODE_POOL,
        )


@rule("karpenter-capacity")
def _check_capacity(
    pool: stack_file.EksPool, path: stack_file.Path, settings: stack_file.Karpenter
) -> Checked[None]:
    at = (*path, "capacity")
    match pool.capacity:
        case stack_file.Spot() if settings.interruption_queue is None:
            yield refuse(
                at,
                "needs an interruption queue: without it Karpenter does not learn that AWS takes "
                "spot instances back, and pods end without notice",
                "write cluster.autoscaler: {mode: karpenter, interruption_queue: …}, or "
                f"on-demand, or {_NODE_GROUP}",
                "karpenter.sh docs, disruption, interruption",
            )
        case stack_file.Reservation(reservation=None):
            yield refuse(
                (*at, "reservation"),
                "is required: Karpenter uses only reservations that it is given, never an open one",
                "write the reservation's ID, cr-…",
                "karpenter.sh docs, NodeClasses, spec.capacityReservationSelectorTerms",
            )
        case stack_file.Reservation(reservation=str(name)) if not name.startswith("cr-"):
            yield refuse(
                (*at, "reservation"),
                "Karpenter selects reservations by ID, and no groups of them",
                f"write the reservation's ID, cr-…, or {_NODE_GROUP}",
                "karpenter.sh docs, NodeClasses, spec.capacityReservationSelectorTerms",
            )
        case _:
            pass


@rule("karpenter-label")
def _check_names(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[None]:
    for key in pool.instance_tags:
        if key in _RESTRICTED_TAGS or key.startswith("kubernetes.io/cluster"):
            yield refuse(
                (*path, "instance_tags", key),
                "Karpenter sets it itself, and refuses another",
                "leave it out",
                _NODE_CLASS,
                in_key=True,
            )
    for key in pool.labels:
        domain = key.rpartition("/")[0]
        if any(
            domain == restricted or domain.endswith(f".{restricted}")
            for restricted in _RESTRICTED_DOMAINS
        ):
            yield refuse(
                (*path, "labels", key),
                f"Karpenter refuses labels of {' and '.join(_RESTRICTED_DOMAINS)} other than its "
                "own",
                "choose another key",
                "kubernetes-sigs/karpenter, pkg/apis/v1/labels.go",
                in_key=True,
            )


@rule("karpenter-gpu-count")
def karpenter_pool(
    pool: stack_file.EksPool,
    path: stack_file.Path,
    common: PoolPlan,
    update: stack_file.EksUpdate,
    settings: stack_file.Karpenter,
) -> Checked[KarpenterPool | None]:
    """None if Karpenter would count other GPUs than the nodes offer. path: of the pool. update:
    with a number or a percentage.
    """
    whole = common.offer.resources.get(WHOLE_GPU, 0)
    if whole not in (0, common.gpu_count):
        key = "sharing" if common.offer.sharing or not common.offer.partitioned else "partition"
        yield refuse(
            (*path, key),
            f"a node offers {whole} {WHOLE_GPU}, and Karpenter counts {common.gpu_count}, the "
            "machine's own number, which nothing changes: it would make too many nodes or too few",
            "write sharing.rename_by_default: true, or partition all GPUs of a node, or "
            f"write {_NODE_GROUP}",
            "kubernetes-sigs/karpenter, pkg/apis/v1alpha1/nodeoverlay_validation.go",
        )
        return None
    release = (pool.release_version or "").rpartition("-")[2]
    return KarpenterPool(
        image=f"al2023@v{release}",
        overlay=_overlay(common.offer.resources),
        replaced_together=str(update.max_unavailable),
        drain_minutes=settings.drain_minutes,
    )


def _overlay(resources: Mapping[str, int]) -> Mapping[str, int]:
    return {name: n for name, n in sorted(resources.items()) if name != WHOLE_GPU and n}


def karpenter_taints(common: PoolPlan) -> tuple[Taint, ...]:
    """The pool's taints, with `NO_WHOLE_GPU` if its nodes offer no whole GPU."""
    if common.offer.resources.get(WHOLE_GPU, 0):
        return common.taints
    no_whole_gpu = Taint(key=NO_WHOLE_GPU, value="true", effect="NoSchedule")
    *taints, startup = common.taints
    return (*taints, no_whole_gpu, startup)

"""Whether a stack can be rehearsed, before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slicewright.infra import catalog, plan, stack_file
from slicewright.infra.plan import EksFleetPlan, ExistingFleetPlan, FleetPlan
from slicewright.rehearsal.cluster.silicon.models import models
from slicewright.rehearsal.host.toolchain import tools
from slicewright.rehearsal.scenario.environment import PROJECT
from slicewright.rehearsal.scenario.errors import NoSuchStack
from slicewright.rehearsal.scenario.existing_cluster.nodes import fake_key
from slicewright.rehearsal.scenario.existing_cluster.operator_to_adopt import CLUSTER_POLICY
from slicewright.rehearsal.scenario.existing_cluster.prometheus import service_of

_CANNOT = "can be brought up in a cloud, but not rehearsed yet:"
_OPERATOR = "rehearsal/cluster/gpu_operator"
_EXISTING = "rehearsal/scenario/existing_cluster"
_GKE = "rehearsal/clouds/gcp/gke"
_KUBELET = "rehearsal/cluster/kubelet"
_SILICON = "rehearsal/cluster/silicon"


def check_stack(stack: str) -> FleetPlan:
    """What the stack builds.

    Raises NoSuchStack unless there is a stack file stacks/Pulumi.`stack`.yaml.
    Raises SpecError where it has problems, or asks for what cannot be built or rehearsed yet.
    """
    stacks = PROJECT / "stacks"
    known = sorted(
        p.name.removeprefix("Pulumi.").removesuffix(".yaml") for p in stacks.glob("Pulumi.*.yaml")
    )
    if stack not in known:
        raise NoSuchStack(
            f"no stack {stack!r}: there is no stacks/Pulumi.{stack}.yaml in {PROJECT}; there are "
            f"{', '.join(known)}"
        )
    name = f"Pulumi.{stack}.yaml"
    source = plan.source_of(stacks / name, name=f"stacks/{name}")
    fleet = plan.deployable(plan.read_source(source), source)
    if problems := unrehearsable(fleet):
        raise stack_file.SpecError(source, problems)
    return fleet


def unrehearsable(fleet: FleetPlan) -> list[stack_file.Problem]:
    """What the simulated clouds and their clusters lack."""
    if isinstance(fleet, ExistingFleetPlan):
        return [*_existing(fleet), *_mps(fleet), *_of_workloads(fleet)]
    problems: list[stack_file.Problem] = [*_of_workloads(fleet)]
    if isinstance(fleet, EksFleetPlan):
        problems += _mps(fleet)
    return problems


def _of_workloads(fleet: FleetPlan) -> Iterator[stack_file.Problem]:
    yield from _new_volumes(fleet)
    yield from _monitoring(fleet)
    yield from _autoscalers(fleet)


def _monitoring(fleet: FleetPlan) -> Iterator[stack_file.Problem]:
    if fleet.monitoring is None:
        return
    match fleet.monitoring.settings:
        case stack_file.ManagedPrometheus() if fleet.pod_autoscaling is not None:
            yield stack_file.Problem(
                path=("monitoring", "prometheus"),
                reason=f"{_CANNOT} the simulated GKE collects nothing, and replicas follow what is "
                "collected",
                instead="for a rehearsal write stack: `up` then installs a Prometheus",
                source=_GKE,
            )
        case stack_file.ExistingPrometheus() if not isinstance(fleet, ExistingFleetPlan):
            yield stack_file.Problem(
                path=("monitoring", "prometheus"),
                reason=f"{_CANNOT} clusters of a simulated cloud have no Prometheus of their own",
                instead="for a rehearsal write stack, or cloud: byo, whose cluster has one",
                source=_EXISTING,
            )
        case stack_file.ExistingPrometheus(url=url) if service_of(url) is None:
            yield stack_file.Problem(
                path=("monitoring", "url"),
                reason=f"{_CANNOT} the Prometheus of the cluster that a rehearsal makes has a "
                "Service with the chart's names",
                instead="for a rehearsal write http://NAME-prometheus.NAMESPACE.svc:9090, NAME "
                "with at most 26 characters",
                source=_EXISTING,
            )
        case (
            stack_file.ManagedPrometheus()
            | stack_file.ExistingPrometheus()
            | stack_file.PrometheusStack()
        ):
            pass


def _new_volumes(fleet: FleetPlan) -> Iterator[stack_file.Problem]:
    for i, one in enumerate(fleet.deployments):
        cache = None if isinstance(one.workload, stack_file.TritonWorkload) else one.workload.cache
        if not isinstance(cache, stack_file.NewVolume):
            continue
        if cache.storage_class is None:
            yield stack_file.Problem(
                path=("workloads", i, "cache"),
                reason=f"{_CANNOT} its clusters have no default class of volumes, so the pods "
                "would wait",
                instead="write storage_class: a rehearsal makes a class of that name",
                source=_KUBELET,
            )
        if cache.access_mode != "ReadWriteMany":
            yield stack_file.Problem(
                path=("workloads", i, "cache", "access_mode"),
                reason=f"{_CANNOT} nothing there makes volumes that one node alone may have",
                instead="for a rehearsal write ReadWriteMany",
                source=_KUBELET,
            )


def _autoscalers(fleet: FleetPlan) -> Iterator[stack_file.Problem]:
    match fleet.pod_autoscaling:
        case plan.AdapterPlan(existing=True):
            yield stack_file.Problem(
                path=("pod_autoscaling", "existing"),
                reason=f"{_CANNOT} its cluster is new and has no adapter",
                instead="for a rehearsal leave it out, with cloud: byo: an adapter with the same "
                "rules is then made",
                source=_EXISTING,
            )
        case plan.AdapterPlan() if not isinstance(fleet, ExistingFleetPlan):
            yield stack_file.Problem(
                path=("pod_autoscaling", "by"),
                reason=f"{_CANNOT} its cluster is new and has no cert-manager, which "
                "prometheus-adapter needs",
                instead="for a rehearsal write keda, or cloud: byo, whose cluster has it",
                source=_EXISTING,
            )
        case plan.KedaPlan(existing=True):
            yield stack_file.Problem(
                path=("pod_autoscaling", "existing"),
                reason=f"{_CANNOT} its cluster is new and has no KEDA",
                instead="for a rehearsal leave it out: KEDA is then installed",
                source=_EXISTING,
            )
        case plan.KedaPlan() | plan.AdapterPlan() | None:
            pass


def _mps(fleet: EksFleetPlan | ExistingFleetPlan) -> Iterator[stack_file.Problem]:
    """Whatever plugin the stack file names: the rehearsal has its own."""
    if plan.alike_by_mps(fleet.operated):
        return
    pools: Sequence[plan.PoolPlan] = fleet.pools
    for i, pool in enumerate(pools):
        if any(s.strategy == "mps" for s in pool.offer.sharing):
            yield stack_file.Problem(
                path=("node_pools", i, "sharing"),
                reason=f"{_CANNOT} its NVIDIA device plugin is v{tools.DEVICE_PLUGIN}, whose MPS "
                "control daemon gets one config for all nodes (k8s-device-plugin #1645 and #1827), "
                "so that beside pools that do not share alike these nodes would offer no GPU",
                instead="for a rehearsal give all pools of the operator the same sharing, write "
                "mode: time-slicing, or use GKE",
                source=_OPERATOR,
            )


def _existing(fleet: ExistingFleetPlan) -> Iterator[stack_file.Problem]:
    """What the cluster that a rehearsal makes beside the stack lacks."""
    if fleet.hosts:
        yield stack_file.Problem(
            path=("hosts",),
            reason=f"{_CANNOT} a rehearsal has no hosts without Kubernetes",
            instead="for a rehearsal leave them out; `make gpu-check` compares a host with the "
            "simulated GPUs",
            source=_EXISTING,
        )
    if fleet.cluster is not None and fleet.cluster.kubeconfig is not None:
        yield stack_file.Problem(
            path=("cluster", "kubeconfig"),
            reason=f"{_CANNOT} a rehearsal makes its own cluster, writes a kubeconfig for it, and "
            "touches no other",
            instead="for a rehearsal leave it out: KUBECONFIG then names the rehearsal's own",
            source=_EXISTING,
        )
    if fleet.operator.existing and fleet.operator.cluster_policy != CLUSTER_POLICY:
        yield stack_file.Problem(
            path=("gpu_operator", "cluster_policy"),
            reason=f"{_CANNOT} the operator of the cluster that a rehearsal makes has NVIDIA's "
            f"chart's ClusterPolicy, {CLUSTER_POLICY}",
            instead="for a rehearsal leave it out",
            source=_EXISTING,
        )
    has_driver, has_toolkit = fleet.operator.driver.enabled, fleet.operator.toolkit.enabled
    if has_toolkit != has_driver:
        yield stack_file.Problem(
            path=("gpu_operator", "toolkit", "enabled"),
            reason=f"{_CANNOT} the nodes of the cluster that a rehearsal makes have driver and "
            "container toolkit, or, where the operator brings the driver, neither",
            instead=f"for a rehearsal write {'true' if has_driver else 'false'}, as of the driver",
            source=_EXISTING,
        )
    simulated = [g for g in catalog.load().gpus.values() if fake_key(g) in models()]
    for i, pool in enumerate(fleet.pools):
        if pool.gpu not in simulated:
            yield stack_file.Problem(
                path=("node_pools", i, "gpu", "model"),
                reason=f"{_CANNOT} the simulated GPUs have no {pool.gpu.name}",
                instead=f"for a rehearsal write one of {', '.join(g.name for g in simulated)}",
                source=_SILICON,
            )

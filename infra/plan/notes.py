"""Notes to read before `pulumi up`. None of them is a reason to refuse the stack file."""

from __future__ import annotations

from datetime import date
from typing import Final

from slicewright.apis.gpu_pool.rollout_policy import ALWAYS_APPLIED
from slicewright.infra import catalog
from slicewright.infra.catalog import driver_order
from slicewright.infra.plan.eks import notes as eks_notes
from slicewright.infra.plan.eks.autoscaler import autoscaler_notes
from slicewright.infra.plan.eks.subnets.addresses import address_notes
from slicewright.infra.plan.eks.updates import OBEYED_BY_EKS
from slicewright.infra.plan.gke import notes as gke_notes
from slicewright.infra.plan.gpu_operator.drivers import driver_of
from slicewright.infra.plan.images.notes import image_notes
from slicewright.infra.plan.machines.kubernetes_versions import support_notes
from slicewright.infra.plan.model.fleets import (
    EksFleetPlan,
    ExistingFleetPlan,
    FleetPlan,
    GkeFleetPlan,
)
from slicewright.infra.plan.model.pools import (
    CloudPoolPlan,
    CloudSettings,
    EksSettings,
    GkeSettings,
    PoolPlan,
)
from slicewright.infra.plan.monitoring.notes import monitoring_notes
from slicewright.infra.plan.partition.sharing import alike_by_mps
from slicewright.infra.plan.workloads.notes import workload_notes
from slicewright.infra.plan.workloads.pod_autoscaling import pod_autoscaling_notes

NO_STARTUP_TAINT: Final = (
    "startup_taint is none: until a new node is partitioned and verified, pods may come to it, get "
    "a whole GPU in place of a partition, and keep it from being partitioned; write startup_taint: "
    "admission-policy (Kubernetes 1.36 and later) or registered"
)
"""The note for an existing cluster whose new nodes get no startup taint."""
_FIRST_PROOF_MINUTES = 60
"""The time from the order of a node whose MIG mode needs a reboot to its first verification. The
node joins in 5 to 10 minutes, the operator's operands take 5, mig-manager waits up to 5 for clients
of the GPUs, the reboot takes 10 to 15, and the operands start again. Estimated, not measured.
"""
"""Minutes that a machine with eight GPUs takes until its GPUs are partitioned."""


def notes(fleet: FleetPlan, *, today: date | None = None) -> tuple[str, ...]:
    """Notes of one sentence each. A pool's note starts with the pool's name.

    today: None leaves out the notes that depend on the day, about ends of support.
    """
    texts = support_notes(fleet, today) if today else []
    if isinstance(fleet, EksFleetPlan):
        texts += eks_notes.cluster_notes(fleet.cluster)
        texts += eks_notes.quota_notes(fleet)
        texts += address_notes(fleet)
        texts += autoscaler_notes(fleet)
    if isinstance(fleet, GkeFleetPlan):
        texts += gke_notes.cluster_notes(fleet)
    if isinstance(fleet, ExistingFleetPlan) and fleet.pools and fleet.startup_taint == "none":
        texts.append(NO_STARTUP_TAINT)
    texts += image_notes(fleet)
    texts += _unknown_chart(fleet)
    texts += _mps_by_default(fleet)
    texts += _adopted(fleet)
    for pool in fleet.pools:
        if isinstance(pool.settings, CloudSettings):
            texts += _unlisted_zones(pool)
        if isinstance(pool.settings, EksSettings) and isinstance(fleet, EksFleetPlan):
            texts += eks_notes.pool_notes(pool, fleet.cluster)
        if isinstance(pool.settings, CloudSettings):
            texts += _machine(pool)
        if isinstance(pool.settings, GkeSettings):
            texts += gke_notes.pool_notes(pool)
        texts += _mps_by_label(pool, fleet)
        texts += _mode_change(pool, fleet)
        texts += _services_of_the_host(pool, fleet)
        texts += _driver_too_old(pool, fleet)
        texts += _partitioned_by_index(pool)
        texts += _idle_rollout(pool)
        texts += _shared_memory(pool)
        texts += _unlisted_gpu(pool)
    texts += _pods_without_a_place(fleet)
    texts += workload_notes(fleet.deployments, fleet.pools)
    texts += monitoring_notes(fleet)
    texts += pod_autoscaling_notes(fleet.deployments, fleet.monitoring)
    return tuple(texts)


def _pods_without_a_place(fleet: FleetPlan) -> list[str]:
    """A note on pods that the stack does not create. Those of its servers have notes of theirs."""
    if fleet.placement is None:
        return []
    requested = {request.name: request.replicas for request in fleet.workloads}
    return [
        f"workload {name}: the shared GPUs have room for {fleet.placement.pods.get(name, 0)} of "
        f"its {count} pods beside the other workloads"
        for name, count in requested.items()
        if fleet.placement.pods.get(name, 0) < count
    ]


def _unknown_chart(fleet: FleetPlan) -> list[str]:
    operator = fleet.operator
    if (
        operator is None
        or operator.existing
        or operator.chart_path is not None
        or operator.chart_version in catalog.load().charts
    ):
        return []
    return [
        f"gpu_operator: the catalog does not know chart {operator.chart_version}, so "
        "which driver and device plugin it installs is not checked"
    ]


def _unlisted_zones(pool: CloudPoolPlan) -> list[str]:
    listed = pool.settings.machine.zones
    missing = [zone for zone in pool.settings.zones if listed is not None and zone not in listed]
    if not missing:
        return []
    return [
        f"pool {pool.name}: the catalog does not list {pool.settings.machine.name} in "
        f"{', '.join(missing)}; the list may be out of date"
    ]


def _machine(pool: CloudPoolPlan) -> list[str]:
    notes = []
    if pool.settings.machine.note:
        notes.append(
            f"pool {pool.name}: {pool.settings.machine.name}: {pool.settings.machine.note}"
        )
    if pool.settings.machine.architecture == "arm64":
        notes.append(
            f"pool {pool.name}: {pool.settings.machine.name} has arm64 processors: images "
            "of your own pods must be built for them; slicewright has been tried on amd64 only"
        )
    if pool.settings.spot and pool.nodes.max == 1:
        notes.append(
            f"pool {pool.name}: one preemption removes all {pool.offer.advertised} devices that it "
            "offers"
        )
    return notes


def _mps_by_default(fleet: FleetPlan) -> list[str]:
    """A note if MPS is the operator's default: nodes without a pool's label get it too."""
    is_new = not isinstance(fleet, ExistingFleetPlan) and not fleet.cluster.existing
    if is_new or not alike_by_mps(fleet.operated):
        return []
    return [
        "gpu_operator: GPU nodes that are in no pool of this stack share their GPUs by MPS too, as "
        "its pools do: NVIDIA's MPS daemon gets one config for all nodes"
    ]


def _mps_by_label(pool: PoolPlan, fleet: FleetPlan) -> list[str]:
    """Source: NVIDIA/k8s-device-plugin #1645, #1827. Versions that are known for it are refused
    (plan/device_plugin.py).
    """
    if isinstance(pool.settings, GkeSettings) or all(
        s.strategy != "mps" for s in pool.offer.sharing
    ):
        return []
    if alike_by_mps(fleet.operated):
        return []
    return [
        f"pool {pool.name}: not known whether its nodes offer GPUs under this operator: up to "
        "v26.7.1 NVIDIA's MPS daemon does not get the config that the nodes' label chooses, and "
        "such nodes offer none"
    ]


def _mode_change(pool: PoolPlan, fleet: FleetPlan) -> list[str]:
    if not pool.gpu.mode_change_resets or not pool.offer.partitioned:
        return []
    at = f"pool {pool.name}:"
    notes = [
        f"{at} switching MIG on or off resets {pool.gpu.name}: in a cloud the node "
        "reboots, which takes 10 to 15 minutes; a new node is verified 25 to "
        f"{_FIRST_PROOF_MINUTES} minutes after it was ordered"
    ]
    operator = fleet.operator
    if operator is not None and pool.offer.mig_config and not operator.mig_manager.with_reboot:
        notes.append(
            f"{at} most clouds refuse that reset, and gpu_operator.mig_manager.with_reboot is false"
        )
    if fleet.verify_timeout_minutes < _FIRST_PROOF_MINUTES:
        notes.append(
            f"{at} verify_timeout_minutes is {fleet.verify_timeout_minutes}, so that `pulumi up` "
            "may give up before the first verification: joining, operator, the reboot and the "
            f"operands again take 25 to {_FIRST_PROOF_MINUTES} minutes; write "
            f"{_FIRST_PROOF_MINUTES} or more"
        )
    return notes


def _services_of_the_host(pool: PoolPlan, fleet: FleetPlan) -> list[str]:
    """Source: NVIDIA/gpu-operator #118, whose effect on EKS's images has not been published."""
    operator = fleet.operator
    if (
        not isinstance(pool.settings, EksSettings)
        or pool.settings.bottlerocket
        or pool.offer.mig_config is None
        or not pool.offer.partitioned
        or operator is None
        or operator.mig_manager.host_services
    ):
        return []
    return [
        f"pool {pool.name}: EKS's images run nvidia-persistenced.service, which mig-manager does "
        'not stop by default; should a layout end as failed ("In use by another client"), list it '
        "under gpu_operator.mig_manager.host_services"
    ]


def _adopted(fleet: FleetPlan) -> list[str]:
    operator = fleet.operator
    if operator is None or not operator.existing:
        return []
    return [
        f"gpu_operator: ClusterPolicy {operator.cluster_policy} names this stack's ConfigMaps, and "
        "must be set back when the stack is destroyed, or the operator's pods do not start again; "
        "`slicewright destroy` says how"
    ]


def _driver_too_old(pool: PoolPlan, fleet: FleetPlan) -> list[str]:
    version, least = driver_of(pool, fleet).version, pool.gpu.minimum_driver
    if pool.gpu.family is not None or not version or least is None:
        return []
    if driver_order(version) >= driver_order(least):
        return []
    return [
        f"pool {pool.name}: driver {version} may be too old: the oldest known to support "
        f"{pool.gpu.name} is {least}"
    ]


def _partitioned_by_index(pool: PoolPlan) -> list[str]:
    if pool.offer.layout is not None:
        return []
    return [
        f"pool {pool.name}: GPUs are partitioned by index, and a driver may number them "
        "differently after a reboot"
    ]


def _idle_rollout(pool: PoolPlan) -> list[str]:
    """A note on keys of `rollout` that have no effect: the fleet controller changes no node."""
    if pool.offer.mig_config is not None or pool.driver_version is not None:
        return []
    obeyed = OBEYED_BY_EKS if isinstance(pool.settings, EksSettings) else frozenset()
    idle = sorted(pool.rollout.model_fields_set - ALWAYS_APPLIED - obeyed)
    if not idle:
        return []
    return [
        f"pool {pool.name}: rollout.{', rollout.'.join(idle)} {'has' if len(idle) == 1 else 'have'}"
        " no effect: NVIDIA's mig-manager does not partition its nodes, and no version of the "
        "driver is rolled out to them; `slicewright plan --diff` says what a change does to them"
    ]


def _unlisted_gpu(pool: PoolPlan) -> list[str]:
    if pool.gpu.architecture is not None:
        return []
    return [
        f"pool {pool.name}: slicewright knows no GPU {pool.gpu.name}: its agents only compare that "
        "name with NVML's, which must be the same to the letter"
    ]


def _shared_memory(pool: PoolPlan) -> list[str]:
    sliced = [s.resource for s in pool.offer.sharing if s.strategy == "time-slicing"]
    return [
        f"pool {pool.name}: pods that share {resource} share its memory too: one of them "
        "can use it all"
        for resource in sliced[:1]
    ]

"""The images of a stack's pods, with their registries and the number of nodes that pull them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slicewright.apis.image_names import registry_of
from slicewright.infra.plan.model.clusters import EksAutoscalerPlan, KarpenterPlan
from slicewright.infra.plan.model.fleets import EksFleetPlan, ExistingFleetPlan, FleetPlan
from slicewright.infra.plan.model.scaling import KedaPlan
from slicewright.infra.stack_file import PrometheusStack

OWN_INDEX: Final = "sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91"
"""The digest of the default image: of an index with amd64 and arm64 among others. Source:
CISOToolbox/demo-docker, which pins it for both; docker-library/official-images, library/python.
"""
_CONTROLLERS: Final = 2
_NVIDIA: Final = ("nvcr.io", "registry.k8s.io")
_PROMETHEUS: Final = ("quay.io", "registry.k8s.io")
_HAMI: Final = ("docker.io", "registry.k8s.io")
_VOLCANO: Final = ("docker.io",)
_KEDA: Final = "ghcr.io"
_KARPENTER: Final = "public.ecr.aws"


@dataclass(frozen=True, kw_only=True)
class StackImages:
    """An image of a stack, or the images of one chart from one registry."""

    registry: str
    key: str
    """The stack file's key that names another registry."""
    nodes: int
    """Most nodes that pull it."""
    image: str = ""
    """Empty: the images that a chart names."""
    pull_secrets: tuple[str, ...] = ()


def stack_images(fleet: FleetPlan) -> tuple[StackImages, ...]:
    """A stack's images, in the order of the stack file's keys."""
    if isinstance(fleet, ExistingFleetPlan) and fleet.cluster is None:
        return ()
    return (
        *_slicewright(fleet),
        *_operators(fleet),
        *_engine(fleet),
        *_monitoring(fleet),
        *_scalers(fleet),
        *_served(fleet),
    )


def _slicewright(fleet: FleetPlan) -> Iterator[StackImages]:
    yield StackImages(
        registry=registry_of(fleet.image),
        key="image",
        nodes=sum(pool.nodes.max for pool in fleet.pools) + _CONTROLLERS,
        image=fleet.image,
        pull_secrets=fleet.image_pull_secrets,
    )


def _operators(fleet: FleetPlan) -> Iterator[StackImages]:
    operator = fleet.operator
    if operator is None or operator.existing:
        return
    nodes = sum(pool.nodes.max for pool in fleet.operated)
    for registry in (operator.registry.partition("/")[0],) if operator.registry else _NVIDIA:
        yield StackImages(
            registry=registry,
            key="gpu_operator.registry",
            nodes=nodes,
            pull_secrets=operator.image_pull_secrets,
        )


def _engine(fleet: FleetPlan) -> Iterator[StackImages]:
    """The engine for fractions: a scheduler, and a device plugin on each of its nodes."""
    engine = fleet.engine
    if engine is None or engine.provider == "vke":
        return
    settings = engine.settings
    registries = _HAMI if engine.provider == "hami" else _VOLCANO
    for registry in (settings.registry.partition("/")[0],) if settings.registry else registries:
        yield StackImages(
            registry=registry,
            key="fractional.registry",
            nodes=sum(pool.nodes.max for pool in fleet.pools) + 1,
            pull_secrets=settings.image_pull_secrets,
        )


def _monitoring(fleet: FleetPlan) -> Iterator[StackImages]:
    settings = fleet.monitoring.settings if fleet.monitoring else None
    if not isinstance(settings, PrometheusStack):
        return
    for registry in (settings.registry.partition("/")[0],) if settings.registry else _PROMETHEUS:
        yield StackImages(
            registry=registry,
            key="monitoring.registry",
            nodes=1,
            pull_secrets=settings.image_pull_secrets,
        )


def _scalers(fleet: FleetPlan) -> Iterator[StackImages]:
    nodes = fleet.cluster.autoscaler if isinstance(fleet, EksFleetPlan) else None
    if isinstance(nodes, EksAutoscalerPlan):
        yield _single_pod_images(nodes.image, "cluster.autoscaler.image")
    elif isinstance(nodes, KarpenterPlan):
        yield StackImages(registry=_KARPENTER, key="cluster.autoscaler", nodes=2)
    replicas = fleet.pod_autoscaling
    if replicas is None or replicas.existing:
        return
    if isinstance(replicas, KedaPlan):
        yield StackImages(registry=_KEDA, key="pod_autoscaling", nodes=1)
    else:
        yield _single_pod_images(replicas.image, "pod_autoscaling.image")


def _single_pod_images(image: str, key: str) -> StackImages:
    return StackImages(registry=registry_of(image), key=key, nodes=1, image=image)


def _served(fleet: FleetPlan) -> Iterator[StackImages]:
    most = {pool.name: pool.nodes.max for pool in fleet.pools}
    for deployment in fleet.deployments:
        yield StackImages(
            registry=registry_of(deployment.workload.image),
            key=f"workloads.{deployment.name}.image",
            nodes=min(deployment.most, most[deployment.workload.pool]),
            image=deployment.workload.image,
            pull_secrets=deployment.workload.image_pull_secrets,
        )

"""Plans the GPU pools of an EKS fleet, by the rules of managed node groups and of Karpenter."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion, Image, Machine
from slicewright.infra.plan.eks.image_issues import check_image_issues
from slicewright.infra.plan.eks.interconnect import check_placement, interfaces_of
from slicewright.infra.plan.eks.karpenter import by_karpenter
from slicewright.infra.plan.eks.karpenter_pools import (
    check_karpenter_pool,
    karpenter_pool,
    karpenter_taints,
)
from slicewright.infra.plan.eks.machine_types import other_machines
from slicewright.infra.plan.eks.tags import check_group
from slicewright.infra.plan.eks.templates import template_of
from slicewright.infra.plan.eks.updates import repair_of, update_of
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.fractional.engines import engine_of
from slicewright.infra.plan.gpu_operator.drivers import image_driver
from slicewright.infra.plan.machines.machine_types import machine_of
from slicewright.infra.plan.machines.regions import check_aws_zones, check_offered_there
from slicewright.infra.plan.model.launch_templates import EksTemplate, Interface
from slicewright.infra.plan.model.nodes import WHOLE_GPU
from slicewright.infra.plan.model.offers import Offer
from slicewright.infra.plan.model.pools import EksPoolPlan, EksSettings, PoolPlan
from slicewright.infra.plan.partition.boot import boot_layout, partitioned_at_boot
from slicewright.infra.plan.partition.bottlerocket import (
    check_system,
    settings_of,
    with_bottlerocket,
)
from slicewright.infra.plan.pools.capacity import check_capacity, check_offered
from slicewright.infra.plan.pools.pool import SYSTEM_PODS, pool_plan

_DATED = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-20[0-9]{6}")


def eks_pool(
    fleet: stack_file.EksFleet,
    i: int,
    cluster_zones: tuple[str, ...],
    region: AwsRegion | None,
    stated: Stated,
) -> Checked[EksPoolPlan | None]:
    """region: None if it is not in the catalog."""
    pool, path = fleet.node_pools[i], ("node_pools", i)
    zones = pool.zones or cluster_zones[:1]
    yield from check_aws_zones(pool.zones or (), region, (*path, "zones"), stated)
    yield from check_capacity(pool.capacity, "eks", path, zones)
    gpu_machine = yield from machine_of(pool.machine_type, None, "eks", path, stated)
    other_types = yield from other_machines(pool, path, gpu_machine, region, zones, stated)
    yield from check_system(pool, path)
    yield from _check_release(pool, fleet.cluster.version, path)
    machines = (gpu_machine.machine, *other_types) if gpu_machine else ()
    template = yield from _template(fleet, pool, path, machines, zones, region)
    update = yield from update_of(pool, path)
    repair = yield from repair_of(pool, path)
    image = _machine_image(pool, gpu_machine.machine) if gpu_machine else None
    common = yield from pool_plan(
        pool,
        path,
        gpu_machine,
        cloud="eks",
        strategy=fleet.gpu_operator.mig_strategy,
        driver=image_driver(image, pool.release_version, path) if image else None,
        engine=engine_of(fleet),
        verification=fleet.verification,
        stated=stated,
    )
    if gpu_machine is None or image is None:
        return None
    yield from check_offered(pool.capacity, gpu_machine.machine, path)
    yield from check_offered_there(gpu_machine.machine, region, zones, path, stated)
    yield from _check_image(pool, gpu_machine.machine, image, path)
    yield from check_image_issues(pool, image, machines, path)
    if common is None:
        return None
    yield from _check_addresses(common.offer, machines, path)
    if template is not None:
        template = _with_gpu_settings(template, pool, common)
    settings = EksSettings(
        machine=gpu_machine.machine,
        other_machines=other_types,
        zones=zones,
        capacity=pool.capacity,
        ami_type=image.name,
        version=fleet.cluster.version,
        release_version=pool.release_version,
        disk_size_gb=None if template else pool.disk.size_gb,
        template=template,
        update=update,
        repair=repair,
        tags=pool.tags,
        karpenter=None,
    )
    return (yield from _with_node_maker(fleet, pool, path, common.with_settings(settings)))


def _template(
    fleet: stack_file.EksFleet,
    pool: stack_file.EksPool,
    path: stack_file.Path,
    machines: Sequence[Machine],
    zones: tuple[str, ...],
    region: AwsRegion | None,
) -> Checked[EksTemplate | None]:
    """The launch template. None: EKS's own. machines: the pool's types, empty if refused."""
    interfaces: tuple[Interface, ...] = ()
    if machines:
        interfaces = yield from interfaces_of(fleet, pool, path, machines[0], machines[1:], zones)
    yield from check_placement(pool, path, zones)
    karpenter_settings = by_karpenter(fleet, pool)
    if karpenter_settings is not None:
        yield from check_karpenter_pool(pool, path, karpenter_settings)
    return (
        yield from template_of(
            *(pool, path, region, interfaces),
            of_cluster=fleet.cluster.instance_tags,
            always=karpenter_settings is not None
            or with_bottlerocket(pool)
            or partitioned_at_boot(pool),
        )
    )


def _with_gpu_settings(
    template: EksTemplate, pool: stack_file.EksPool, common: PoolPlan
) -> EksTemplate:
    """The template with the GPU settings that its nodes boot with."""
    if with_bottlerocket(pool):
        bottlerocket = settings_of(pool, common.gpu, common.offer.sharing)
        return replace(template, bottlerocket=bottlerocket)
    if partitioned_at_boot(pool):
        return replace(template, boot=boot_layout(common.gpu, common.offer.layouts))
    return template


def _with_node_maker(
    fleet: stack_file.EksFleet,
    pool: stack_file.EksPool,
    path: stack_file.Path,
    planned: EksPoolPlan,
) -> Checked[EksPoolPlan | None]:
    """The plan with the settings of what makes its nodes: a managed node group, or Karpenter."""
    settings, karpenter_settings = planned.settings, by_karpenter(fleet, pool)
    if karpenter_settings is not None:
        karpenter = yield from karpenter_pool(
            pool, path, planned, settings.update, karpenter_settings
        )
        if karpenter is None:
            return None
        planned = replace(planned, taints=karpenter_taints(planned))
        return planned.with_settings(replace(settings, karpenter=karpenter))
    autoscaler_tags = _node_template(planned.offer.resources) if planned.nodes.autoscaled else {}
    yield from check_group(
        path, of_pool=pool.tags, of_cluster=fleet.cluster.tags, of_autoscaler=autoscaler_tags
    )
    return planned.with_settings(replace(settings, tags={**pool.tags, **autoscaler_tags}))


@rule("eks-ami-type")
def _check_image(
    pool: stack_file.EksPool, machine: Machine, image: Image, path: stack_file.Path
) -> Checked[None]:
    if pool.ami_type not in (None, image.name):
        yield refuse(
            (*path, "ami_type"),
            f"{machine.name} has {image.architecture} processors, and EKS's image for them is "
            f"{image.name}",
            f"write {image.name}, or leave it out",
            image.source,
        )


@rule("eks-pod-addresses")
def _check_addresses(
    offer: Offer, machines: Sequence[Machine], path: stack_file.Path
) -> Checked[None]:
    """Refuses more devices than a node has addresses for pods. machines: the pool's types."""
    limits = {m.name: m.pods for m in machines if m.pods is not None}
    smallest = min(limits, key=lambda name: limits[name], default="")
    if smallest and offer.advertised + SYSTEM_PODS > limits[smallest]:
        yield refuse(
            (*path, "sharing" if offer.sharing else "partition"),
            f"a node advertises {offer.advertised} devices and runs about {SYSTEM_PODS} other "
            f"pods; {smallest} has addresses for {limits[smallest]} pods",
            "use fewer replicas, or larger partitions",
            machines[0].source,
        )


def _machine_image(pool: stack_file.EksPool, machine: Machine) -> Image:
    """The image that the stack file asks for, of the machine's architecture."""
    return next(i for i in machine.images if i.bottlerocket == with_bottlerocket(pool))


@rule("eks-image-release")
def _check_release(
    pool: stack_file.EksPool, version: str | None, path: stack_file.Path
) -> Checked[None]:
    release = pool.release_version
    if release is None:
        return
    if with_bottlerocket(pool):
        if _DATED.fullmatch(release):
            yield refuse(
                (*path, "release_version"),
                f"{release} is a release of Amazon Linux's images",
                "write Bottlerocket's version with its commit, like 1.54.0-5ed15786, or leave it "
                "out",
                "EKS API, releaseVersion",
            )
    elif not _DATED.fullmatch(release):
        yield refuse(
            (*path, "release_version"),
            f"{release} does not end in the release date of an Amazon Linux image",
            "write it like 1.34.0-20260714, or leave it out",
            "EKS API, releaseVersion",
        )
    elif version is not None and not release.startswith(f"{version}."):
        yield refuse(
            (*path, "release_version"),
            f"{release} has Kubernetes {_kubernetes(release)}, and the cluster has {version}",
            f"write a release of {version}, like {version}.0-20260714, or leave it out",
            "eksctl-io/eksctl #7976",
        )


@rule("eks-one-version")
def check_one_kubernetes(fleet: stack_file.EksFleet) -> Checked[None]:
    """Refuses images of different Kubernetes versions if the file leaves the cluster's version to
    EKS: all node groups have the version of their cluster.
    """
    if fleet.cluster.version is not None:
        return
    stated = [
        (i, pool.release_version)
        for i, pool in enumerate(fleet.node_pools)
        # Bottlerocket's versions are its own.
        if pool.release_version and not with_bottlerocket(pool)
    ]
    for i, release in stated[1:]:
        first, other = stated[0][0], _kubernetes(stated[0][1])
        if _kubernetes(release) != other:
            yield refuse(
                ("node_pools", i, "release_version"),
                f"{release} has Kubernetes {_kubernetes(release)}, and the image of "
                f"node_pools[{first}] has {other}: node groups have the version of their cluster",
                "write releases of one Kubernetes version, and that as cluster.version",
                "eksctl-io/eksctl #7976",
            )


def _kubernetes(release: str) -> str:
    """`1.34.0-20260714` -> `1.34`"""
    return ".".join(release.split(".")[:2])


def _node_template(resources: Mapping[str, int]) -> Mapping[str, str]:
    """Tags that tell cluster-autoscaler a node's resources while the node group is empty.

    It reads labels and taints of the node group itself, and only the resources from its tags. Whole
    GPUs are stated even if there are none: otherwise it takes their number from the machine type,
    and would add nodes for pods that they cannot run. Source: kubernetes/autoscaler,
    cloudprovider/aws/aws_manager.go.
    """
    return {
        f"k8s.io/cluster-autoscaler/node-template/resources/{name}": str(count)
        for name, count in {WHOLE_GPU: 0, **resources}.items()
    }

"""Pools of EKS with Bottlerocket, which partitions and shares its GPUs itself when a node boots.

Its settings come with the user data, so that a change of them is a new version of the launch
template, and EKS recreates the nodes one by one. NVIDIA's GPU Operator leaves these nodes alone.
Sources: bottlerocket.dev, settings.kubelet-device-plugins;
bottlerocket-os/bottlerocket-kernel-kit, nvidia-migmanager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeGuard

from slicewright.infra import catalog, geometry, stack_file
from slicewright.infra.catalog import Gpu
from slicewright.infra.geometry import naming
from slicewright.infra.plan.findings import Checked, listed, refuse, rule
from slicewright.infra.plan.model.launch_templates import BottlerocketSettings
from slicewright.infra.plan.model.nodes import WHOLE_GPU, AnyPool, Gpus
from slicewright.infra.plan.model.offers import ReplicatedResource
from slicewright.infra.plan.partition.partitions import Partitioning, check_mig

_SETTINGS: Final = "bottlerocket.dev, settings.kubelet-device-plugins"


def with_bottlerocket(pool: AnyPool) -> TypeGuard[stack_file.EksPool]:
    """Whether the pool's nodes run Bottlerocket, not Amazon Linux or another cloud's image."""
    return isinstance(pool, stack_file.EksPool) and (pool.ami_type or "").startswith(
        "BOTTLEROCKET_"
    )


@rule("partition-system")
def check_system(pool: stack_file.EksPool, path: stack_file.Path) -> Checked[None]:
    """Refuses settings that the pool's operating system does not support."""
    if not with_bottlerocket(pool):
        if isinstance(pool.partition, stack_file.Native):
            yield refuse(
                (*path, "partition", "mode"),
                "EKS's Amazon Linux does not partition GPUs itself",
                "write mode: operator, or ami_type: BOTTLEROCKET_x86_64_NVIDIA",
                "EKS user guide, EKS-optimized accelerated AMIs",
            )
        return
    if isinstance(pool.partition, stack_file.Boot):
        yield refuse(
            (*path, "partition", "mode"),
            "Bottlerocket runs no programs of its user data; it partitions GPUs itself when it "
            "boots, by its settings",
            "write {mode: native, profile: …}, or an ami_type of Amazon Linux",
            _SETTINGS,
        )
    if isinstance(pool.partition, stack_file.Operator):
        yield refuse(
            (*path, "partition", "mode"),
            "Bottlerocket partitions GPUs itself when it boots, and has its own device plugin; "
            "mig-manager and the GPU operator's plugin would work against both",
            "write {mode: native, profile: …}, or another ami_type",
            _SETTINGS,
        )
    if isinstance(pool.sharing, stack_file.Mps | stack_file.FractionalSharing):
        yield refuse(
            (*path, "sharing", "mode")
            if isinstance(pool.sharing, stack_file.Mps)
            else (*path, "sharing"),
            f"{pool.sharing.mode} is not supported here with Bottlerocket's own device plugin",
            "write time-slicing, or another ami_type",
            _SETTINGS,
        )
    if pool.instance_store is not None:
        yield refuse(
            (*path, "instance_store"),
            "is a setting of nodeadm, which Bottlerocket does not have",
            "leave it out",
            "bottlerocket.dev, ephemeral storage",
            in_key=True,
        )


@rule("bottlerocket-partition")
def bottlerocket_partitioning(
    partition: stack_file.Native | None, path: stack_file.Path, gpus: Gpus
) -> Checked[Partitioning | None]:
    """partition: None for whole GPUs.

    The device plugin advertises partitions as nvidia.com/gpu: its strategy is `single` wherever
    GPUs are partitioned.
    """
    if partition is None:
        return Partitioning(
            layouts=({},) * gpus.count,
            devices={WHOLE_GPU: gpus.count},
            partitioner="bottlerocket" if gpus.gpu.family is not None else "none",
            mig_config=None,
        )
    if not (yield from check_mig(gpus.gpu, path)):
        return None
    mig, at = catalog.bottlerocket_mig(), (*path, "profile")
    profiles = {profile.name: profile for profile in mig.profiles(gpus.gpu)}
    if not profiles:
        yield refuse(
            path,
            f"Bottlerocket does not know how to partition {gpus.gpu.name}",
            f"it knows {listed(sorted(mig.models))}; or use another ami_type and mode: operator",
            mig.source,
        )
        return None
    if partition.profile not in profiles:
        yield refuse(
            at,
            f"Bottlerocket does not partition {gpus.gpu.name} into {partition.profile}; it would "
            "create one 7g instance on each GPU, without an error",
            f"nearest {naming.nearest_of(tuple(profiles), partition.profile)}; Bottlerocket's: "
            f"{listed(tuple(profiles))}",
            mig.source,
        )
        return None
    per_gpu = mig.partitions[profiles[partition.profile].kind.kind]
    assert per_gpu == geometry.max_instances(gpus.gpu, partition.profile), (
        "a test compares them all"
    )
    return Partitioning(
        layouts=({partition.profile: per_gpu},) * gpus.count,
        devices={WHOLE_GPU: per_gpu * gpus.count},
        partitioner="bottlerocket",
        mig_config=None,
    )


@rule("bottlerocket-sharing")
def bottlerocket_sharing(
    sharing: stack_file.TimeSlicing, path: stack_file.Path, devices: Mapping[str, int] | None
) -> Checked[tuple[ReplicatedResource, ...] | None]:
    """One number of replicas for all devices of a node. devices: None if they are unknown."""
    if not isinstance(sharing.replicas, int):
        named = [*sharing.replicas]
        if len(named) > 1 or named[0] not in ("gpu", WHOLE_GPU):
            yield refuse(
                (*path, "replicas"),
                "Bottlerocket advertises every device as nvidia.com/gpu, with one number of "
                "replicas",
                "write one number",
                _SETTINGS,
            )
            return None
    if devices is None:
        return None
    replicas = (
        sharing.replicas
        if isinstance(sharing.replicas, int)
        else next(iter(sharing.replicas.values()))
    )
    return (
        ReplicatedResource(
            resource=WHOLE_GPU,
            advertised=f"{WHOLE_GPU}.shared" if sharing.rename_by_default else WHOLE_GPU,
            strategy="time-slicing",
            replicas=replicas,
            fail_requests_greater_than_one=sharing.fail_requests_greater_than_one,
        ),
    )


def settings_of(
    pool: stack_file.EksPool, gpu: Gpu, sharing: tuple[ReplicatedResource, ...]
) -> BottlerocketSettings:
    """pool: not refused before."""
    catalog_mig, mig = catalog.bottlerocket_mig(), None
    if isinstance(pool.partition, stack_file.Native):
        kind = gpu.profiles[pool.partition.profile].kind.kind
        mig = (catalog_mig.models[gpu.name], catalog_mig.partitions[kind])
    shared = sharing[0] if sharing else None
    return BottlerocketSettings(
        mig=mig,
        replicas=shared.replicas if shared else None,
        rename_by_default=shared is not None and shared.advertised != shared.resource,
        fail_requests_greater_than_one=shared is None or shared.fail_requests_greater_than_one,
    )

"""The launch templates of the pools that need one.

A node group without one gets EKS's own. To give it one later replaces the group and its nodes, so a
pool has one only if a key asks for a setting that EKS's own lacks.
"""

from __future__ import annotations

from collections.abc import Mapping

from slicewright.infra import stack_file
from slicewright.infra.catalog import AwsRegion
from slicewright.infra.plan.eks.tags import MOST_TAGS
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.machines.regions import check_key_region
from slicewright.infra.plan.model.launch_templates import EksTemplate, Interface, ReservedCapacity

_SYSTEM_DISK_GB = 20
"""EKS's default for a node group without a launch template. Source: EKS API, CreateNodegroup,
diskSize.
"""
_GUIDE = "EKS user guide, customize managed nodes with launch templates"
_OWN_TAGS = 5
"""eks:cluster-name, eks:nodegroup-name, kubernetes.io/cluster/NAME, and the two of the autoscaler's
discovery, which EKS gives to instances. AWS does not count tags of its prefix aws:.
"""


def template_of(
    pool: stack_file.EksPool,
    path: stack_file.Path,
    region: AwsRegion | None,
    interfaces: tuple[Interface, ...],
    *,
    of_cluster: Mapping[str, str],
    always: bool = False,
) -> Checked[EksTemplate | None]:
    """None if EKS's own launch template does, unless `always`. path: of the pool. of_cluster:
    tags of all instances.
    """
    disk = pool.disk
    if disk.kms_key is not None:
        yield from _check_key(disk.kms_key, disk.encrypted, (*path, "disk"), region)
    tags = {**of_cluster, **pool.instance_tags}
    if pool.instance_tags:
        yield from check_instance_tags(tags, (*path, "instance_tags"))
    needed = (
        always
        or disk.encrypted
        or disk.kms_key is not None
        or pool.instance_metadata is not None
        or pool.instance_store is not None
        or tags
        or interfaces
        or pool.placement is not None
        or isinstance(pool.capacity, stack_file.Reservation | stack_file.CapacityBlock)
    )
    if not needed:
        return None
    return EksTemplate(
        disk_gb=disk.size_gb,
        encrypted=disk.encrypted is not False,
        kms_key=disk.kms_key,
        hop_limit=(pool.instance_metadata or stack_file.InstanceMetadata()).hop_limit,
        instance_store=pool.instance_store,
        tags=dict(sorted(tags.items())),
        reserved=_reserved(pool.capacity),
        interfaces=interfaces,
        placement=pool.placement,
        block=isinstance(pool.capacity, stack_file.CapacityBlock),
        bottlerocket=None,
    )


@rule("eks-instance-tag-count")
def check_instance_tags(tags: Mapping[str, str], path: stack_file.Path) -> Checked[None]:
    if len(tags) > MOST_TAGS - _OWN_TAGS:
        yield refuse(
            path,
            f"{len(tags)} tags are too many: AWS allows {MOST_TAGS} on an instance, and EKS adds "
            f"{_OWN_TAGS}",
            f"write {MOST_TAGS - _OWN_TAGS} or less, with those of cluster.instance_tags",
            "EC2 user guide, tag restrictions",
        )


def system_template(tags: Mapping[str, str]) -> EksTemplate | None:
    """The system pool's launch template, only needed for tags of its instances. None: no tags."""
    if not tags:
        return None
    return EksTemplate(
        disk_gb=_SYSTEM_DISK_GB,
        encrypted=True,
        kms_key=None,
        hop_limit=stack_file.InstanceMetadata().hop_limit,
        instance_store=None,
        tags=dict(sorted(tags.items())),
        reserved=None,
        interfaces=(),
        placement=None,
        block=False,
        bottlerocket=None,
    )


def _reserved(capacity: stack_file.Capacity) -> ReservedCapacity | None:
    if not isinstance(capacity, stack_file.Reservation | stack_file.CapacityBlock):
        return None
    name = capacity.reservation
    is_group = name is not None and name.startswith("arn:")
    return ReservedCapacity(
        reservation=None if is_group else name, group=name if is_group else None
    )


@rule("eks-disk-key")
def _check_key(
    arn: str, encrypted: bool | None, path: stack_file.Path, region: AwsRegion | None
) -> Checked[None]:
    if encrypted is False:
        yield refuse(
            (*path, "kms_key"),
            "is the key of a disk that encrypted: false leaves unencrypted",
            "leave one of them out",
            "EC2 API, Ebs.KmsKeyId",
        )
    yield from check_key_region(
        arn, (*path, "kms_key"), region, "the nodes are", "EBS user guide, how EBS encryption works"
    )

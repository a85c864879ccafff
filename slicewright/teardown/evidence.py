"""Reads the disks, snapshots, machines and load balancers that a cluster's objects name.

They are read while the cluster lives. Unlike tags, the IDs in Kubernetes objects can only come from
inside the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from slicewright.teardown.inventory import (
    Object,
    Objects,
    handle_of,
    is_kept,
    is_own_snapshot,
    on_cloud_disk,
    snapshot_handle,
)
from slicewright.teardown.sweep.life import Key, Life

_ADDRESSES: Final = "service.beta.kubernetes.io/aws-load-balancer-eip-allocations"
"""Source: aws-load-balancer-controller, docs/guide/service/annotations.md."""
_AWS_INSTANCE: Final = "aws:///"
"""The prefix of a provider ID. Source: kubernetes/cloud-provider-aws, pkg/providers/v1,
instances.go.
"""


def life_of(objects: Objects) -> Life:
    volumes = [v for v in objects.volumes if on_cloud_disk(v) and handle_of(v)]
    snapshots = [s for s in objects.snapshots if is_own_snapshot(s)]
    gone_with = frozenset(("disk", handle_of(v)) for v in volumes if _goes(v) and _is_claimed(v))
    return Life(
        named=gone_with | frozenset(_karpenter_keys(objects)) | frozenset(_addresses(objects)),
        named_if_later=frozenset(
            ("disk", handle_of(v)) for v in volumes if _goes(v) and not _is_claimed(v)
        )
        | frozenset(("snapshot", snapshot_handle(s)) for s in snapshots if not is_kept(s)),
        retained=frozenset(("disk", handle_of(v)) for v in volumes if not _goes(v))
        | frozenset(("snapshot", snapshot_handle(s)) for s in snapshots if is_kept(s)),
        balancers=frozenset(_balancers(objects)),
    )


def _goes(volume: Object) -> bool:
    """A volume that a person created has Retain by Kubernetes' default."""
    policy: object = volume["spec"].get("persistentVolumeReclaimPolicy")
    return policy == "Delete"


def _is_claimed(volume: Object) -> bool:
    return bool(volume["spec"].get("claimRef"))


def _karpenter_keys(objects: Objects) -> Iterator[Key]:
    for claim in objects.node_claims:
        provider = str((claim.get("status") or {}).get("providerID") or "")
        if provider.startswith(_AWS_INSTANCE):
            yield ("instance", provider.rpartition("/")[2])
    for node_class in objects.node_classes:
        if profile := (node_class.get("status") or {}).get("instanceProfile"):
            yield ("instance profile", str(profile))


def _addresses(objects: Objects) -> Iterator[Key]:
    for service in objects.services:
        listed = str((service["metadata"].get("annotations") or {}).get(_ADDRESSES, ""))
        yield from (
            ("address", allocation.strip())
            for allocation in listed.split(",")
            if allocation.strip()
        )


def _balancers(objects: Objects) -> Iterator[str]:
    for service in objects.services:
        if service["spec"].get("type") == "LoadBalancer":
            # Source: kubernetes/cloud-provider, cloud.go, DefaultLoadBalancerName.
            if uid := service["metadata"].get("uid"):
                yield f"a{str(uid).replace('-', '')}"[:32]
            yield from _hostnames(service)
    for ingress in objects.ingresses:
        yield from _hostnames(ingress)
    for gateway in objects.gateways:
        addresses = (gateway.get("status") or {}).get("addresses") or ()
        yield from (str(a["value"]).lower() for a in addresses if a.get("value"))


def _hostnames(resource: Object) -> Iterable[str]:
    balancer = (resource.get("status") or {}).get("loadBalancer") or {}
    return [str(i["hostname"]).lower() for i in balancer.get("ingress") or () if i.get("hostname")]

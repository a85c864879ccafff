"""Decides how far a pool's nodes are verified before they are released."""

from __future__ import annotations

from collections.abc import Iterator

from slicewright.infra import stack_file
from slicewright.infra.plan.model.nodes import WHOLE_GPU
from slicewright.infra.plan.model.offers import Offer
from slicewright.infra.plan.model.pools import PoolVerification, RequestedDevice
from slicewright.infra.plan.partition.resource_names import resource_of
from slicewright.infra.plan.partition.sharing import allocatable

_BY_MPS = (
    "the pool shares its GPUs by MPS, whose server keeps the clients of other users out while a "
    "proof runs"
)


def verification_of(offer: Offer, verification: stack_file.Verification) -> PoolVerification:
    """The proofs of a pool. A proof that the stack file wants may be impossible."""
    why_listed_only = _why_not(offer, verification.compute, "verification.compute is false")
    why_no_pod = _why_not(offer, verification.pod, "verification.pod is false")
    if not why_no_pod and offer.resources != allocatable(offer.devices, offer.sharing):
        why_no_pod = "the pool shares its GPUs by fractions, which its own scheduler places"
    return PoolVerification(
        compute=not why_listed_only,
        why_listed_only=why_listed_only,
        pod=() if why_no_pod else tuple(_requested_devices(offer)),
        why_no_pod=why_no_pod,
    )


def _why_not(offer: Offer, stated: bool, why_off: str) -> str:
    if not stated:
        return why_off
    # One server serves one user at a time. Source: man nvidia-cuda-mps-control.
    return _BY_MPS if any(shared.strategy == "mps" for shared in offer.sharing) else ""


def _requested_devices(offer: Offer) -> Iterator[RequestedDevice]:
    """Yields one device of each resource."""
    advertised = {shared.resource: shared.advertised for shared in offer.sharing}
    for resource in sorted(offer.devices):
        yield RequestedDevice(
            resource=advertised.get(resource, resource), device=_device_of(offer, resource)
        )


def _device_of(offer: Offer, resource: str) -> str:
    """The profile behind a resource, or `gpu`. GKE and the strategy `single` call all partitions
    nvidia.com/gpu, and have one profile.
    """
    profiles = list(dict.fromkeys(profile for layout in offer.layouts for profile in layout))
    if resource != WHOLE_GPU:
        return next(profile for profile in profiles if resource_of(profile) == resource)
    return "gpu" if offer.whole_gpus else profiles[0]

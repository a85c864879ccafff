"""Notes on a stack's images, to read before `pulumi up`: limits and reach of registries."""

from __future__ import annotations

from typing import Final

from slicewright.apis.image_names import short
from slicewright.infra.plan.images.stack_images import OWN_INDEX, StackImages, stack_images
from slicewright.infra.plan.model.fleets import EksFleetPlan, FleetPlan, GkeFleetPlan
from slicewright.infra.plan.model.pools import CloudSettings

_DOCKER_HUB: Final = "docker.io"
_MOST_PULLS: Final = 50
"""Pulls from one address: half of Docker Hub's limit for six hours, as nodes are replaced, too."""
_OF_CHINA: Final = "cn-"
_ABROAD: Final = frozenset(
    {"docker.io", "ghcr.io", "mirror.gcr.io", "nvcr.io", "public.ecr.aws", "quay.io"}
    | {"gcr.io", "registry.k8s.io"}
)
"""Registries that nodes of AWS's China regions reach badly or not at all. Sources:
nwcdlabs/container-mirror; kubernetes/registry.k8s.io #137; awslabs/amazon-eks-ami #722.
"""
_PAGE: Final = "docs/how-to/private-registries.md"


def image_notes(fleet: FleetPlan) -> list[str]:
    images = stack_images(fleet)
    return [*_limited(fleet, images), *_out_of_reach(fleet, images), *_own_on_arm(fleet)]


def _limited(fleet: FleetPlan, images: tuple[StackImages, ...]) -> list[str]:
    """Sources: Docker docs, usage and limits; Artifact Registry docs, pulling cached Docker Hub
    images: GKE's nodes ask Google's cache first.
    """
    if isinstance(fleet, GkeFleetPlan):
        return []
    hub = [image for image in images if image.registry == _DOCKER_HUB and not image.pull_secrets]
    pulls = sum(image.nodes for image in hub)
    gateways = _gateways(fleet)
    if gateways is None or pulls <= _MOST_PULLS * gateways:
        return []
    named = ", ".join(dict.fromkeys(short(image.image) for image in hub if image.image))
    keys = ", ".join(dict.fromkeys(image.key for image in hub if image.image))
    behind = f"{gateways} NAT gateways" if gateways > 1 else "one address"
    return [
        f"images: up to {pulls} pulls of {named} from {_DOCKER_HUB}, which serves an address 100 "
        f"in 6 hours without a login; nodes behind {behind} share that, and the last of them "
        f"wait, with their startup taint; name a copy in another registry in {keys}, or a login in "
        f"image_pull_secrets ({_PAGE})"
    ]


def _gateways(fleet: FleetPlan) -> int | None:
    """How many addresses the nodes share, as far as it is known. None: each has its own."""
    if not isinstance(fleet, EksFleetPlan):
        return 1
    if fleet.cluster.nat_zones:
        return len(fleet.cluster.nat_zones)
    return None if fleet.node_subnets == "public" and not fleet.cluster.existing else 1


def _out_of_reach(fleet: FleetPlan, images: tuple[StackImages, ...]) -> list[str]:
    if not isinstance(fleet, EksFleetPlan) or not fleet.cluster.region.startswith(_OF_CHINA):
        return []
    abroad = [image for image in images if image.registry in _ABROAD]
    if not abroad:
        return []
    registries = ", ".join(sorted({image.registry for image in abroad}))
    keys = ", ".join(dict.fromkeys(image.key for image in abroad))
    return [
        f"images: nodes in {fleet.cluster.region} can rarely reach {registries}; copy the images "
        "to a "
        f"registry there and name it in {keys} ({_PAGE})"
    ]


def _own_on_arm(fleet: FleetPlan) -> list[str]:
    arm = [
        pool.name
        for pool in fleet.pools
        if isinstance(pool.settings, CloudSettings)
        and pool.settings.machine.architecture == "arm64"
    ]
    if not arm or fleet.image.endswith(OWN_INDEX):
        return []
    return [
        f"images: {short(fleet.image)} must have arm64 for pool {', '.join(arm)}, besides what the "
        "system pool's machines need: name an index of several platforms, or its digest, in image; "
        "`slicewright doctor` asks the registry"
    ]

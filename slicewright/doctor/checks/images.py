"""Checks whether registries have a stack file's images, for the processors of its nodes. Pure.

The questions are anonymous: an image that requires a login is not seen, but nodes may well pull it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slicewright.apis.image_names import short
from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    check,
    checks,
    fails,
    not_seen,
    ok,
)
from slicewright.infra.plan import ExistingFleetPlan, FleetPlan
from slicewright.infra.plan.images.stack_images import StackImages, stack_images

_STACK_IMAGE: Final = "image"


@dataclass(frozen=True, kw_only=True)
class WantedImage:
    """An image that pods of the stack run."""

    of: StackImages
    architectures: frozenset[str]
    """The architectures of the nodes that run it. Empty: unknown."""


def wanted_images(fleet: FleetPlan) -> tuple[WantedImage, ...]:
    """The images that the stack file names. A chart's own images are its publisher's matter."""
    return tuple(
        WantedImage(of=image, architectures=_architectures(fleet, image.key))
        for image in stack_images(fleet)
        if image.image
    )


@checks("image")
def image_findings(
    image: WantedImage, architectures: Answer[frozenset[str] | None]
) -> Iterator[Finding]:
    """architectures: the image's architectures in its registry. None: there is no such image."""
    of = image.of
    subject = f"image {short(of.image)} in {of.registry}"
    if isinstance(architectures, NotAnswered):
        yield not_seen(subject, NotAnswered(why=architectures.why, remedy=_login(of)))
    elif architectures is None:
        yield fails(
            subject,
            "does not exist: no repository, tag or digest of this name",
            f"correct {of.key}, or copy the image to this registry",
        )
    elif missing := sorted(image.architectures - architectures):
        available = ", ".join(sorted(architectures)) or "no processor of Linux"
        yield fails(
            subject,
            f"exists for {available}, but nodes of the stack have {', '.join(missing)}",
            f"name a multi-platform image index, or its digest, in {of.key}",
        )
    else:
        yield ok(subject, f"available for {', '.join(sorted(architectures))}")


def chart_registries(fleet: FleetPlan) -> tuple[StackImages, ...]:
    """The registries of charts' images: each once, with the key that names another one."""
    first: dict[str, StackImages] = {}
    for images in stack_images(fleet):
        if not images.image:
            first.setdefault(images.registry, images)
    return tuple(first.values())


@check("registry")
def registry_finding(of: StackImages, is_open: Answer[bool]) -> Finding:
    """is_open: whether the registry gives anonymous clients images."""
    subject = f"registry {of.registry} (images of charts)"
    if isinstance(is_open, NotAnswered):
        remedy = f"if the nodes cannot reach it either, name a mirror in {of.key}"
        return not_seen(subject, NotAnswered(why=is_open.why, remedy=remedy))
    if is_open:
        return ok(subject, "answers, without credentials")
    if of.pull_secrets:
        return ok(subject, f"requires credentials: nodes use {', '.join(of.pull_secrets)}")
    return not_seen(
        subject,
        NotAnswered(why="requires credentials, and the stack file names none", remedy=_login(of)),
    )


def _login(of: StackImages) -> str:
    if of.pull_secrets:
        names = ", ".join(of.pull_secrets)
        return f"nodes pull it with {names}; this check does not use those credentials"
    return (
        "if it requires a login that the nodes do not have, name a Secret in "
        "image_pull_secrets (docs/how-to/private-registries.md)"
    )


def _architectures(fleet: FleetPlan, key: str) -> frozenset[str]:
    if isinstance(fleet, ExistingFleetPlan):
        return frozenset()
    pools = {pool.name: pool.settings.machine.architecture for pool in fleet.pools}
    if key == _STACK_IMAGE:
        system = {fleet.system.machine.architecture} if fleet.system else set()
        return frozenset({*pools.values(), *system})
    for deployment in fleet.deployments:
        if key == f"workloads.{deployment.name}.image":
            return frozenset({pools[deployment.workload.pool]})
    return frozenset({fleet.system.machine.architecture} if fleet.system else ())

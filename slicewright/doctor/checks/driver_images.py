"""Checks whether a registry has the driver that the GPU operator is to install. Pure.

Source of the tags, VERSION-OS: NVIDIA GPU operator docs, "Common chart customization options",
driver.version; NVIDIA/gpu-operator, internal/state/driver.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_seen, ok
from slicewright.infra.plan import FleetPlan

_NVIDIA: Final = "nvcr.io"
_IMAGE: Final = "nvidia/driver"
_MOST_SHOWN: Final = 6


@dataclass(frozen=True, kw_only=True)
class DriverImage:
    registry: str
    repository: str
    version: str


def driver_image(fleet: FleetPlan) -> DriverImage | None:
    """Returns None if the operator installs no driver, or the one that its chart names."""
    operator = fleet.operator
    if operator is None or operator.existing or not operator.driver.enabled:
        return None
    if operator.driver.version is None:
        return None
    host, _, path = (operator.registry or _NVIDIA).partition("/")
    return DriverImage(
        registry=host,
        repository=f"{path}/{_IMAGE}" if path else _IMAGE,
        version=operator.driver.version,
    )


@checks("driver-image")
def driver_image_findings(image: DriverImage, tags: Answer[frozenset[str]]) -> Iterator[Finding]:
    """tags: the tags of the image's repository."""
    subject = f"driver {image.version} in {image.registry}/{image.repository}"
    if isinstance(tags, NotAnswered):
        yield not_seen(subject, tags)
        return
    systems = sorted(
        tag.removeprefix(f"{image.version}-") for tag in tags if tag.startswith(f"{image.version}-")
    )
    if systems or image.version in tags:
        yield ok(
            subject,
            f"available for {', '.join(systems[:_MOST_SHOWN]) or 'an unnamed operating system'}",
        )
    else:
        yield fails(
            subject,
            "no image of this version exists for any operating system",
            "write another gpu_operator.driver.version, or remove it to use the chart's version",
        )

"""Which driver a pool's nodes will have, as far as that is known, and whether it suffices."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Gpu, Image, driver_order
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.fleets import FleetPlan
from slicewright.infra.plan.model.offers import Offer
from slicewright.infra.plan.model.pools import EksSettings, GkeSettings, PoolPlan
from slicewright.infra.plan.partition.partitions import minimum_driver

# An image's tag may name its system behind the version: 580.95.05-ubuntu22.04.
_VERSION = re.compile(r"([0-9]+(?:\.[0-9]+){1,2})(?:-.*)?")
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The driver of a pool's nodes."""

    version: str | None
    """None: unknown before a node is up. Then its agent compares."""
    exact: bool
    """True: exactly this version. False: this or a newer one."""
    of: str
    """The program or image that installs it."""
    source: str
    key: stack_file.Path
    """The key of the stack file that decides it."""


def image_driver(image: Image, release: str | None, path: stack_file.Path) -> Driver:
    """The driver of EKS's machine image.

    release: as in the stack file, `1.34.0-20260714`. path: of the pool.
    """
    day = release.rsplit("-", 1)[-1] if release else None
    of = f"{image.name} {f'of {day}' if day else 'in its newest release'}"
    if image.release is None:
        of = f"{image.name} {release or 'in its newest release'}"
        return Driver(
            version=None, exact=False, of=of, source=image.source, key=(*path, "release_version")
        )
    # Dates as YYYYMMDD sort as text.
    is_known = day is None or day >= image.release
    return Driver(
        version=image.driver if is_known else None,
        exact=day == image.release,
        of=of,
        source=image.source,
        key=(*path, "release_version"),
    )


def operator_driver(operator: stack_file.GpuOperator) -> Driver:
    """The driver that the GPU Operator installs, or else the nodes' own driver."""
    written, chart = operator.driver.version, catalog.load().charts.get(operator.chart_version)
    if not operator.driver.enabled:
        return Driver(version=None, exact=False, of="the nodes themselves", source="", key=())
    if written is not None:
        number = _VERSION.fullmatch(written)
        return Driver(
            version=number[1] if number else None,
            exact=True,
            of="the GPU Operator",
            source="the stack file",
            key=("gpu_operator", "driver", "version"),
        )
    return Driver(
        version=chart.driver if chart else None,
        exact=True,
        of=f"chart {operator.chart_version} of the GPU Operator",
        source=chart.source if chart else "",
        key=("gpu_operator", "chart_version"),
    )


def rolled_driver(operator: stack_file.GpuOperator) -> str | None:
    """The operator's driver version if the fleet controller replaces other versions, pool by pool.

    That takes a version that agents can compare with NVML's. Otherwise NVIDIA's upgrade controller
    replaces drivers, by its own policy.
    """
    written = operator.driver.version
    if operator.existing or not operator.driver.enabled or written is None:
        return None
    return written if _RELEASE.fullmatch(written) else None


def gke_driver(channel: str) -> Driver:
    return Driver(
        version=None, exact=False, of=f"GKE, {channel} for the node's version", source="", key=()
    )


def driver_of(pool: PoolPlan, fleet: FleetPlan) -> Driver:
    """The driver of a planned pool's nodes."""
    if isinstance(pool.settings, EksSettings):
        image = next(i for i in pool.settings.machine.images if i.name == pool.settings.ami_type)
        return image_driver(image, pool.settings.release_version, ())
    if isinstance(pool.settings, GkeSettings) and not pool.operated:
        return gke_driver(pool.settings.driver)
    assert fleet.operator is not None, "mig-manager belongs to the operator"
    return operator_driver(fleet.operator)


@rule("driver-version")
def check_driver(driver: Driver, pool: str, gpu: Gpu, offer: Offer) -> Checked[None]:
    """Refuses a driver that is too old for the partitions, or known to fail with them."""
    if driver.version is None or not driver.exact:
        return
    needed = minimum_driver(gpu, offer.layouts)
    if needed is None:
        return
    if driver_order(driver.version) < driver_order(needed):
        yield refuse(
            driver.key,
            f"{driver.of} installs driver {driver.version}; the layout of pool {pool} on "
            f"{gpu.name} needs {needed} or newer",
            f"choose {needed} or newer",
            gpu.source,
        )
    for issue in catalog.load().driver_issues:
        concerned = (not issue.gpus or gpu in issue.gpus) and (
            issue.nodes == "partitioned" or not all(offer.layouts)
        )
        if driver.version in issue.drivers and concerned:
            yield refuse(
                driver.key,
                f"driver {driver.version} {issue.defect} ({gpu.name} of pool {pool})",
                "choose a newer one",
                issue.source,
            )

"""Kubernetes versions: those that a cloud has, and the ends of their support."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Final

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import KubernetesVersion
from slicewright.infra.plan.findings import Checked, Finding, listed, refuse, rule
from slicewright.infra.plan.model.fleets import EksFleetPlan, FleetPlan, GkeFleetPlan

_SOON: Final = 90
"""A note names an end of support that is at most as many days away."""
_NEWER: Final = 3
"""Minor versions, as many as Kubernetes releases in a year, that may be newer than the record."""
_PATH = ("cluster", "version")


@rule("eks-version")
def check_eks_version(cluster: stack_file.EksCluster) -> Checked[None]:
    aws = catalog.aws()
    if cluster.version is None or _is_newer(cluster.version, aws.versions):
        return
    version = aws.versions.get(cluster.version)
    supported = [v.minor for v in aws.versions.values() if v.is_supported(aws.day)]
    if version is None:
        yield _unknown("EKS", cluster.version, supported, aws.day)
    elif not version.is_supported(aws.day):
        yield refuse(
            _PATH,
            f"extended support of Kubernetes {version.minor} ended on {version.extended}: EKS "
            "creates no cluster with it, and upgrades those that have it",
            f"write {' or '.join((supported[-1], *supported[-2:-1]))}",
            "EKS docs, Kubernetes versions",
            dated=True,
        )


@rule("gke-version")
def check_gke_version(cluster: stack_file.GkeCluster) -> Checked[None]:
    gcp, minor = catalog.gcp(), _minor(cluster.version)
    if minor is None or _is_newer(minor, gcp.versions):
        return
    version = gcp.versions.get(minor)
    has_extended = cluster.release_channel == "EXTENDED"
    offered = [
        v.minor for v in gcp.versions.values() if has_extended or v.has_standard_support(gcp.day)
    ]
    if version is None:
        yield _unknown("GKE", cluster.version, offered, gcp.day)
    elif minor not in offered:
        yield refuse(
            _PATH,
            f"standard support of Kubernetes {minor} ended on {version.standard}: only the "
            "release channel EXTENDED has it",
            f"write {' or '.join(offered[-1:-3:-1])}, or cluster.release_channel: EXTENDED",
            "GKE docs, release schedule",
            dated=True,
        )


def support_notes(fleet: FleetPlan, day: date) -> list[str]:
    """Notes on a version that is newer than the record, or whose support ends or has ended.

    day: today.
    """
    match fleet:
        case EksFleetPlan():
            aws = catalog.aws()
            notes = _notes("EKS", fleet.cluster.version, aws.versions, aws.day)
            return [*notes, *_eks_ends(aws.versions.get(fleet.cluster.version or ""), day)]
        case GkeFleetPlan():
            gcp, minor = catalog.gcp(), _minor(fleet.cluster.version)
            notes = _notes("GKE", minor, gcp.versions, gcp.day)
            return [*notes, *_gke_ends(gcp.versions.get(minor or ""), day)]
        case _:
            return []


def _notes(
    cloud: str, minor: str | None, versions: Mapping[str, KubernetesVersion], day: date
) -> list[str]:
    if minor is None or not _is_newer(minor, versions):
        return []
    return [
        f"cluster.version: Kubernetes {minor} is newer than slicewright's record of {cloud} of "
        f"{day}: `slicewright doctor` asks the account whether it has it"
    ]


def _eks_ends(version: KubernetesVersion | None, day: date) -> list[str]:
    if version is None or version.standard is None or version.extended is None:
        return []
    at = f"cluster.version: Kubernetes {version.minor}:"
    if not version.is_supported(day):
        return [
            f"{at} extended support ended on {version.extended}: EKS creates no cluster with it, "
            "and upgrades those that have it"
        ]
    if not version.has_standard_support(day):
        return [
            f"{at} in extended support, which AWS bills in addition, since {version.standard}, "
            f"until {version.extended}{_in_days(version.extended, day)}; then EKS upgrades the "
            "cluster by itself"
        ]
    if (version.standard - day).days <= _SOON:
        return [
            f"{at} standard support ends on {version.standard}{_in_days(version.standard, day)}; "
            f"extended support, until {version.extended}, is billed in addition"
        ]
    return []


def _gke_ends(version: KubernetesVersion | None, day: date) -> list[str]:
    if version is None or version.standard is None:
        return []
    at = f"cluster.version: Kubernetes {version.minor}:"
    if not version.has_standard_support(day):
        return [
            f"{at} standard support ended on {version.standard}: only the release channel "
            "EXTENDED keeps it, up to 24 months after its release; GKE upgrades other clusters"
        ]
    if (version.standard - day).days <= _SOON:
        return [
            f"{at} standard support ends on {version.standard}{_in_days(version.standard, day)}; "
            "then only the release channel EXTENDED keeps it, and GKE upgrades other clusters"
        ]
    return []


def _in_days(end: date, day: date) -> str:
    days = (end - day).days
    return f" (in {days} day{'s' if days != 1 else ''})" if days <= _SOON else ""


def _minor(version: str | None) -> str | None:
    """`1.34.1-gke.1431000` -> `1.34`. None: GKE chooses."""
    return None if version in (None, "latest") else ".".join(version.split(".")[:2])


def _is_newer(minor: str, versions: Iterable[str]) -> bool:
    """True for one of the next minor versions after the newest: a typing error is further off."""
    newest = max(map(_number, versions))
    return newest < _number(minor) <= newest + _NEWER


def _number(minor: str) -> int:
    """The minor version as a number. Zero for a version that is not of Kubernetes 1."""
    major, _, number = minor.partition(".")
    return int(number) if major == "1" and number.isdecimal() else 0


def _unknown(cloud: str, version: str | None, versions: Iterable[str], day: date) -> Finding:
    return refuse(
        _PATH,
        f"{version} is not a Kubernetes version that {cloud} had on {day}",
        f"known: {listed([*versions])}",
        f"{cloud} docs, Kubernetes versions",
        dated=True,
    )

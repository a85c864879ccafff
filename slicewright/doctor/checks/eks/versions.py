"""Checks whether EKS has the versions a plan names: Kubernetes, add-ons, machine images. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok
from slicewright.infra.plan import EksAddonPlan, EksFleetPlan, EksPoolPlan


@dataclass(frozen=True, kw_only=True)
class ClusterVersion:
    support: Literal["standard", "extended"]
    until: str | None
    """The end date of that support, such as 2027-03-23. None: EKS does not say."""
    default: bool
    """True if a cluster that states no version gets this one."""


Versions = Mapping[str, ClusterVersion]
"""Kubernetes version -> its support. Only versions that EKS supports."""


@dataclass(frozen=True, kw_only=True)
class AddonVersions:
    fitting: tuple[str, ...]
    """The versions for the cluster's Kubernetes, newest first."""
    default: str | None
    elsewhere: bool
    """True if the add-on exists: it has versions for some version of Kubernetes."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """A machine image of EKS, by the Kubernetes version, architecture and day in its name."""

    version: str
    architecture: Literal["x86_64", "arm64"]
    day: str


@dataclass(frozen=True, kw_only=True)
class Releases:
    exact: str | None
    """The release of that day. None: there is no such release."""
    newest: str | None


def version_of(fleet: EksFleetPlan, versions: Answer[Versions]) -> str | None:
    """The version of the cluster once it is created. None: unknown."""
    if fleet.cluster.version is not None or isinstance(versions, NotAnswered):
        return fleet.cluster.version
    return next((name for name, support in versions.items() if support.default), None)


def images_needed(fleet: EksFleetPlan) -> Mapping[str, Image]:
    """Pool -> the image of its release_version. A pool without one gets the newest image.

    Bottlerocket images are left out: AWS lists them elsewhere.
    """
    return {
        pool.name: _image(pool, pool.settings.release_version)
        for pool in fleet.pools
        if pool.settings.release_version is not None and not pool.settings.bottlerocket
    }


def _image(pool: EksPoolPlan, release: str) -> Image:
    kubernetes, _, day = release.partition("-")
    return Image(
        version=".".join(kubernetes.split(".")[:2]),
        architecture="arm64" if "_ARM_64_" in pool.settings.ami_type else "x86_64",
        day=day,
    )


@checks("eks-version")
def cluster_version(fleet: EksFleetPlan, answer: Answer[Versions]) -> Iterator[Finding]:
    version = fleet.cluster.version
    if version is None or fleet.cluster.existing:
        return
    subject = f"Kubernetes {version} of EKS in {fleet.cluster.region}"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
    elif version in answer:
        offer = answer[version]
        until = f" until {offer.until}" if offer.until else ""
        dearer = ", which costs more per hour" if offer.support == "extended" else ""
        yield ok(subject, f"offered, in {offer.support} support{until}{dearer}")
    else:
        offered = ", ".join(sorted(answer, key=_order))
        yield fails(subject, "not offered", f"write one of {offered} as cluster.version")


@checks("eks-addon")
def addon_findings(
    fleet: EksFleetPlan, version: str | None, answers: Mapping[str, Answer[AddonVersions]]
) -> Iterator[Finding]:
    """version: the cluster's version. None: unknown, so any version that EKS supports counts."""
    where = f"of Kubernetes {version}" if version else "of EKS"
    for addon in fleet.cluster.addons:
        subject = f"add-on {addon.name} {where} in {fleet.cluster.region}"
        match answers[addon.name]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case AddonVersions() as versions:
                yield _addon(subject, addon, versions)
            case other:
                assert_never(other)


def _addon(subject: str, addon: EksAddonPlan, versions: AddonVersions) -> Finding:
    key = f"cluster.addons.{addon.name}"
    if not versions.fitting:
        return fails(
            subject,
            "has no version for this Kubernetes" if versions.elsewhere else "does not exist",
            f"remove {key}, or write another cluster.version",
        )
    if addon.version is None:
        return ok(subject, f"{versions.default or versions.fitting[0]}, by default")
    if addon.version in versions.fitting:
        return ok(subject, addon.version)
    return fails(
        subject,
        f"{addon.version} does not support this Kubernetes version",
        f"write {' or '.join(versions.fitting[:3])} as {key}.version",
    )


@checks("eks-image-release")
def image_findings(
    fleet: EksFleetPlan, answers: Mapping[Image, Answer[Releases]]
) -> Iterator[Finding]:
    releases = {pool.name: pool.settings.release_version for pool in fleet.pools}
    for name, image in images_needed(fleet).items():
        subject = f"machine image {releases[name]} ({image.architecture}) of pool {name}"
        match answers[image]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case Releases(exact=exact) if exact == releases[name]:
                yield ok(subject, f"exists in {fleet.cluster.region}")
            case Releases(exact=exact, newest=newest):
                instead = exact or newest
                yield fails(
                    subject,
                    f"does not exist; the release of that day is {exact}"
                    if exact
                    else f"does not exist in {fleet.cluster.region}",
                    f"write {instead} as release_version, or remove it"
                    if instead
                    else "remove release_version",
                )
            case other:
                assert_never(other)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())

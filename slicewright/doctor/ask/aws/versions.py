"""Asks AWS for its versions of Kubernetes, add-ons and machine images. Every call only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.checks.eks.versions import (
    AddonVersions,
    ClusterVersion,
    Image,
    Releases,
    Versions,
)
from slicewright.doctor.findings import Answer

_NO_ADDON = ("InvalidParameterException", "ResourceNotFoundException")
_RECOMMENDED = "recommended"


def ask_versions(session: AwsSession) -> Answer[Versions]:
    def read() -> Versions:
        pages = session.client("eks").get_paginator("describe_cluster_versions").paginate()
        return {
            description["clusterVersion"]: _version(description)
            for page in pages
            for description in page["clusterVersions"]
            if description.get("versionStatus") != "UNSUPPORTED"
        }

    return session.answer("eks:DescribeClusterVersions", read)


def _version(description: Mapping[str, Any]) -> ClusterVersion:
    extended = description.get("versionStatus") == "EXTENDED_SUPPORT"
    end = description.get("endOfExtendedSupportDate" if extended else "endOfStandardSupportDate")
    return ClusterVersion(
        support="extended" if extended else "standard",
        until=None if end is None else f"{end:%Y-%m-%d}",
        default=bool(description.get("defaultVersion")),
    )


def ask_addons(
    session: AwsSession, names: Iterable[str], version: str | None
) -> Mapping[str, Answer[AddonVersions]]:
    """version: Kubernetes's version, or None for any."""
    return {
        name: session.answer("eks:DescribeAddonVersions", partial(_addon, session, name, version))
        for name in names
    }


def _addon(session: AwsSession, name: str, version: str | None) -> AddonVersions:
    of_kubernetes = {} if version is None else {"kubernetesVersion": version}
    releases = _addon_versions(session, addonName=name, **of_kubernetes)
    return AddonVersions(
        fitting=tuple(release["addonVersion"] for release in releases),
        default=next(
            (release["addonVersion"] for release in releases if _is_default(release, version)), None
        ),
        elsewhere=bool(releases or _addon_versions(session, addonName=name)),
    )


def _addon_versions(session: AwsSession, **parameters: str) -> list[Mapping[str, Any]]:
    """Returns an empty list if EKS does not know the add-on."""
    pages = session.client("eks").get_paginator("describe_addon_versions").paginate(**parameters)
    try:
        addons = [addon for page in pages for addon in page["addons"]]
    except session.errors.ClientError as e:
        if code_of(e) not in _NO_ADDON:
            raise
        return []
    return [release for addon in addons for release in addon["addonVersions"]]


def _is_default(release: Mapping[str, Any], version: str | None) -> bool:
    return any(
        compatibility.get("defaultVersion")
        and version in (None, compatibility.get("clusterVersion"))
        for compatibility in release.get("compatibilities", ())
    )


def ask_images(session: AwsSession, images: Iterable[Image]) -> Mapping[Image, Answer[Releases]]:
    return {
        image: session.answer("ssm:GetParameter", partial(_releases, session, image))
        for image in images
    }


def _releases(session: AwsSession, image: Image) -> Releases:
    """Sources: EKS user guide, retrieve recommended Amazon Linux AMI IDs; awslabs/amazon-eks-ami
    #1843.
    """
    of_day = f"amazon-eks-node-al2023-{image.architecture}-nvidia-{image.version}-v{image.day}"
    exact = _release(session, image, of_day)
    return Releases(exact=exact, newest=exact or _release(session, image, _RECOMMENDED))


def _release(session: AwsSession, image: Image, name: str) -> str | None:
    path = f"/aws/service/eks/optimized-ami/{image.version}/amazon-linux-2023/{image.architecture}"
    try:
        response = session.client("ssm").get_parameter(Name=f"{path}/nvidia/{name}/release_version")
    except session.errors.ClientError as e:
        if code_of(e) != "ParameterNotFound":
            raise
        return None
    return str(response["Parameter"]["Value"])

"""Kubernetes versions of the simulated GKE's control planes.

Which ones GKE offers changes weekly; here it is every patch of four minors. The rehearsal's API
servers stay at theirs whatever a cluster is said to have.
"""

from __future__ import annotations

import re

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.defaults import VERSION

_FORM = re.compile(r"1\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")
_MINORS = range(34, 38)


def chosen(requested: str) -> str:
    """The full version for one that may be cut short; `-` and `latest` are GKE's choice.

    Raises CloudError.
    """
    if requested in ("-", "latest"):
        return VERSION
    match = _FORM.fullmatch(requested)
    if match is None or int(match[1]) not in _MINORS:
        raise _unsupported(requested)
    if match[3] is not None:
        return requested
    if f"{VERSION}.".startswith((f"{requested}.", f"{requested}-")):
        return VERSION
    return f"1.{match[1]}.{match[2] or 1}-gke.1000000"


def server_config() -> JsonObject:
    """One patch of each minor, the same in every channel and location."""
    offered = [chosen(f"1.{minor}") for minor in reversed(_MINORS)]
    return {
        "defaultClusterVersion": VERSION,
        "validMasterVersions": offered,
        "validNodeVersions": offered,
        "defaultImageType": "COS_CONTAINERD",
        "validImageTypes": ["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
        "channels": [
            {"channel": channel, "defaultVersion": VERSION, "validVersions": offered}
            for channel in ("RAPID", "REGULAR", "STABLE", "EXTENDED")
        ],
    }


def upgraded(current: str, requested: str) -> str:
    """Raises CloudError where it is lower than the current one, or more than a minor higher.

    Source: Google Cloud, "About GKE cluster upgrades": no downgrade of a minor version of the
    control plane, and one minor version at a time.
    """
    target = chosen(requested)
    (old, *_), (new, *_) = _numbers(current), _numbers(target)
    if _numbers(target) < _numbers(current):
        raise google_error(
            400, f'Master version "{target}" is lower than the current version "{current}".'
        )
    if new > old + 1:
        raise google_error(
            400,
            f'Master cannot be upgraded from "{current}" to "{target}": cannot upgrade the master '
            "by more than one minor version at a time.",
        )
    return target


def _numbers(version: str) -> tuple[int, ...]:
    match = _FORM.fullmatch(version)
    return tuple(int(part or 0) for part in match.groups()) if match else (0, 0, 0)


def _unsupported(version: str) -> CloudError:
    return google_error(400, f'Master version "{version}" is unsupported.')

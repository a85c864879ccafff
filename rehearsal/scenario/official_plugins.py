"""Pulumi's own provider plugins, where they are installed, in place of the rehearsal's stand-ins.

Which run: kubernetes wherever it is installed, for it speaks to a real API server; gcp and aws
where SLICEWRIGHT_PLUGINS=official asks for them. Their calls go to the simulated clouds by
endpoints in the environment (`cloud_variables`); the program under rehearsal is the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path

from slicewright.rehearsal.scenario.errors import WrongUse

PACKAGES = ("gcp", "aws", "kubernetes")
VARIABLE = "SLICEWRIGHT_PLUGINS"
KUBERNETES_VARIABLE = "SLICEWRIGHT_KUBERNETES_PLUGIN"
_OFFICIAL, _STAND_IN = "official", "stand-in"
_DIRECTORY = re.compile(r"resource-[a-z]+-v(\d+)\.(\d+)\.(\d+)(?:-(.+))?")
_STAND_INS = b"slicewright.rehearsal.plugins.providers."


def all_wanted(environment: Mapping[str, str]) -> bool:
    """Whether no stand-in is to run. Raises WrongUse for a value that is not `official`."""
    choice = environment.get(VARIABLE, "")
    if choice and choice != _OFFICIAL:
        raise WrongUse(
            f"{VARIABLE} is {choice!r}; it must be {_OFFICIAL!r} (Pulumi's own plugins for gcp, "
            "aws and kubernetes) or unset"
        )
    return choice == _OFFICIAL


def kubernetes_kept_out(environment: Mapping[str, str]) -> bool:
    """Whether an installed kubernetes plugin is to be left alone.

    Raises WrongUse where SLICEWRIGHT_KUBERNETES_PLUGIN has another value than `stand-in`.
    """
    choice = environment.get(KUBERNETES_VARIABLE, "")
    if choice and choice != _STAND_IN:
        raise WrongUse(
            f"{KUBERNETES_VARIABLE} is {choice!r}; it must be {_STAND_IN!r} (never use an "
            "installed kubernetes plugin) or unset"
        )
    return choice == _STAND_IN


def chosen() -> dict[str, Path]:
    """Package -> Pulumi's own plugin, of those that run in this rehearsal. Raises WrongUse."""
    found = {package: newest(package) for package in sorted(_wanted())}
    return {package: path for package, path in found.items() if path is not None}


def require(packages: Collection[str]) -> None:
    """Raises WrongUse where SLICEWRIGHT_PLUGINS asks for a plugin that is not installed.

    packages: those that the stack needs.
    """
    if not all_wanted(os.environ):
        return
    missing = sorted(p for p in _wanted() & set(packages) if newest(p) is None)
    if missing:
        raise WrongUse(
            f"{VARIABLE}={_OFFICIAL} needs Pulumi's own plugins for {' and '.join(missing)}, and "
            f"{_plugins()} has none of version {', '.join(f'v{_major(p)}' for p in missing)}; "
            f"install with: "
            + "; ".join(
                f"pulumi plugin install resource {p} {metadata.version(f'pulumi-{p}')}"
                for p in missing
            )
            + f". Without {VARIABLE} the rehearsal's stand-ins run"
        )


def newest(package: str) -> Path | None:
    """Pulumi's own plugin: of the SDK's major version, the newest that this user has installed."""
    found = sorted(
        (version, path)
        for path in _plugins().glob(
            f"resource-{package}-v{_major(package)}.*/pulumi-resource-{package}"
        )
        # Inside a rehearsal's exported environment PULUMI_HOME is that rehearsal's own.
        if (version := _version(path.parent.name)) and not _is_stand_in(path)
    )
    return found[-1][1] if found else None


def _wanted() -> set[str]:
    """The packages whose official plugin is to run if there is one."""
    wanted = set(PACKAGES) if all_wanted(os.environ) else {"kubernetes"}
    return wanted - {"kubernetes"} if kubernetes_kept_out(os.environ) else wanted


def _plugins() -> Path:
    return Path(os.environ.get("PULUMI_HOME", Path.home() / ".pulumi")) / "plugins"


def _major(package: str) -> str:
    return metadata.version(f"pulumi-{package}").partition(".")[0]


_Identifier = tuple[bool, int, str]


def _version(directory: str) -> tuple[int, int, int, bool, tuple[_Identifier, ...]] | None:
    """A sort key: numbers as numbers, a pre-release before its release (semver.org, 11)."""
    match = _DIRECTORY.fullmatch(directory)
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups()
    identifiers = tuple(
        (False, int(i), "") if i.isdecimal() else (True, 0, i)
        for i in (prerelease or "").split(".")
    )
    return int(major), int(minor), int(patch), prerelease is None, identifiers


def _is_stand_in(plugin: Path) -> bool:
    with plugin.open("rb") as content:
        return _STAND_INS in content.read(4096)

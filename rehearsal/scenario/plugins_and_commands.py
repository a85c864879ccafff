"""Pulumi's plugins and the commands of an environment: its PULUMI_HOME and its `bin/`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from rehearsal.host.toolchain import Toolchain
from rehearsal.scenario.errors import WrongUse

CHOICE_VARIABLE = "SLICEWRIGHT_KUBERNETES_PLUGIN"
_STAND_IN = "stand-in"

_LANGUAGE_HOST = "pulumi-language-python"
_PROVIDERS: Mapping[str, str] = {
    "gcp": "rehearsal.plugins.providers.gcp",
    "aws": "rehearsal.plugins.providers.aws",
    "kubernetes": "rehearsal.plugins.providers.kubernetes",
}
_COMMANDS: Mapping[str, str] = {
    _LANGUAGE_HOST: "rehearsal.plugins.engine.language_host",
    **{f"pulumi-resource-{name}": module for name, module in _PROVIDERS.items()},
    "gke-gcloud-auth-plugin": "rehearsal.clouds.gcp.gke_auth",
    "aws": "rehearsal.clouds.aws.cli",
    "slicewright": "slicewright.cli",
}
_OFFICIAL = re.compile(r"resource-kubernetes-v(\d+)\.(\d+)\.(\d+)(-.+)?")


def install(root: Path, toolchain: Toolchain) -> None:
    """Writes or renews the commands in `root/bin` and the plugins in `root/pulumi/home`."""
    commands = root / "bin"
    for name, module in _COMMANDS.items():
        _script(commands / name, f'exec "{sys.executable}" -m {module} "$@"')
    if official := official_kubernetes_plugin():
        link(commands / "pulumi-resource-kubernetes", official)
    link(commands / "pulumi", toolchain.pulumi)
    _script(commands / "kubectl", f'exec "{toolchain.control_plane}" kubectl "$@"')
    installed = {
        f"resource-{name}-v{metadata.version(f'pulumi-{name}')}": f"pulumi-resource-{name}"
        for name in _PROVIDERS
    }
    installed[f"language-python-v{metadata.version('pulumi')}"] = _LANGUAGE_HOST
    for directory, command in installed.items():
        plugin = root / "pulumi" / "home" / "plugins" / directory / command
        plugin.parent.mkdir(parents=True, exist_ok=True)
        link(plugin, commands / command)


def engine_settings(root: Path) -> dict[str, str]:
    """Variables that make the engine use the installed plugins instead of those on PATH.

    The engine warns of every plugin that it takes from PATH. It prefers a language host beside its
    own program to an installed one; where there is one, PATH is the only way to the stand-in, and
    the warnings stay. Source: pulumi/pulumi, sdk/go/common/workspace/plugins.go.
    """
    engine = (root / "bin" / "pulumi").resolve()
    return (
        {}
        if (engine.parent / _LANGUAGE_HOST).exists()
        else {"PULUMI_IGNORE_AMBIENT_PLUGINS": "true"}
    )


def uses_stand_in(environment: Mapping[str, str]) -> bool:
    """Whether an installed kubernetes plugin is to be left alone.

    Raises WrongUse where SLICEWRIGHT_KUBERNETES_PLUGIN has another value than `stand-in`.
    """
    choice = environment.get(CHOICE_VARIABLE, "")
    if choice and choice != _STAND_IN:
        raise WrongUse(
            f"{CHOICE_VARIABLE} is {choice!r}; it must be {_STAND_IN!r} (never use an installed "
            "kubernetes plugin) or unset"
        )
    return choice == _STAND_IN


def official_kubernetes_plugin() -> Path | None:
    """The newest v4 of Pulumi's own kubernetes plugin that is installed for this user, or None.

    None also where SLICEWRIGHT_KUBERNETES_PLUGIN asks for the stand-in. Raises WrongUse.
    """
    if uses_stand_in(os.environ):
        return None
    home = Path(os.environ.get("PULUMI_HOME", Path.home() / ".pulumi"))
    found = sorted(
        (version, path)
        for path in home.glob("plugins/resource-kubernetes-v4.*/pulumi-resource-kubernetes")
        # Inside a rehearsal's exported environment PULUMI_HOME is that rehearsal's own.
        if (version := _version(path.parent.name)) and not _is_stand_in(path)
    )
    return found[-1][1] if found else None


def _version(directory: str) -> tuple[int, int, int, bool, str] | None:
    """A sort key: numbers as numbers, and a pre-release before its release."""
    match = _OFFICIAL.fullmatch(directory)
    if match is None:
        return None
    major, minor, patch, prerelease = match.groups()
    return int(major), int(minor), int(patch), prerelease is None, prerelease or ""


def _is_stand_in(plugin: Path) -> bool:
    with plugin.open("rb") as content:
        return _PROVIDERS["kubernetes"].encode() in content.read(4096)


def link(path: Path, target: Path) -> None:
    """Makes `path` a symbolic link to `target`, whatever it was before."""
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _script(path: Path, line: str) -> None:
    # Replaced, not written in place: a running shell reads its script as it goes.
    new = path.with_suffix(".new")
    new.write_text(f"#!/bin/sh\n{line}\n")
    new.chmod(0o755)
    new.replace(path)

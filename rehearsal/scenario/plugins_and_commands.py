"""Pulumi's plugins and the commands of an environment: its PULUMI_HOME and its `bin/`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine.home import make_home
from slicewright.rehearsal.scenario import official_plugins

_LANGUAGE_HOST = "pulumi-language-python"
_PROVIDERS: Mapping[str, str] = {
    "gcp": "slicewright.rehearsal.plugins.providers.gcp",
    "aws": "slicewright.rehearsal.plugins.providers.aws",
    "kubernetes": "slicewright.rehearsal.plugins.providers.kubernetes",
}
CREDENTIAL_PLUGINS: Mapping[str, str] = {
    "gke-gcloud-auth-plugin": "slicewright.rehearsal.clouds.gcp.gke_auth",
    "aws": "slicewright.rehearsal.clouds.aws.cli",
}
_COMMANDS: Mapping[str, str] = {
    _LANGUAGE_HOST: "slicewright.rehearsal.plugins.engine.language_host",
    **{f"pulumi-resource-{name}": module for name, module in _PROVIDERS.items()},
    **CREDENTIAL_PLUGINS,
    "slicewright": "slicewright.cli",
}


def install(root: Path, toolchain: Toolchain) -> None:
    """Writes or renews the commands in `root/bin` and the plugins in `root/pulumi/home`."""
    commands = root / "bin"
    for name, module in _COMMANDS.items():
        _script(commands / name, f'exec "{sys.executable}" -m {module} "$@"')
    for package, official in official_plugins.chosen().items():
        link(commands / f"pulumi-resource-{package}", official)
    link(commands / "pulumi", toolchain.pulumi)
    _script(commands / "kubectl", f'exec "{toolchain.control_plane}" kubectl "$@"')
    installed = {
        f"resource-{name}-v{metadata.version(f'pulumi-{name}')}": f"pulumi-resource-{name}"
        for name in _PROVIDERS
    }
    installed[f"language-python-v{metadata.version('pulumi')}"] = _LANGUAGE_HOST
    home = root / "pulumi" / "home"
    make_home(home)
    for directory, command in installed.items():
        plugin = home / "plugins" / directory / command
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

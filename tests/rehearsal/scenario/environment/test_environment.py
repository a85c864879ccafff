"""The directory of a rehearsal: what is in it, what a person gets to use it, and whose
plugins run.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from rehearsal.host.toolchain import Toolchain
from rehearsal.scenario import environment as environments
from rehearsal.scenario.environment import PROJECT, Environment, RehearsalError


@pytest.fixture
def tools(tmp_path: Path) -> Toolchain:
    """Nothing is started here, so files of the right names will do."""
    names = (
        "pulumi",
        "control_plane",
        "kwok",
        "mig_parted",
        "mig_manager",
        "device_plugin",
        "gpu_feature_discovery",
        "gke_device_plugin",
        "fake_nvml",
    )
    (tmp_path / "tools").mkdir()
    for name in names:
        (tmp_path / "tools" / name).write_text("#!/bin/sh\n")
        (tmp_path / "tools" / name).chmod(0o755)
    return Toolchain(**{name: tmp_path / "tools" / name for name in names})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PULUMI_HOME", raising=False)
    return tmp_path / "home"


@pytest.mark.usefixtures("home")
def test_the_stand_in_serves_where_no_official_plugin_is_installed(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E", tools)
    assert (
        "rehearsal.plugins.providers.kubernetes"
        in (environment.root / "bin" / "pulumi-resource-kubernetes").read_text()
    )


def test_an_installed_official_kubernetes_plugin_takes_its_place(
    tools: Toolchain, tmp_path: Path, home: Path
) -> None:
    official = (
        home / ".pulumi" / "plugins" / "resource-kubernetes-v4.34.2" / "pulumi-resource-kubernetes"
    )
    official.parent.mkdir(parents=True)
    official.write_text("official")
    environment = environments.create(tmp_path / "E", tools)
    assert (environment.root / "bin" / "pulumi-resource-kubernetes").resolve() == official
    assert (
        "rehearsal.plugins.providers.gcp"
        in (environment.root / "bin" / "pulumi-resource-gcp").read_text()
    )


def test_and_can_be_kept_out(
    tools: Toolchain, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    official = (
        home / ".pulumi" / "plugins" / "resource-kubernetes-v4.34.2" / "pulumi-resource-kubernetes"
    )
    official.parent.mkdir(parents=True)
    official.write_text("official")
    monkeypatch.setenv("SLICEWRIGHT_KUBERNETES_PLUGIN", "stand-in")
    environment = environments.create(tmp_path / "E", tools)
    assert (
        "rehearsal.plugins.providers.kubernetes"
        in (environment.root / "bin" / "pulumi-resource-kubernetes").read_text()
    )


@pytest.mark.usefixtures("home")
def test_the_exports_are_shell_and_put_the_rehearsals_commands_first(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E with a space", tools)
    asked = f"{environment.exports()}\ncommand -v pulumi-resource-gcp; echo $PULUMI_BACKEND_URL"
    told = subprocess.run(
        ["sh", "-ec", asked], capture_output=True, text=True, check=True, env=dict(os.environ)
    ).stdout.split("\n")
    assert told[0] == str(environment.root / "bin" / "pulumi-resource-gcp")
    assert told[1] == f"file://{environment.root}/pulumi/state"
    assert shlex.split(environment.exports().split("\n")[0])[0] == "export"


@pytest.mark.usefixtures("home")
def test_the_program_is_the_checkouts_own_and_the_stack_files_are_copies(
    tools: Toolchain, tmp_path: Path
) -> None:
    environment = environments.create(tmp_path / "E", tools)
    for name in ("Pulumi.yaml", "infra"):
        assert (environment.project / name).resolve() == PROJECT / name
    copy = environment.stack_file("s0")
    assert copy.read_bytes() == (PROJECT / "stacks" / copy.name).read_bytes()
    assert not copy.is_symlink()
    copy.write_text("changed by hand")
    environments.create(tmp_path / "E", tools)
    assert copy.read_text() == "changed by hand", (
        "making an environment again lost what a person wrote"
    )


@pytest.mark.usefixtures("home")
def test_only_its_owner_can_enter_it(tools: Toolchain, tmp_path: Path) -> None:
    environment = environments.create(tmp_path / "E", tools)
    assert environment.root.stat().st_mode & 0o077 == 0
    assert (environment.root / "pulumi" / "passphrase").stat().st_mode & 0o077 == 0


def test_a_directory_that_is_no_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="no rehearsal environment"):
        _ = Environment(tmp_path).toolchain


def test_a_cloud_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RehearsalError, match="does not answer"):
        Environment(tmp_path).inventory()

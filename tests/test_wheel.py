"""The wheel installs one top-level name, with all data that the packages read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("apis", "infra", "node_agent", "fleet_controller", "kubeapi", "telemetry", "rehearsal")
"""Folders of the repository that slicewright/ links to."""

NOT_INSTALLED = {
    "Containerfile",
    "README.md",
    "pyproject.toml",
    "requirements.lock",
    "gpu-partitions.yaml",
    "slicewright-partitions.service",
}
"""They are used from a checkout: docs/how-to/bare-host.md."""

# It builds a wheel: no unit test.
pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without network from a copy of the sources, beside an old build/."""
    sources, out = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__", ".venv")
    for package in ("slicewright", *PACKAGES):
        shutil.copytree(ROOT / package, sources / package, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    old = sources / "build" / "lib" / "infra"
    old.mkdir(parents=True)
    (old / "__init__.py").touch()
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "-w", out, sources],
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"},
        capture_output=True,
        check=True,
    )
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and nothing else."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False, symlinks=True)
    (site,) = directory.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return directory / "bin" / "python"


def run(python: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-c", code], cwd="/", capture_output=True, text=True, check=False
    )


def test_wheel_installs_only_the_name_slicewright(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {PurePosixPath(name).parts[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"slicewright"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_found_under_slicewright_only(package: str, python: Path) -> None:
    bare = run(python, f"import {package}")
    assert f"No module named '{package}'" in bare.stderr
    inside = run(python, f"import slicewright.{package} as it; print(it.__file__)")
    assert f"site-packages/slicewright/{package}/" in inside.stdout, inside.stderr


def test_wheel_contains_every_tracked_data_file(wheel: Path) -> None:
    """Texts that people read and files of other tools in a package's folder are not installed."""
    files = subprocess.run(
        ["git", "ls-files", *PACKAGES, "slicewright"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    expected = {
        file if file.startswith("slicewright/") else f"slicewright/{file}"
        for file in files
        if not (ROOT / file).is_symlink()
    }
    with zipfile.ZipFile(wheel) as archive:
        missing = expected - set(archive.namelist())
    assert {PurePosixPath(file).name for file in missing} <= NOT_INSTALLED


FLEETS = {
    "gke": (
        *("--cloud", "gke", "--google-project", "my-project"),
        *("--machine-type", "a3-highgpu-8g", "--layout", "3g.40gb"),
    ),
    "eks": ("--cloud", "eks", "--machine-type", "p4d.24xlarge", "--layout", "1g.5gb=2,3g.20gb=1"),
    "existing": ("--cloud", "existing", "--contexts", "main", "--gpu", "L4"),
}

DRAWN = {"gke": "3g.40gb", "eks": "1g.5gb", "existing": "whole"}

PROGRAM = """\
import json, runpy, pulumi, yaml

created = []

class Mocks(pulumi.runtime.Mocks):
    def new_resource(self, args):
        created.append(args.typ)
        return f"{args.name}-id", args.inputs

    def call(self, args):
        return {}, []

pulumi.runtime.set_mocks(Mocks(), stack="dev", preview=True)
with open("stacks/Pulumi.dev.yaml") as file:
    config = yaml.safe_load(file)["config"]
pulumi.runtime.set_all_config({
    "gcp:project": config["gcp:project"],
    "slicewright:fleet": json.dumps(config["slicewright:fleet"]),
})
pulumi.runtime.test(lambda: runpy.run_path("__main__.py", run_name="__main__"))()
print(*created)
"""
"""Runs the program of a user's project without an engine."""


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel, and this one's other packages."""
    directory = tmp_path_factory.mktemp("installed")
    venv.create(directory, with_pip=False, symlinks=True)
    programs = directory / "bin"
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install"]
    subprocess.run(
        [*pip, "--no-deps", "--no-index", "--quiet", wheel], capture_output=True, check=True
    )
    (site,) = directory.glob("lib/python*/site-packages")
    # A directory named in such a file is on the path, but its own such files are not read: the
    # editable installation of the checkout stays unseen.
    (site / "other-packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return programs


def run_in(directory: Path, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        command,
        cwd=directory,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.parametrize("cloud", FLEETS)
def test_a_project_is_written_checked_planned_and_reported_without_a_clone(
    cloud: str, installed: Path, tmp_path: Path
) -> None:
    slicewright = installed / "slicewright"
    written = run_in(tmp_path, [slicewright, "init", "--yes", *FLEETS[cloud]])
    assert written.returncode == 0, written.stderr
    checked = run_in(tmp_path, [installed / "python", "-m", "slicewright", "check", "-s", "dev"])
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
    assert "stacks/Pulumi.dev.yaml: ok, 1 pool" in checked.stdout
    planned = run_in(tmp_path, [slicewright, "plan", "-s", "dev"])
    assert (planned.returncode, planned.stderr) == (0, "")
    assert DRAWN[cloud] in planned.stdout
    (tmp_path / "preview.json").write_text('{"steps": [], "changeSummary": {}}')
    reported = run_in(tmp_path, [slicewright, "preview-report", "-s", "dev", "preview.json"])
    assert reported.returncode == 0, reported.stderr
    schema = run_in(tmp_path, [slicewright, "schema"])
    assert schema.stdout == (tmp_path / "stack-file.schema.json").read_text()


def test_a_rehearsal_says_that_it_needs_a_clone(installed: Path, tmp_path: Path) -> None:
    ran = run_in(tmp_path, [installed / "slicewright", "rehearse", "--stack", "dev"])
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (3, "", 1)
    assert "the rehearsal runs in a clone of slicewright" in ran.stderr


def test_the_program_of_a_project_runs_without_a_clone(installed: Path, tmp_path: Path) -> None:
    written = run_in(tmp_path, [installed / "slicewright", "init", "--yes", *FLEETS["gke"]])
    assert written.returncode == 0, written.stderr
    code = "import slicewright; print(slicewright.__file__); import infra"
    bare = run_in(tmp_path, [installed / "python", "-c", code])
    assert bare.stdout.startswith(f"{installed.parent}/lib/")
    assert "No module named 'infra'" in bare.stderr
    ran = run_in(tmp_path, [installed / "python", "-c", PROGRAM])
    assert ran.returncode == 0, ran.stderr
    assert "gcp:container/nodePool:NodePool" in ran.stdout.split()

"""The wheel installs one top-level name, with all data that the packages read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
import zipfile
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

"""The alternative way of delivery says what the first one does. Nothing is built here: that needs a
container runtime.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from slicewright import node_agent

PACKAGE = Path(node_agent.__file__).resolve().parent
REPOSITORY = PACKAGE.parent


@pytest.fixture(scope="module")
def recipe() -> str:
    return (PACKAGE / "Containerfile").read_text()


def test_every_stage_stands_on_the_same_pinned_image(recipe: str) -> None:
    images = re.findall(r"^FROM (\S+)", recipe, re.MULTILINE)
    assert len(images) == 2
    assert len(set(images)) == 1
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim@sha256:[0-9a-f]{64}", images[0])


def test_the_image_runs_as_an_unprivileged_user(recipe: str) -> None:
    assert re.findall(r"^USER (\S+)", recipe, re.MULTILINE) == ["65532:65532"]


def test_containerfile_copies_existing_files(recipe: str) -> None:
    for line in re.findall(r"^COPY (?!--from)(.+)$", recipe, re.MULTILINE):
        *sources, _ = line.split()
        assert all((REPOSITORY / source).exists() for source in sources), line


def _pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Package -> version and hashes."""
    entries = re.findall(
        r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", path.read_text(), re.MULTILINE
    )
    return {
        name: (version, frozenset(re.findall(r"sha256:[0-9a-f]+", hashes)))
        for name, version, hashes in entries
    }


def test_its_dependencies_are_those_of_the_repository_by_version_and_hash() -> None:
    ours, all_of_them = (
        _pins(PACKAGE / "requirements.lock"),
        _pins(REPOSITORY / "requirements.lock"),
    )
    assert ours
    assert ours == {name: all_of_them[name] for name in ours}


@pytest.fixture
def stage(recipe: str, tmp_path: Path) -> Path:
    """The build stage's file system: `packages` with what the lock installs and nothing else, `src`
    with what is copied.
    """
    for name, (version, _) in _pins(PACKAGE / "requirements.lock").items():
        package = distribution(name)
        assert package.version == version, (
            f"{name} {package.version} is installed here: run make setup"
        )
        for file in package.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = tmp_path / "packages" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
    build = recipe.split("\nFROM ")[1]
    for line in re.findall(r"^COPY (.+)$", build, re.MULTILINE):
        *sources, to = line.split()
        for source in sources:
            here, target = REPOSITORY / source, tmp_path / "src" / to
            if here.is_dir():
                shutil.copytree(here, target, dirs_exist_ok=True)
            else:
                target = target / here.name if to.endswith("/") else target
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here, target)
    return tmp_path


def test_its_build_step_makes_the_archive_of_what_it_installs_and_copies(
    recipe: str, stage: Path
) -> None:
    (step,) = re.findall(r"^RUN python -c \"(.+)\"$", recipe, re.MULTILINE)
    archive = stage / "node_agent.pyz"
    # -S: nothing of this environment, as in the image.
    argv = [sys.executable, "-S", "-c", step.replace("/node_agent.pyz", str(archive))]
    built = subprocess.run(
        argv,
        cwd=stage / "src",
        env={"PYTHONPATH": str(stage / "packages")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    helped = subprocess.run(
        [sys.executable, "-I", "-S", str(archive), "apply", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "LAYOUT" in helped.stdout
    assert archive.stat().st_size < 700 * 1024
    with zipfile.ZipFile(archive) as carried:
        inside = {Path(name).parts[0].removesuffix(".py") for name in carried.namelist()}
    for name in _pins(PACKAGE / "requirements.lock"):
        modules = {
            Path(str(file)).parts[0]
            for file in distribution(name).files or ()
            if str(file).endswith(".py")
        }
        assert inside & {module.removesuffix(".py") for module in modules}, (
            f"{name} is in the lock and not in the archive"
        )


def test_the_sbom_is_asked_for_as_podman_knows_it(recipe: str) -> None:
    """podman-build(1): --sbom takes a preset, and one of the outputs must be named with it."""
    (line,) = re.findall(r"^#   (podman build .*--sbom.*)$", recipe, re.MULTILINE)
    presets = "|".join(
        f"{scanner}{kind}" for scanner in ("syft", "trivy") for kind in ("", "-cyclonedx", "-spdx")
    )
    assert re.search(rf"--sbom=({presets}) --sbom-(image-)?(purl-)?output=\S+", line)

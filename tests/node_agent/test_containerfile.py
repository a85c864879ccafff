"""The alternative way of delivery says what the first one does. Nothing is built here: that needs a container runtime."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import node_agent

ROOM = Path(node_agent.__file__).parent
REPOSITORY = ROOM.parent


@pytest.fixture(scope="module")
def recipe() -> str:
    return (ROOM / "Containerfile").read_text()


def test_every_stage_stands_on_the_same_pinned_image(recipe: str) -> None:
    images = re.findall(r"^FROM (\S+)", recipe, re.MULTILINE)
    assert len(images) == 2
    assert len(set(images)) == 1
    assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim@sha256:[0-9a-f]{64}", images[0])


def test_the_image_runs_as_nobody(recipe: str) -> None:
    assert re.findall(r"^USER (\S+)", recipe, re.MULTILINE) == ["65532:65532"]


def test_what_is_copied_is_there(recipe: str) -> None:
    for line in re.findall(r"^COPY (?!--from)(.+)$", recipe, re.MULTILINE):
        *sources, _ = line.split()
        assert all((REPOSITORY / source).exists() for source in sources), line


def test_its_dependencies_are_those_of_the_repository_by_version_and_hash() -> None:
    def pins(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
        entries = re.findall(r"^([a-z0-9-]+)==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)", path.read_text(), re.MULTILINE)
        return {name: (version, frozenset(re.findall(r"sha256:[0-9a-f]+", hashes))) for name, version, hashes in entries}

    ours, all_of_them = pins(ROOM / "requirements.lock"), pins(REPOSITORY / "requirements.lock")
    assert ours.keys() == {"nvidia-ml-py", "urllib3"}
    assert ours == {name: all_of_them[name] for name in ours}


def test_its_build_step_makes_the_archive(recipe: str, tmp_path: Path) -> None:
    (step,) = re.findall(r"^RUN python -c \"(.+)\"$", recipe, re.MULTILINE)
    target = tmp_path / "node_agent.pyz"
    subprocess.run([sys.executable, "-c", step.replace("/node_agent.pyz", str(target))], cwd=REPOSITORY, check=True)
    helped = subprocess.run([sys.executable, "-I", str(target), "apply", "--help"], capture_output=True, text=True, check=True)
    assert "LAYOUT" in helped.stdout
    assert target.stat().st_size < 700 * 1024

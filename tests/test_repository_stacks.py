"""What users keep beside the repository's files, in `stacks/` and `build/`, changes no test."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository_stacks import DIRECTORY, STACKS

ROOT = DIRECTORY.parent
# A module that lists the directory: `(ROOT / "stacks").glob(…)`, `STACKS.iterdir()`, "stacks/*".
LISTING = re.compile(
    r"""(?ix) stacks ["')\s]* \. (?:r?glob | iterdir | walk) \(
      | (?:listdir | scandir | walk | glob) \( .* stacks
      | stacks/ (?:Pulumi\.)? \*"""
)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to tell whose a file is")
def test_every_stack_file_of_the_repository_is_listed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "Pulumi.*.yaml"], cwd=DIRECTORY, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git repository")
    assert listed.stdout.split() == sorted(file.name for file in STACKS)


@pytest.mark.parametrize(
    "line",
    [
        'for stack in sorted((ROOT / "stacks").glob("Pulumi.*.yaml")):',
        "files = sorted(STACKS.iterdir())",
        'os.listdir(ROOT / "stacks")',
        'glob.glob("stacks/*.yaml")',
    ],
)
def test_a_listing_of_the_directory_is_recognised(line: str) -> None:
    assert LISTING.search(line)


def test_tests_and_benchmarks_take_stack_files_from_the_list_and_not_the_directory() -> None:
    assert [
        f"{file.relative_to(ROOT)}:{number}"
        for room in ("tests", "benchmarks")
        for file in sorted((ROOT / room).rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if file != Path(__file__) and LISTING.search(line)
    ] == []


@pytest.mark.parametrize(
    ("command", "nothing"),
    [
        (["ruff", "check"], "All checks passed!"),
        (["pytest", "-p", "no:cacheprovider", "--collect-only", "."], "no tests collected"),
    ],
)
def test_copies_that_pip_and_mutmut_leave_are_not_checked(
    tmp_path: Path, command: list[str], nothing: str
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for directory in ("build/lib/tests", "dist/tests", "mutants/tests"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "test_copy.py").write_text("import os\ndef test_it(): assert False")
    ran = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True
    )
    assert nothing in ran.stdout + ran.stderr

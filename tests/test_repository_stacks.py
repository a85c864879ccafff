"""The tests of all stack files take every one that the repository has, and no other."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.repository_stacks import DIRECTORY, STACKS


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to tell whose a file is")
def test_every_stack_file_of_the_repository_is_listed() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "Pulumi.*.yaml"], cwd=DIRECTORY, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git repository")
    assert listed.stdout.split() == sorted(file.name for file in STACKS)

"""The project around a directory, and its directory of stack files, as the engine finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright.infra import stack_file


def test_the_nearest_pulumi_yaml_above_is_the_project(tmp_path: Path) -> None:
    inner = tmp_path / "fleet" / "docs"
    inner.mkdir(parents=True)
    assert stack_file.find_project(inner) is None
    (tmp_path / "Pulumi.yaml").write_text("name: outer\n")
    (tmp_path / "fleet" / "Pulumi.yaml").write_text("name: inner\n")
    assert stack_file.find_project(inner) == tmp_path / "fleet"
    assert stack_file.find_project(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("text", "directory"),
    [
        ("name: fleet\nruntime: python\n", "."),
        ("name: fleet\nstackConfigDir: stacks\n", "stacks"),
        ("name: fleet\nstackConfigDir: ./environments/\n", "environments"),
        ("name: fleet\nstackConfigDir: [stacks]\n", "."),
        ("name: [\n", "."),
        ("- name\n", "."),
        ("", "."),
    ],
)
def test_stack_files_lie_in_stack_config_dir_or_beside_pulumi_yaml(
    text: str, directory: str, tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.yaml").write_text(text)
    assert stack_file.stack_directory(tmp_path) == tmp_path / directory
    assert stack_file.stack_path(tmp_path, "dev") == tmp_path / directory / "Pulumi.dev.yaml"


def test_a_pulumi_yaml_that_is_not_text_has_no_stack_config_dir(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_bytes(b"stackConfigDir: \xff\n")
    assert stack_file.stack_directory(tmp_path) == tmp_path

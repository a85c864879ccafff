"""Pipelines name what they run by commit, digest or exact version, never by what may move."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.gitops.pipelines import ROOT

FILES = sorted(
    file
    for directory in (ROOT / "gitops", ROOT / ".github")
    for file in directory.rglob("*")
    if file.suffix in (".yaml", ".yml")
)
_ACTION = re.compile(r"\S+@[0-9a-f]{40}")
_IMAGE = re.compile(
    r"[\w./-]+(:v?\d+\.\d+\.\d+[\w.-]*)?@sha256:[0-9a-f]{64}|[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*"
)
_RUNNER = re.compile(r"[a-z]+-\d+\.\d+")


def pinned(key: str, name: str) -> bool:
    match key:
        case "uses":
            # A local action is of the same commit.
            return name.startswith("./") or bool(_ACTION.fullmatch(name))
        case "image":
            return bool(_IMAGE.fullmatch(name))
        case _:
            return bool(_RUNNER.fullmatch(name))


def named(declared: Any) -> Iterator[tuple[str, str]]:
    """Every action, image and runner that a file names, with its key."""
    if isinstance(declared, dict):
        for key, value in declared.items():
            if key in ("uses", "image", "runs-on"):
                name = value.get("name") if isinstance(value, dict) else value
                assert isinstance(name, str), f"{key}: {value}"
                yield key, name
            elif key == "services":
                for service in value if isinstance(value, list) else ():
                    yield "image", service if isinstance(service, str) else service["name"]
            yield from named(value)
    elif isinstance(declared, list):
        for item in declared:
            yield from named(item)


def test_pipelines_use_no_movable_references() -> None:
    found = [
        (file.name, key, name)
        for file in FILES
        for document in yaml.safe_load_all(file.read_text())
        for key, name in named(document)
    ]
    assert {key for _, key, _ in found} == {"uses", "image", "runs-on"}
    assert [row for row in found if not pinned(*row[1:])] == []


def test_every_pinned_commit_has_a_version_comment() -> None:
    for file in FILES:
        for line in file.read_text().splitlines():
            if re.search(r"uses: \S+@", line):
                assert re.search(r"# v\d+\.\d+\.\d+$", line), f"{file.name}: {line.strip()}"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("uses", "pulumi/actions@v7"),
        ("uses", "pulumi/actions@v7.0.0"),
        ("uses", "actions/checkout@main"),
        ("uses", "actions/checkout@11bd719"),
        ("image", "pulumi/pulumi"),
        ("image", "pulumi/pulumi:latest"),
        ("image", "pulumi/pulumi:3"),
        ("image", "pulumi/pulumi:3.259"),
        ("image", "pulumi/pulumi:latest@sha256:12"),
        ("runs-on", "ubuntu-latest"),
    ],
)
def test_a_floating_name_is_recognised(key: str, name: str) -> None:
    assert not pinned(key, name)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("uses", "./.github/actions/slicewright"),
        ("uses", f"actions/checkout@{'0' * 40}"),
        ("image", "docker.io/pulumi/pulumi:3.259.0-nonroot"),
        ("image", f"pulumi/pulumi:3.259.0@sha256:{'0' * 64}"),
        ("image", f"pulumi/pulumi@sha256:{'0' * 64}"),
        ("runs-on", "ubuntu-24.04"),
    ],
)
def test_a_pinned_name_is_taken(key: str, name: str) -> None:
    assert pinned(key, name)

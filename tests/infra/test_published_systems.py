"""docs/reference/published-systems.md has every row of the five published systems; each test that
it or operator-traps.md names exists.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra.stack_file.json_schema import schema

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs/reference"
PAGE = (DOCS / "published-systems.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
"""File, relative to tests/, and name of a test."""
ROWS_OF = {"S0": 55, "S1": 41, "S2": 24, "S3": 19, "S4": 64}
"""How many rows each system has; they are numbered from 01."""
COMPLETE = ("S1", "S2")
"""Systems of which every row has a test, but for these."""
NO_TEST = {
    "S1-23": "not yet",  # a load that needs a real GPU
    "S2-22": "nothing to build",
    "S2-23": "nothing to build",
}


def rows() -> dict[str, list[str]]:
    """Id -> fact, key, proof."""
    found: dict[str, list[str]] = {}
    for line in PAGE.splitlines():
        if re.match(r"\| S\d-", line):
            row, *cells = (cell.strip() for cell in line.strip().strip("|").split(" | "))
            assert row not in found, f"{row} is there twice"
            found[row] = cells
    return found


def named() -> Iterator[tuple[str, str, str]]:
    """Id, file and name of each test in the column of proofs."""
    for row, cells in rows().items():
        for file, name in NAMED.findall(cells[-1]):
            yield row, file, name


@cache
def names_in(file: str) -> frozenset[str]:
    """Names of the file's test functions, without parameters."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_no_row_is_missing_and_none_is_invented() -> None:
    expected = [f"{s}-{n:02}" for s, count in ROWS_OF.items() for n in range(1, count + 1)]
    assert [*rows()] == expected


def test_every_row_has_a_fact_a_key_and_a_proof_or_a_reason() -> None:
    for row, cells in rows().items():
        assert len(cells) == 3, row
        assert all(cells), row
        reason = re.search(r"\*(not yet|nothing to build)\*: \S", cells[-1])
        assert reason or "::test_" in cells[-1], row


@pytest.mark.parametrize("page", ["published-systems.md", "operator-traps.md"])
def test_every_test_that_is_named_exists(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    tests = NAMED.findall(text)
    assert len(tests) == text.count(".py::")
    missing = [
        f"tests/{file}::{name}"
        for file, name in tests
        if not (TESTS / file).is_file() or name not in names_in(file)
    ]
    assert missing == []


def test_every_trap_has_a_remedy_and_a_test() -> None:
    lines = (DOCS / "operator-traps.md").read_text(encoding="utf-8").splitlines()
    traps = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")][1:]
    assert len(traps) == 12
    for trap in traps:
        assert len(trap) == 4
        assert NAMED.search(trap[-1]), trap[0]


@pytest.mark.parametrize("system", COMPLETE)
def test_every_row_of_these_systems_is_proven_or_says_why_not(system: str) -> None:
    proven = {row for row, _, _ in named()}
    left = {row for row in rows() if row.startswith(system)} - proven
    assert left == {row for row in NO_TEST if row.startswith(system)}
    for row in left:
        assert rows()[row][-1].startswith(f"*{NO_TEST[row]}*: ")


SERVED = [f"S0-{n}" for n in range(35, 56)]
"""The workload of S0."""


@pytest.mark.parametrize("row", SERVED)
def test_every_row_of_the_served_model_is_proven_by_a_whole_run_or_says_why_not(row: str) -> None:
    proof = rows()[row][-1]
    whole = [file for named_row, file, _ in named() if named_row == row and "whole_run/" in file]
    assert whole or "*not yet*: " in proof or row in OBJECTS_ALONE, row


OBJECTS_ALONE = {
    # What a simulated kubelet cannot show, or has nothing to do with: 60 s to end and the size of
    # /dev/shm, the limits of processor and memory, and a start-up of an hour.
    "S0-37",
    "S0-38",
    "S0-48",
    "S0-50",
}
"""Rows proven on the objects that the API server is sent."""


def keys(node: Any) -> Iterator[str]:
    """Every key that a stack file may have, at any depth."""
    if isinstance(node, dict):
        yield from node.get("properties", {})
        for value in node.values():
            yield from keys(value)
    elif isinstance(node, list):
        for value in node:
            yield from keys(value)


COMMANDS = ("slicewright-agent", "pulumi", "apply")


def test_every_named_key_exists_in_the_stack_file() -> None:
    known = set(keys(schema()))
    for row, cells in rows().items():
        for quoted in re.findall(r"`([^`]+)`", cells[1]):
            if quoted.split()[0] not in COMMANDS:
                path, _, _ = quoted.partition(":")
                assert set(re.findall(r"\w+", path)) <= known, f"{row}: {quoted}"

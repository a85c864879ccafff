"""No line of code is longer than 100 columns, in whatever language."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLUMNS = 100
TAB = 4
# Where a compiler's or checker's mark belongs to a line, it is not counted, as ruff does not.
_MARK = re.compile(r"  # (?:type: ignore\[[\w,-]+\]|noqa: [A-Z]+\d+)$")
# A URL, a pattern or a name of somebody else's cannot be broken.
_LONG_WORD = re.compile(r"\S{65,}")
SOURCES = ("*.py", "*.c", "*.h", "*.go", "*.js", "Makefile")
# The inputs of these builds are left as they are: the next change of one should wrap it.
_BUILT_FOR_MINUTES = {
    "rehearsal/host/toolchain/go/controlplane/main.go": "Kubernetes is built again, 8 minutes",
    "rehearsal/host/toolchain/go/keda/main.go": "KEDA is built again, some minutes",
}


@cache
def _sources() -> tuple[Path, ...]:
    found = []
    for directory, inside, files in os.walk(ROOT):
        left_out = {"shared", "build", "dist", "mutants"} if Path(directory) == ROOT else set()
        inside[:] = [name for name in inside if not name.startswith(".") and name not in left_out]
        found += [Path(directory, name) for name in files]
    return tuple(sorted(f for f in found if any(f.match(pattern) for pattern in SOURCES)))


def _too_long(line: str) -> bool:
    return len(_MARK.sub("", line.expandtabs(TAB))) > COLUMNS and not _LONG_WORD.search(line)


@pytest.mark.parametrize("pattern", SOURCES)
def test_every_pattern_matches_a_source(pattern: str) -> None:
    assert any(file.match(pattern) for file in _sources())


def test_no_line_of_code_is_longer_than_100_columns() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {len(line.expandtabs(TAB))} columns"
        for file in _sources()
        if str(file.relative_to(ROOT)) not in _BUILT_FOR_MINUTES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if _too_long(line)
    ]
    assert not found


@pytest.mark.parametrize("file", _BUILT_FOR_MINUTES)
def test_an_exception_has_a_line_that_is_too_long(file: str) -> None:
    assert any(map(_too_long, (ROOT / file).read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize(
    ("line", "too_long"),
    [
        ("a" + " b" * 49 + "c", False),
        ("a" + " b" * 50, True),
        ("\t" * 24 + "a b c", True),
        ("a" + " b" * 49 + "  # type: ignore[arg-type]", False),
        ("a" + " b" * 49 + "  # noqa: S105 - with a reason", True),
        ('    "https://example.com/' + "a" * 90 + '"', False),
    ],
)
def test_columns_are_counted_as_an_editor_counts_them(line: str, too_long: bool) -> None:
    assert _too_long(line) is too_long

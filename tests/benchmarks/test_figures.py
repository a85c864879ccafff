"""`make bench` replaces what it measures on the page of figures, and nothing else."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from benchmarks.figures import BENCHMARKS, PAGE, Benchmark, main, with_block

WRITTEN = """# Figures

<!-- measured: one -->
2026-11-21

| old |
<!-- end -->

By hand: a remark.

## two

Measured while other work ran.

<!-- measured: two -->
old
<!-- end -->

Two thousand nodes have not been measured.
"""
ONE = Benchmark((sys.executable, "-c", "print('| new |')"), markdown=True)
TWO = Benchmark((sys.executable, "-c", "print('2 ms')"))
FAILS = Benchmark((sys.executable, "-c", "print('half'); raise SystemExit(3)"))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / "figures.md"
    page.write_text(WRITTEN)
    return page


def test_measurements_are_replaced_and_prose_stays(page: Path) -> None:
    assert main([], {"one": ONE, "two": TWO}, page) == 0
    text = page.read_text()
    assert "<!-- measured: one -->\n| new |\n<!-- end -->\n" in text
    assert re.search(
        r"<!-- measured: two -->\n[\d-]+; load average \S+ on \d+ processors as it began\.\n\n"
        r"```\n2 ms\n```\n<!-- end -->\n",
        text,
    )
    assert "old" not in text
    by_hand = re.sub(r"(?s)<!-- measured.*?<!-- end -->\n", "", WRITTEN)
    assert re.sub(r"(?s)<!-- measured.*?<!-- end -->\n", "", text) == by_hand


def test_figures_of_a_skipped_benchmark_stay(page: Path) -> None:
    assert main(["one"], {"one": ONE, "two": TWO}, page) == 0
    assert "<!-- measured: two -->\nold\n<!-- end -->\n" in page.read_text()


def test_failure_leaves_the_page_unchanged(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {"one": ONE, "two": FAILS}, page) == 1
    assert page.read_text() == WRITTEN
    assert list(page.parent.iterdir()) == [page]
    assert "benchmark two ended with 3" in capsys.readouterr().err


def test_a_new_benchmark_gets_a_section(page: Path) -> None:
    text = with_block(WRITTEN, "three", "3 ms")
    assert text == WRITTEN + "\n## three\n\n<!-- measured: three -->\n3 ms\n<!-- end -->\n"


def test_the_page_has_one_block_for_each_benchmark() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^<!-- measured: (\w+) -->$", text, re.MULTILINE) == list(BENCHMARKS)
    assert text.count("<!-- end -->\n") == len(BENCHMARKS)
    assert text.count("```") % 2 == 0

"""The mutation check, run on a toy project of one module."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
MUTATE = Path(__file__).parents[2] / "benchmarks" / "mutate.py"
MODULE = '''
def fits(wanted: int, free: int) -> bool:
    """Whether there is room."""
    return 0 < wanted <= free
'''
ENDLESS_IF_MUTATED = """

def total(sizes: list[int]) -> int:
    result = 0
    while sizes:
        result += sizes.pop()
    return result
"""
THOROUGH = """
from toy import room


def test_fits():
    found = [room.fits(wanted, 2) for wanted in (-1, 0, 1, 2, 3)]
    assert found == [False, False, True, True, False]
"""
LAX = THOROUGH.replace("-1, 0, 1, 2, 3", "1, 3").replace("False, False, True, True", "True")
ENDS = "    assert room.total([1, 2]) == 3\n"
CONFIG = '[tests]\n"toy.*" = ["--noconftest", "test_room.py"]\n'
SURVIVOR = """
[[survivor]]
module = "toy.room"
function = "fits"
line = "return 0 < wanted <= free"
change = "{change}"
reason = "No test asks."
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("toy", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "toy" / "__init__.py").touch()
    (tmp_path / "toy" / "room.py").write_text(MODULE)
    (tmp_path / "docs" / "figures.md").write_text("# Figures\n\nMutation check: old\n\nMore.\n")
    (tmp_path / "mutate.toml").write_text(CONFIG)
    return tmp_path


def _mutate(project: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (project / "test_room.py").write_text(tests)
    options = ["--root", str(project), "--config", str(project / "mutate.toml"), "--jobs", "2"]
    return subprocess.run(
        [sys.executable, str(MUTATE), *options, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_good_tests_kill_every_mutant_even_one_that_never_ends(project: Path) -> None:
    (project / "toy" / "room.py").write_text(MODULE + ENDLESS_IF_MUTATED)
    ran = _mutate(project, THOROUGH + ENDS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "100.0 %" in ran.stdout
    assert "survived" not in ran.stdout
    page = (project / "docs" / "mutation.md").read_text()
    assert "100.0 %" in page
    assert "### toy.room" not in page
    figures = (project / "docs" / "figures.md").read_text()
    assert figures.startswith("# Figures\n\nMutation check: ")
    assert "old" not in figures
    assert figures.endswith("See [mutation.md](mutation.md).\n\nMore.\n")


def test_a_mutant_that_no_test_notices_survives(project: Path) -> None:
    ran = _mutate(project, LAX)
    assert ran.returncode == 1
    assert (
        "survived: toy.room: `fits`: `return 0 < wanted <= free`: "
        "`0 < wanted <= free → 0 <= wanted <= free`"
    ) in ran.stdout
    assert "toy.room: " in ran.stderr
    assert "the goal is 95 %" in ran.stderr
    assert "### toy.room" in (project / "docs" / "mutation.md").read_text()


@pytest.mark.parametrize(
    ("equivalent", "row", "code"),
    [
        (0, "| `toy.room` | 5 | 2 | 0 | 71.4 % |", 1),
        (1, "| `toy.room` | 5 | 1 | 1 | 83.3 % |", 1),
        (2, "| `toy.room` | 5 | 0 | 2 | 100.0 % |", 0),
    ],
)
def test_every_survivor_but_an_equivalent_one_counts_against_the_score(
    equivalent: int, row: str, code: int, project: Path
) -> None:
    survivors = [
        SURVIVOR.format(change=change) + ("equivalent = true\n" if number < equivalent else "")
        for number, change in enumerate(["0 < wanted <= free → 0 <= wanted <= free", "0 → -1"])
    ]
    (project / "mutate.toml").write_text(CONFIG + "".join(survivors))
    without_0 = THOROUGH.replace("-1, 0, 1", "-1, 1").replace("False, False, T", "False, T")
    ran = _mutate(project, without_0)
    assert ran.returncode == code
    assert "survived" not in ran.stdout
    assert "stale" not in ran.stderr
    page = (project / "docs" / "mutation.md").read_text()
    assert row in page
    counted, _, uncounted = page.partition("## Equivalent mutants")
    assert counted.count("No test asks.") == 2 - equivalent
    assert uncounted.count("No test asks.") == equivalent


def test_an_explanation_without_its_survivor_is_an_error(project: Path) -> None:
    (project / "mutate.toml").write_text(CONFIG + SURVIVOR.format(change="0 → 5"))
    ran = _mutate(project, THOROUGH)
    assert ran.returncode == 1
    assert "stale in mutate.toml: toy.room: `fits`" in ran.stderr


def test_tests_that_fail_by_themselves_are_an_error(project: Path) -> None:
    ran = _mutate(project, THOROUGH.replace("True, False]", "True, True]"))
    assert ran.returncode == 2
    assert "toy.room: fails without a mutant: pytest --noconftest test_room.py" in ran.stderr


def test_a_run_of_one_module_replaces_what_the_page_says_of_it_and_leaves_the_others(
    project: Path,
) -> None:
    (project / "toy" / "gate.py").write_text(
        "def opens(weight: int) -> bool:\n    return weight > 3\n"
    )
    assert _mutate(project, LAX).returncode == 1
    page, figures = (project / "docs" / name for name in ("mutation.md", "figures.md"))
    before, today = page.read_text(), datetime.now(UTC).strftime("%Y-%m-%d")
    page.write_text(before.replace(today, "2026-01-02"))
    gate = _section(before, "toy.gate")
    assert "`opens`" in gate
    assert _mutate(project, THOROUGH, "toy.room").returncode == 0
    after = page.read_text()
    assert _section(after, "toy.gate") == gate
    assert "### toy.room" not in after
    assert f"| `toy.room` | 7 | 0 | 0 | 100.0 % | {today} |" in after
    (row,) = re.findall(
        r"^\| `toy.gate` \| 0 \| (\d+) \| 0 \| 0.0 % \| 2026-01-02 \|$", after, re.M
    )
    assert f"7 of {7 + int(row)} mutants killed" in after
    assert f"7 of {7 + int(row)} mutants killed" in figures.read_text()


def test_the_page_does_not_depend_on_whether_modules_run_together(project: Path) -> None:
    (project / "toy" / "gate.py").write_text(
        "def opens(weight: int) -> bool:\n    return weight > 3\n"
    )
    page = project / "docs" / "mutation.md"
    for module in ("toy.room", "toy.gate"):
        _mutate(project, LAX, module)
    one_by_one = page.read_text()
    _mutate(project, LAX)
    assert page.read_text() == one_by_one


def test_a_module_that_is_not_in_the_configuration_is_refused(project: Path) -> None:
    assert _mutate(project, THOROUGH, "toy.hall").returncode == 2
    assert not (project / "docs" / "mutation.md").exists()


def _section(page: str, module: str) -> str:
    return page.split(f"### {module}\n")[1].split("### ")[0].split("## ")[0].strip()


def test_a_function_that_runs_before_the_tests_is_mutated_too(project: Path) -> None:
    """Its result is part of the module: only an import of the mutant changes it."""
    (project / "toy" / "room.py").write_text(
        f"{MODULE}\n\ndef limits() -> list[int]:\n    return [2, 5]\n\n\nLIMITS = limits()\n"
    )
    kept = _mutate(project, THOROUGH + "    assert room.limits() == room.LIMITS\n")
    assert "survived: toy.room: `limits`: `return [2, 5]`: `2 → 3`" in kept.stdout
    noticed = _mutate(project, THOROUGH + "    assert room.LIMITS == [2, 5]\n")
    assert "100.0 %" in noticed.stdout

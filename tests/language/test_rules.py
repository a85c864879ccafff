"""The language lint reports each kind of violation, and no sentence that keeps to the rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.allowances import judge, lowered, read_table, table_text
from tests.language.rules import PRONOUNS, Rule, file_findings, findings, page_findings


def rules_broken(source: str) -> list[Rule]:
    return [finding.rule for finding in findings(source)]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('"""Of the first window."""', Rule.FRAGMENT),
        ('def f():\n    """By which the node is known."""', Rule.FRAGMENT),
        ('class A:\n    x: int\n    """Without a unit."""', Rule.FRAGMENT),
        ("found = 1", Rule.PRONOUN),
        ("def f(asked): ...", Rule.PRONOUN),
        ("def _shown(): ...", Rule.PRONOUN),
        ("class One: ...", Rule.PRONOUN),
        ("for there in (): ...", Rule.PRONOUN),
        ("match x:\n    case int() as asked: ...", Rule.PRONOUN),
        ("self._seen = 1", Rule.PRONOUN),
        ("import plan as shown", Rule.PRONOUN),
        ('"""Returns what it has."""', Rule.WHAT),
        ("x = 1  # what is left", Rule.WHAT),
        ('"""Lists the pools of which one is paused."""', Rule.WHICH),
        ('"""Lists the pools\n    by\n    which."""', Rule.WHICH),
    ],
)
def test_a_violation_is_reported(source: str, rule: Rule) -> None:
    assert rule in rules_broken(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""Returns the nodes that were found."""',
        '"""The first window, in seconds."""',
        "node = found.node",
        'x = "of which"',
        "def whole(pool): return pool",
    ],
)
def test_plain_sentences_and_names_are_not_reported(source: str) -> None:
    assert findings(source) == ()


def test_a_finding_names_the_line_of_the_phrase() -> None:
    (finding,) = findings('"""Returns the plan.\n\nIt lists the pools of which two wait.\n"""')
    assert (finding.rule, finding.line, finding.text) == (Rule.WHICH, 3, "of which")


def test_module_name_is_checked_too() -> None:
    (finding,) = file_findings("slicewright/load/asked.py", "")
    assert (finding.rule, finding.text) == (Rule.PRONOUN, "asked")
    assert file_findings("slicewright/load/load.py", "") == ()


@pytest.mark.parametrize(
    ("page", "rule"),
    [
        ("# What it asks\n", Rule.WHAT),
        ("Pools, of\nwhich two wait.", Rule.WHICH),
        ("| what is left | `what is left` |", Rule.WHAT),
    ],
)
def test_a_violation_in_a_page_is_reported(page: str, rule: Rule) -> None:
    assert [finding.rule for finding in page_findings(page)] == [rule]


@pytest.mark.parametrize(
    "page",
    [
        "A sentence with a subject.",
        "```sh\n# what is left\n```\n",
        "1. A step:\n\n   ```\n   pools, of which\n   ```\n",
        "The option `what is`.",
    ],
)
def test_plain_sentences_and_code_of_a_page_are_not_reported(page: str) -> None:
    assert page_findings(page) == ()


def test_a_finding_after_a_code_block_names_its_line() -> None:
    (finding,) = page_findings("```\na\nb\n```\nWhat is left.\n")
    assert finding.line == 5


def test_every_pronoun_of_the_list_is_reported() -> None:
    reported = {finding.text for name in PRONOUNS for finding in findings(f"{name} = 0")}
    assert reported == PRONOUNS


def test_one_violation_more_than_allowed_is_a_problem() -> None:
    files = {"a.py": "found = 1\nasked = 2\n"}
    assert judge(files, {"a.py": {"pronoun": 2}}).messages == ()
    assert len(judge(files, {"a.py": {"pronoun": 1}}).messages) == 2


def test_an_allowance_that_is_too_large_is_a_problem() -> None:
    (message,) = judge({"a.py": "found = 1"}, {"a.py": {"pronoun": 2}}).messages
    assert "--update" in message


def test_a_row_of_a_file_that_does_not_exist_is_a_problem() -> None:
    (message,) = judge({}, {"gone.py": {"what": 1}}).messages
    assert message.startswith("gone.py")


def test_an_update_lowers_and_never_raises() -> None:
    counts = judge({"a.py": "found = 1\nasked = 2", "b.py": "said = 1"}, {}).counts
    assert lowered(counts, {"a.py": {"pronoun": 1}}) == {"a.py": {"pronoun": 1}}
    assert lowered(counts, {"a.py": {"pronoun": 9}}) == {"a.py": {"pronoun": 2}}


def test_written_table_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "allowances.toml"
    table = {"b.py": {"what": 2}, "a/c.py": {"pronoun": 1, "which": 3}}
    file.write_text(table_text(table))
    assert read_table(file) == table

"""Tests that `make test` leaves to `make test-all` say what `make test` still shows."""

from __future__ import annotations

import pytest

from tests.conftest import problem_of_long

HERE = "tests/test_long_tests.py"


def test_a_long_test_names_a_file_that_shows_the_same_first() -> None:
    assert problem_of_long(pytest.mark.long(f"on GKE: {HERE}").mark, all_long=set()) == ""


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        (pytest.mark.long, "needs one argument"),
        (pytest.mark.long(first=f"on GKE: {HERE}"), "needs one argument"),
        (pytest.mark.long("because it is slow"), "names no file of tests"),
        (pytest.mark.long("on GKE: tests/nowhere.py"), "names tests/nowhere.py, which does not"),
    ],
)
def test_a_mark_without_a_first_example_is_refused(
    mark: pytest.MarkDecorator, problem: str
) -> None:
    refused = problem_of_long(mark.mark, all_long=set())
    assert refused.startswith(f"the mark `long` {problem}")
    assert 'write pytest.mark.long("WHAT: tests/FILE.py")' in refused


def test_mark_must_name_a_file_that_make_test_runs() -> None:
    mark = pytest.mark.long(f"on GKE: {HERE}").mark
    assert "whose tests are all long" in problem_of_long(mark, all_long={HERE})

"""How the plan's checks are composed: none is called without being run, and findings keep order."""

from __future__ import annotations

import ast
from pathlib import Path

from slicewright.infra import plan
from slicewright.infra.plan.findings import Checked, Finding, Stated, collect, each, refuse

FILES = sorted(Path(plan.__file__).parent.rglob("*.py"))
RUNNERS = {"collect", "each", "tuple"}


def _first(name: str) -> Checked[str]:
    yield refuse((name,), f"{name} is wrong", "write another")
    return name.upper()


def test_each_runs_the_checks_in_order_and_returns_their_results() -> None:
    results, findings = collect(each(_first(name) for name in ("a", "b")))
    assert results == ["A", "B"]
    assert [found.problem.path for found in findings] == [("a",), ("b",)]


def test_a_finding_below_or_above_an_invalid_place_is_not_reported() -> None:
    stated = Stated(frozenset({("pools", 0, "nodes")}))
    above, below = refuse(("pools", 0), "x", "y"), refuse(("pools", 0, "nodes", "min"), "x", "y")
    beside = refuse(("pools", 0, "name"), "x", "y")
    assert stated.reportable([above, below, beside]) == (beside.problem,)


def test_a_certain_finding_is_reported_above_an_invalid_place_but_not_below_it() -> None:
    stated = Stated(frozenset({("pools", 0, "nodes")}))
    above = refuse(("pools", 0), "x", "y", certain=True)
    below = refuse(("pools", 0, "nodes", "min"), "x", "y", certain=True)
    assert isinstance(above, Finding)
    assert stated.reportable([above, below]) == (above.problem,)


def _checks(trees: list[ast.Module]) -> set[str]:
    return {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns).startswith("Checked[")
    }


def test_every_check_that_is_called_is_run() -> None:
    """A generator that nobody iterates checks nothing, and no type checker says so."""
    trees = [ast.parse(file.read_text()) for file in FILES]
    checks = _checks(trees)
    assert len(checks) > 50
    for file, tree in zip(FILES, trees, strict=True):
        run = {
            id(call)
            for node in ast.walk(tree)
            for call in (
                [node.value]
                if isinstance(node, ast.YieldFrom | ast.AugAssign)
                else node.args
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in RUNNERS
                else [node.elt]
                if isinstance(node, ast.GeneratorExp)
                else []
            )
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in checks or id(node) in run, (
                    f"{file.name}:{node.lineno}: {node.func.id} is called and not run"
                )

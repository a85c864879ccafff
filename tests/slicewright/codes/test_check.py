"""Codes of `check`: stable, documented, on every problem; as JSON and as SARIF."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.infra.plan.findings import Checked, collect, each, refuse, rule
from slicewright.infra.stack_file import problem_codes
from tests.repository_stacks import STACKS

ROOT = Path(__file__).resolve().parents[3]
RECORDED = Path(__file__).with_name("check.txt")
BROKEN = """\
config:
  slicewright:fleet:
    cloud: gke
    cluster: {name: main, location: us-central1-a}
    node_pools:
      - name: system
        machine_type: a2-highgpu-1g
        nodes: {min: 3, max: 2}
        partition: {mode: operator, layout: {1g.5gb: 9}}
        nome: x
      - name: b
        machine_type: a2-highgpu-1g
        nodes: {count: two}
"""


def trees(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted((ROOT / "infra" / folder).rglob("*.py")):
        if file.name == "findings.py":
            continue  # what the checks report with
        yield file, ast.parse(file.read_text(encoding="utf-8"))


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def calls(tree: ast.AST) -> dict[str, list[ast.Call]]:
    named: dict[str, list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named.setdefault(node.func.id, []).append(node)
    return named


def reports_findings(function: ast.FunctionDef) -> bool:
    """True for a helper whose findings get their code from the check that calls it."""
    return function.returns is not None and "Finding" in ast.unparse(function.returns)


def code_of(call: ast.Call) -> str | None:
    values = [k.value for k in call.keywords if k.arg == "code"]
    return values[0].value if values and isinstance(values[0], ast.Constant) else None


def rule_of(function: ast.FunctionDef) -> str | None:
    rules = [
        decorator.args[0].value
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "rule"
    ]
    return rules[0] if rules else None


def used_codes() -> set[str | None]:
    in_plan = {rule_of(function) for _, tree in trees("plan") for function in functions(tree)}
    built = {
        code_of(call)
        for folder in ("stack_file", "plan")
        for _, tree in trees(folder)
        for call in calls(tree).get("Problem", ())
    }
    return (in_plan | built | {problem_codes.UNREADABLE}) - {None}


def test_no_two_rules_have_the_same_code() -> None:
    codes = Counter(code for codes in problem_codes.problem_codes().values() for code in codes)
    assert [code for code, count in codes.items() if count > 1] == []


def test_every_code_of_the_source_is_documented_and_the_reverse() -> None:
    assert used_codes() == set(problem_codes.rules())


def test_no_published_code_has_vanished() -> None:
    """A new code is added to the list by hand; a line of it is never removed or changed."""
    assert RECORDED.read_text().split() == sorted(problem_codes.rules())


def test_the_page_of_codes_is_generated() -> None:
    page = ROOT / "docs/reference/check-codes.md"
    assert page.read_text(encoding="utf-8") == problem_codes.page()


def test_every_problem_that_reading_reports_has_a_code() -> None:
    without = [
        f"{file}:{call.lineno}"
        for file, tree in trees("stack_file")
        for call in calls(tree).get("Problem", ())
        if code_of(call) is None
    ]
    assert without == []


def test_every_check_of_the_plan_has_a_code() -> None:
    helpers = {f.name for _, tree in trees("plan") for f in functions(tree) if reports_findings(f)}
    without, with_code = [], 0
    for file, tree in trees("plan"):
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        local = {f.name for f in functions(tree) if reports_findings(f)}
        report = {"refuse"} | (helpers & imported) | local
        for function in functions(tree):
            if rule_of(function) is not None:
                with_code += 1
            elif not reports_findings(function) and report & calls(function).keys():
                without.append(f"{file}:{function.lineno} {function.name}")
    assert without == []
    assert with_code > 150


def test_a_problem_has_the_code_of_the_innermost_check_that_has_one() -> None:
    def uncoded() -> Checked[None]:
        yield refuse((), "a", "b")

    @rule("inner")
    def inner() -> Checked[None]:
        yield from uncoded()

    @rule("outer")
    def outer() -> Checked[int]:
        yield refuse((), "c", "d")
        yield from each([inner(), uncoded()])
        return 1

    result, findings = collect(outer())
    assert result == 1
    assert [finding.problem.code for finding in findings] == ["outer", "inner", "outer"]


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stacks").mkdir()
    file = "stacks/Pulumi.brö ken.yaml"
    (tmp_path / file).write_text(BROKEN, encoding="utf-8")
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = cli.main(["check", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return code, json.loads(out)


def test_json_has_each_problem_with_code_and_place(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, written = run(capsys, "--json", broken)
    assert code == cli.BAD_INPUT
    assert written["version"] == 1
    (file,) = written["files"]
    assert (file["file"], file["ok"], file["unlisted"], file["notes"]) == (broken, False, 0, [])
    places = {(p["code"], p["line"], p["column"], p["key"]) for p in file["problems"]}
    assert places >= {
        ("pool-name", 6, 15, "node_pools[0].name"),
        ("node-count", 8, 16, "node_pools[0].nodes"),
        ("unknown-key", 10, 9, "node_pools[0].nome"),
        ("wrong-type", 13, 24, "node_pools[1].nodes.count"),
    }
    assert {p["code"] for p in file["problems"]} <= problem_codes.rules().keys()
    assert all(p["reason"] and p["instead"] and p["source"] for p in file["problems"])


def test_json_has_the_problems_of_the_text(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", broken]) == cli.BAD_INPUT
    text = capsys.readouterr().out
    _, written = run(capsys, "--json", broken)
    problems = written["files"][0]["problems"]
    assert text.startswith(f"{broken}: {len(problems)} problems")
    assert [p for p in problems if p["reason"] not in text] == []


def test_json_of_accepted_files_has_their_notes(capsys: pytest.CaptureFixture[str]) -> None:
    code, written = run(capsys, "--json", *map(str, STACKS))
    assert code == cli.VERIFIED
    assert all(file["ok"] for file in written["files"])
    assert any(file["notes"] for file in written["files"])
    levels = {p["level"] for file in written["files"] for p in file["problems"]}
    assert levels <= {"note"}


@pytest.mark.parametrize(
    ("text", "place"),
    [(None, (None, None)), ("a: [\n", (1, None)), ("a: b: c\n", (1, 5)), ("- a\n", (1, 1))],
)
def test_an_unreadable_file_has_its_place(
    text: str | None,
    place: tuple[int | None, int | None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "f.yaml"
    if text is not None:
        file.write_text(text)
    code, written = run(capsys, "--json", str(file))
    (problem,) = written["files"][0]["problems"]
    assert code == cli.BAD_INPUT
    assert problem["code"] == problem_codes.UNREADABLE
    assert (problem["line"], problem["column"]) == place
    assert problem["reason"].startswith(("cannot be read: ", "is not valid YAML: ", "is a list"))


@pytest.mark.parametrize("form", ["--json", "--sarif"])
def test_a_problem_of_a_base_file_lies_in_that_file(
    form: str, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    part = "config:\n  slicewright:fleet:\n    extends: Pulumi.brö ken.yaml\n    frog: 1\n"
    Path("stacks/Pulumi.dev.yaml").write_text(part)
    code, written = run(capsys, form, "stacks/Pulumi.dev.yaml")
    assert code == cli.BAD_INPUT
    if form == "--json":
        problems = written["files"][0]["problems"]
        places = {(p["code"], p["file"], p["line"]) for p in problems}
        base = broken
    else:
        locations = [
            (result["ruleId"], result["locations"][0]["physicalLocation"])
            for result in written["runs"][0]["results"]
        ]
        places = {
            (rule, at["artifactLocation"]["uri"], at["region"]["startLine"])
            for rule, at in locations
        }
        base = "stacks/Pulumi.br%C3%B6%20ken.yaml"
    assert ("unknown-key", "stacks/Pulumi.dev.yaml", 4) in places
    assert ("unknown-key", base, 10) in places


def test_wrong_use_writes_nothing_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--json"]) == cli.BAD_INPUT
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", "--json", "--sarif", "f.yaml"])
    assert ended.value.code == cli.BAD_INPUT
    assert capsys.readouterr().out == ""


def test_sarif_has_what_code_scanning_requires(
    broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Source: GitHub docs, SARIF support for code scanning, supported properties."""
    code, sarif = run(capsys, "--sarif", broken, str(ROOT / "stacks/Pulumi.gke-h100.yaml"))
    assert code == cli.BAD_INPUT
    assert sarif["version"] == "2.1.0"
    assert sarif["$schema"].endswith("sarif-2.1.0.json")
    (run_,) = sarif["runs"]
    driver = run_["tool"]["driver"]
    assert driver["name"] == "slicewright"
    assert all(rule["id"] and rule["shortDescription"]["text"] for rule in driver["rules"])
    assert len(run_["results"]) >= 4
    lines = BROKEN.splitlines()
    for result in run_["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["artifactLocation"] == {"uri": "stacks/Pulumi.br%C3%B6%20ken.yaml"}
        region = place["region"]
        assert 1 <= region["startLine"] <= len(lines)
        assert 1 <= region["startColumn"] <= len(lines[region["startLine"] - 1])


def test_sarif_of_accepted_files_has_no_errors(capsys: pytest.CaptureFixture[str]) -> None:
    code, sarif = run(capsys, "--sarif", str(ROOT / "stacks/Pulumi.gke-h100.yaml"))
    assert code == cli.VERIFIED
    assert sarif["runs"][0]["results"] == []

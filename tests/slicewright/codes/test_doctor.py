"""Codes of `doctor`: stable, documented, on every finding; as JSON."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.doctor import finding_codes, preflight
from slicewright.doctor.findings import CannotAsk, Finding, check, checks, fails, ok

ROOT = Path(__file__).resolve().parents[3]
RECORDED = Path(__file__).with_name("doctor.txt")
MAKERS = {"ok", "fails", "not_asked", "not_seen", "existence", "name_taken"}
"""The functions that make a finding, without its code."""


def functions() -> Iterator[tuple[Path, ast.FunctionDef]]:
    for file in sorted((ROOT / "slicewright/doctor").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield file, node


def code_of(function: ast.FunctionDef) -> str | None:
    codes = [
        decorator.args[0].value
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) in ("check", "checks")
        and isinstance(decorator.args[0], ast.Constant)
    ]
    return codes[0] if codes else None


def returns_one(function: ast.FunctionDef) -> bool:
    return function.returns is not None and ast.unparse(function.returns) in (
        "Finding",
        "Finding | None",
    )


def test_every_code_of_the_source_is_documented_and_the_reverse() -> None:
    used = {code_of(function) for _, function in functions()} - {None}
    assert used == set(finding_codes.requirements())


def test_no_published_code_has_vanished() -> None:
    """A new code is added to the list by hand; a line of it is never removed or changed."""
    assert RECORDED.read_text().split() == sorted(finding_codes.requirements())


def test_the_page_of_codes_is_generated() -> None:
    page = ROOT / "docs/reference/doctor-codes.md"
    assert page.read_text(encoding="utf-8") == finding_codes.page()


def test_every_check_has_a_code() -> None:
    helpers = {
        (file, function.name)
        for file, function in functions()
        if returns_one(function) and code_of(function) is None
    }
    without, with_code = [], 0
    for file, function in functions():
        if code_of(function) is not None:
            with_code += 1
            continue
        called = {
            node.func.id
            for node in ast.walk(function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        local = {name for where, name in helpers if where == file} - {"_with_code"}
        if not returns_one(function) and called & (MAKERS | local):
            without.append(f"{file}:{function.lineno} {function.name}")
    assert without == []
    assert with_code > 50


def test_an_inner_check_keeps_its_code() -> None:
    @check("inner")
    def inner() -> Finding:
        return ok("a", "b")

    @checks("outer")
    def outer() -> Iterator[Finding]:
        yield inner()
        yield fails("c", "d", "e")

    assert [finding.code for finding in outer()] == ["inner", "outer"]


def test_json_has_each_finding_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without gcp:project nothing is asked."""
    text = (ROOT / "stacks/Pulumi.gke-h100.yaml").read_text()
    lines = [line for line in text.splitlines() if "gcp:project" not in line]
    file = tmp_path / "Pulumi.dev.yaml"
    file.write_text("\n".join(lines))
    assert cli.main(["doctor", str(file), "--json"]) == cli.NOT_VERIFIED
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "version": 1,
        "findings": [
            {
                "code": "gcp-project",
                "verdict": "fails",
                "subject": "gcp:project",
                "detail": "is not set in the stack's configuration, but `pulumi up` requires it",
                "remedy": "pulumi config set gcp:project PROJECT",
            }
        ],
    }


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (("ok", "fails", "not asked"), cli.NOT_VERIFIED),
        (("ok", "not asked"), cli.CANNOT_RUN),
        (("ok", "not seen"), cli.VERIFIED),
    ],
)
def test_json_has_failures_first_and_the_exit_codes_of_the_text(
    verdicts: tuple[str, ...],
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [Finding(verdict=v, subject="s\x1b", detail="d", code="key") for v in verdicts]  # type: ignore[arg-type]
    monkeypatch.setattr(preflight, "check_eks", lambda *_: found)
    assert cli.main(["doctor", str(ROOT / "stacks/Pulumi.eks-a100.yaml"), "--json"]) == code
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert sorted(f["verdict"] for f in findings) == sorted(verdicts)
    assert findings[-1] == {
        "code": "key",
        "verdict": "ok",
        "subject": "s\\x1b",
        "detail": "d",
        "remedy": None,
    }


def test_an_account_that_cannot_be_asked_leaves_stdout_empty(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[Finding]:
        raise CannotAsk("no credentials")

    monkeypatch.setattr(preflight, "check_eks", refuse)
    file = str(ROOT / "stacks/Pulumi.eks-a100.yaml")
    assert cli.main(["doctor", file, "--json"]) == cli.CANNOT_RUN
    out, err = capsys.readouterr()
    assert (out, err) == ("", "slicewright doctor: no credentials\n")

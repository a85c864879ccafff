"""Wrong use of `slicewright rehearse`: one message, an exit code, and nothing made or lost. Nothing is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright import cli


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    code = cli.main(["rehearse", *map(str, arguments)])
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    return code, told.out + told.err


@pytest.mark.parametrize("name", ["nope", "S0", "../s0", "/etc", "Pulumi.s0.yaml", "s0,s1"])
def test_a_name_that_is_no_stack_is_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    code, told = _run(capsys, "--stack", name, "--directory", tmp_path / "r")
    assert code == cli.BAD_INPUT
    assert "no stack" in told
    assert "s0, s1" in told
    assert not (tmp_path / "r").exists()


def test_a_stack_that_cannot_be_brought_up_yet_is_refused_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, told = _run(capsys, "--stack", "s3", "--directory", tmp_path / "r")
    assert code == cli.BAD_INPUT
    assert "stacks/Pulumi.s3.yaml:" in told


def test_somebodys_own_directory_is_left_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "s0").mkdir(mode=0o755)
    (tmp_path / "s0" / "thesis.txt").write_text("years of work")
    code, told = _run(capsys, "--stack", "s0", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "is no rehearsal environment" in told
    assert (tmp_path / "s0" / "thesis.txt").read_text() == "years of work"
    assert (tmp_path / "s0").stat().st_mode & 0o777 == 0o755
    assert _run(capsys, "destroy", "--force", "--stack", "s0", "--directory", tmp_path)[0] == cli.PROVEN
    assert (tmp_path / "s0" / "thesis.txt").exists()


def test_a_kept_environment_is_not_taken_over(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "s0" / "processes").mkdir(parents=True)
    (tmp_path / "s0" / "kept").touch()
    code, told = _run(capsys, "--stack", "s0", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "make destroy STACK=s0" in told
    assert (tmp_path / "s0" / "kept").exists()


@pytest.mark.parametrize("action", ["env", "break", "repair"])
def test_where_there_is_no_environment_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str) -> None:
    code, told = _run(capsys, action, "--stack", "s0", "--directory", tmp_path)
    assert code == cli.CANNOT_RUN
    assert "no rehearsal environment" in told
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_destroy_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, told = _run(capsys, "destroy", "--directory", tmp_path)
    assert code == cli.PROVEN
    assert "nothing to destroy" in told

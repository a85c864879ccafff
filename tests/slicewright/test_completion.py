"""Completion scripts, run by the shells themselves."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.commands import COMMANDS, whole_parser
from slicewright.commands.completion import SHELLS

_ASK = {
    "bash": """\
source {script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_slicewright; printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "fish": "source {script}; complete -C {line} | string replace -r '\\t.*' ''",
}
"""Shell -> a program that prints the candidates for the last word of a line."""
INSTALLED = [shell for shell in _ASK if shutil.which(shell)]
"""bash is on every machine that runs these tests; fish is asked where it is installed."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Pulumi.yaml").write_text("name: p\nstackConfigDir: stacks\n")
    (tmp_path / "stacks").mkdir()
    for name in ("gke-dev", "gke-prod.eu", "eks one"):
        (tmp_path / f"stacks/Pulumi.{name}.yaml").write_text("config: {}\n")
    (tmp_path / "below/here").mkdir(parents=True)
    return tmp_path


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["completion", shell]) == cli.VERIFIED
    return capsys.readouterr().out


def candidates(
    shell: str, line: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    file = directory / "completion"
    file.write_text(script(shell, capsys))
    words = shlex.split(line) + ([""] if line.endswith(" ") else [])
    program = _ASK[shell].format(
        script=shlex.quote(str(file)), words=shlex.join(words), line=shlex.quote(line)
    )
    answer = subprocess.run(
        [shell, "-c", program], cwd=directory, capture_output=True, text=True, check=True
    )
    assert answer.stderr == ""
    return sorted(filter(None, answer.stdout.split("\n")))


def test_bash_is_among_the_installed_shells() -> None:
    assert "bash" in INSTALLED


@pytest.mark.parametrize("shell", INSTALLED)
def test_the_first_word_completes_to_the_commands(
    shell: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert candidates(shell, "slicewright ", project, capsys) == sorted(COMMANDS)
    assert candidates(shell, "slicewright re", project, capsys) == ["recover", "rehearse"]


@pytest.mark.parametrize("shell", INSTALLED)
@pytest.mark.parametrize("line", ["check -s ", "check --stack ", "destroy --dry-run -s "])
def test_stack_names_complete_in_the_project_and_below(
    line: str, shell: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks = ["eks one", "gke-dev", "gke-prod.eu"]
    for directory in (project, project / "below/here"):
        assert candidates(shell, f"slicewright {line}", directory, capsys) == stacks
    assert candidates(shell, f"slicewright {line}gke-p", project, capsys) == ["gke-prod.eu"]


@pytest.mark.parametrize("shell", INSTALLED)
@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("", "."),
        ("stackConfigDir: 'my envs'  # all", "my envs"),
        ('stackConfigDir: "deploy/stacks"', "deploy/stacks"),
        ("stackConfigDir:   deploy # here", "deploy"),
    ],
)
def test_stack_names_complete_where_the_project_keeps_its_stack_files(
    setting: str, where: str, shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Pulumi.yaml").write_text(f"name: p\n{setting}\nruntime: python\n")
    (tmp_path / where).mkdir(parents=True, exist_ok=True)
    (tmp_path / where / "Pulumi.dev.yaml").write_text("config: {}\n")
    assert candidates(shell, "slicewright check -s ", tmp_path, capsys) == ["dev"]


@pytest.mark.parametrize("shell", INSTALLED)
def test_no_stack_completes_outside_a_project(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert candidates(shell, "slicewright check -s x", tmp_path, capsys) == []


@pytest.mark.parametrize("shell", INSTALLED)
def test_verbs_and_options_of_a_command_complete(
    shell: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert candidates(shell, "slicewright rollout re", project, capsys) == ["resume"]
    assert candidates(shell, "slicewright destroy --dry", project, capsys) == ["--dry-run"]
    assert candidates(shell, "slicewright destroy --disks ", project, capsys) == ["delete", "keep"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_script_has_all_commands_and_the_stack_names(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    assert [command for command in COMMANDS if command not in text] == []
    assert "_slicewright_stack" in text


def test_another_shell_is_refused_with_those_that_are_supported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["completion", "tcsh"])
    assert ended.value.code == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert all(shell in err for shell in SHELLS)


def test_the_help_and_the_parsers_of_all_commands_have_the_same_lines() -> None:
    (subcommands,) = (a for a in whole_parser()._actions if a.dest == "command")
    lines = {choice.dest: choice.help for choice in subcommands._choices_actions}  # type: ignore[attr-defined]
    assert lines == COMMANDS

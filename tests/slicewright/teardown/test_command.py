"""The command: who is asked, what is printed, and its exit codes. Pulumi is a script."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.rehearsal.clouds.service import Cloud

STACKS = Path(__file__).resolve().parents[3] / "stacks"
_PULUMI = """\
#!{python}
import json, pathlib, sys
state = pathlib.Path({state!r})
if sys.argv[1:3] == ["stack", "export"]:
    if not state.exists():
        sys.exit("error: no stack named 'dev' found")
    print(state.read_text())
elif sys.argv[1] == "destroy":
    how = pathlib.Path({how!r})
    print("Destroying (dev)")
    if how.exists():
        print(how.read_text())
        sys.exit(255)
    state.write_text('{{"deployment": {{}}}}')
"""
ROLE = {"urn": "urn:role", "type": "aws:iam/role:Role", "id": "r", "custom": True}


@dataclass(frozen=True)
class Command:
    directory: Path
    cloud: Cloud
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        file = str(STACKS / "Pulumi.eks-a100.yaml")
        code = cli.main(["destroy", "-s", "dev", "--file", file, *arguments])
        out, err = self.capsys.readouterr()
        return code, out, err

    def state(self, *resources: dict[str, object]) -> None:
        self._file.write_text(json.dumps({"deployment": {"resources": resources}}))

    def is_empty(self) -> bool:
        return json.loads(self._file.read_text()) == {"deployment": {}}

    def fails_with(self, words: str) -> None:
        (self.directory / "how").write_text(words)

    @property
    def _file(self) -> Path:
        return self.directory / "state.json"


@pytest.fixture
def destroy(
    clouds_over_http: None,
    served: Cloud,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    script = tmp_path / "bin" / "pulumi"
    script.parent.mkdir()
    paths = {"state": str(tmp_path / "state.json"), "how": str(tmp_path / "how")}
    script.write_text(_PULUMI.format(python=sys.executable, **paths))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    monkeypatch.setattr("slicewright.teardown.sweep.passes.FIRST_WAIT_S", 0.01)
    made = Command(tmp_path, served, capsys)
    made.state(ROLE)
    return made


def test_destroy_without_a_terminal_requires_yes(
    destroy: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, _, err = destroy()
    assert code == cli.BAD_INPUT
    assert "--yes" in err
    assert not destroy.is_empty()


@pytest.mark.parametrize(("typed", "code"), [("dev\n", cli.VERIFIED), ("s1\n", cli.NOT_VERIFIED)])
def test_a_terminal_prompts_for_the_name_of_the_stack(
    destroy: Command, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return typed

    monkeypatch.setattr("sys.stdin", Terminal())
    assert destroy()[0] == code
    assert destroy.is_empty() == (code == cli.VERIFIED)


def test_destroy_shows_pulumis_output_and_that_nothing_is_left(destroy: Command) -> None:
    code, out, _ = destroy("--yes")
    assert code == cli.VERIFIED
    assert "Destroying (dev)" in out
    assert out.rstrip().endswith("nothing is left")
    assert destroy.is_empty()


def test_a_dry_run_changes_nothing(destroy: Command) -> None:
    code, out, _ = destroy("--dry-run")
    assert (code, destroy.is_empty()) == (cli.VERIFIED, False)
    assert "1 aws:iam/role:Role" in out
    assert "Destroying" not in out


def test_json_is_all_of_stdout(destroy: Command) -> None:
    code, out, _ = destroy("--dry-run", "--json")
    assert json.loads(out)["state"] == {"aws:iam/role:Role": 1}
    code, out, err = destroy("--yes", "--json")
    told = json.loads(out)
    assert (code, told["version"], told["left"], told["state"]) == (cli.VERIFIED, 1, [], {})
    assert "Destroying (dev)" in err


def test_pending_creations_are_named_first(destroy: Command) -> None:
    """Nobody is asked, and nothing is deleted, before that is decided."""
    half = {"type": "creating", "resource": {"urn": "urn:pool", "type": "pool"}}
    written = {"deployment": {"resources": [ROLE], "pending_operations": [half]}}
    (destroy.directory / "state.json").write_text(json.dumps(written))
    code, _, err = destroy()
    assert code == cli.NOT_VERIFIED
    assert "slicewright recover --stack dev" in err
    assert not destroy.is_empty()


def test_leftovers_of_a_deleted_stack_are_swept(destroy: Command) -> None:
    (destroy.directory / "state.json").unlink()
    code, out, _ = destroy("--yes")
    assert code == cli.VERIFIED
    assert "nothing is left" in out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("error: something else", cli.NOT_VERIFIED, "exit code 255"),
        ("error: the stack is currently locked by 1 lock(s)", cli.CANNOT_RUN, "slicewright unlock"),
        ("ExpiredToken: The security token", cli.CANNOT_RUN, "renew them"),
    ],
)
def test_a_failed_pulumi_destroy_is_no_success(
    destroy: Command, words: str, code: int, told: str
) -> None:
    destroy.fails_with(words)
    found, out, err = destroy("--yes")
    assert found == code
    assert told in out + err


def test_missing_pulumi_or_credentials_are_one_line(
    destroy: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    code, _, err = destroy("--yes")
    assert (code, err.count("\n")) == (cli.CANNOT_RUN, 1)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    code, _, err = destroy("--yes")
    assert (code, err.count("\n")) == (cli.CANNOT_RUN, 1)
    assert "no AWS credentials" in err


def test_a_wrong_stack_file_is_refused(destroy: Command, tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.wrong.yaml"
    file.write_text("config: {}\n")
    code = cli.main(["destroy", "-s", "dev", "--yes", "--file", str(file)])
    assert code == cli.BAD_INPUT
    assert not destroy.is_empty()


@pytest.mark.parametrize("minutes", ["-3", "nan", "inf", "soon"])
def test_a_wait_that_is_not_a_time_is_refused(
    capsys: pytest.CaptureFixture[str], minutes: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["destroy", "-s", "gke-h100", f"--wait={minutes}"])
    assert ended.value.code == cli.BAD_INPUT
    assert f"{minutes!r} is not a number of minutes from 0 to 10080" in capsys.readouterr().err

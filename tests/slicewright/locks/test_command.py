"""The command: what is removed, what stays, and its exit codes. Pulumi is a script."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli

_PULUMI = """\
#!{python}
import json, pathlib, sys
if sys.argv[1] == "whoami":
    print(json.dumps({{"user": "me", "url": pathlib.Path({url!r}).read_text()}}))
elif sys.argv[1] == "cancel":
    pathlib.Path({cancelled!r}).write_text(" ".join(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Unlock:
    directory: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str]:
        code = cli.main(["unlock", "-s", "prod", *arguments])
        out, err = self.capsys.readouterr()
        return code, out + err

    def lock(self, name: str, **changes: Any) -> Path:
        content = {
            "pid": self.ended,
            "username": "ci",
            "hostname": socket.gethostname(),
            "timestamp": datetime.now(UTC).isoformat(),
            **changes,
        }
        file = self.locks / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
        return file

    def file(self, key: str, content: str) -> Path:
        """Of the backend."""
        file = self.directory / "state" / ".pulumi" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    @property
    def locks(self) -> Path:
        return self.directory / "state/.pulumi/locks/organization/fleet/prod"

    @property
    def ended(self) -> int:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        return process.pid

    def backend(self, url: str) -> None:
        (self.directory / "url").write_text(url)

    @property
    def cancelled(self) -> str:
        file = self.directory / "cancelled"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def unlock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Unlock:
    script = tmp_path / "bin" / "pulumi"
    script.parent.mkdir()
    paths = {"url": str(tmp_path / "url"), "cancelled": str(tmp_path / "cancelled")}
    script.write_text(_PULUMI.format(python=sys.executable, **paths))
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    (tmp_path / "Pulumi.yaml").write_text("name: fleet\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    made = Unlock(tmp_path, capsys)
    made.backend(f"file://{tmp_path}/state")
    return made


def test_unlock_without_a_lock_does_nothing(unlock: Unlock) -> None:
    assert unlock() == (cli.VERIFIED, "stack prod has no lock\n")


def test_the_lock_of_an_ended_process_is_removed_and_named(unlock: Unlock) -> None:
    file = unlock.lock("a")
    pid = json.loads(file.read_text())["pid"]
    code, said = unlock("--dry-run")
    assert (code, file.exists()) == (cli.NOT_VERIFIED, True)
    code, said = unlock()
    assert (code, file.exists()) == (cli.VERIFIED, False)
    assert f"pulumi {pid} of ci on {socket.gethostname()}, since " in said
    assert "slicewright recover --stack prod" in said


def test_the_lock_of_a_running_process_always_stays(unlock: Unlock) -> None:
    file = unlock.lock("a", pid=os.getpid())
    code, said = unlock("--host", socket.gethostname())
    assert (code, file.exists()) == (cli.NOT_VERIFIED, True)
    assert f"kill -INT {os.getpid()}" in said


def test_the_lock_of_another_host_stays_until_it_is_confirmed(unlock: Unlock) -> None:
    file = unlock.lock("a", hostname="runner-7")
    code, said = unlock()
    assert (code, file.exists()) == (cli.NOT_VERIFIED, True)
    assert "pass --host runner-7" in said
    code, said = unlock("--host", "runner-8")
    assert (code, file.exists()) == (cli.NOT_VERIFIED, True)
    assert "no lock belongs to host runner-8" in said
    code, _ = unlock("--host", "runner-7")
    assert (code, file.exists()) == (cli.VERIFIED, False)


def test_only_the_stale_locks_of_several_are_removed(unlock: Unlock) -> None:
    stale, living = unlock.lock("a"), unlock.lock("b", pid=os.getpid())
    other = unlock.lock("c", hostname="runner-7")
    broken = unlock.locks / "d.json"
    broken.write_text("{")
    code, said = unlock()
    assert code == cli.NOT_VERIFIED
    assert [f.exists() for f in (stale, living, other, broken)] == [False, True, True, True]
    assert "d.json is not a lock in Pulumi's format" in said


@pytest.mark.parametrize(
    "key",
    [
        "stacks/fleet/prod.json.attrs",
        "stacks/fleet/prod.json.bak.attrs",
        "stacks/fleet/prod.json.gz.attrs",
        "history/fleet/prod/prod-17.history.json.attrs",
        "backups/fleet/prod/prod.17.json.attrs",
    ],
)
@pytest.mark.parametrize("content", ["", '{"user.cache_contr'])
def test_attributes_that_end_early_are_removed(unlock: Unlock, key: str, content: str) -> None:
    file = unlock.file(key, content)
    state = unlock.file("stacks/fleet/prod.json", "{}")
    code, said = unlock("--dry-run")
    assert (code, file.exists()) == (1, True)
    assert f".pulumi/{key} is truncated" in said
    code, said = unlock()
    assert (code, file.exists(), state.exists()) == (0, False, True)
    assert unlock() == (0, "stack prod has no lock\n")


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("stacks/fleet/prod.json.attrs", '{"user.content_type": "text/plain"}\n'),
        ("stacks/fleet/production.json.attrs", ""),
        ("stacks/other/prod.json.attrs", ""),
    ],
)
def test_attributes_that_are_whole_or_of_another_stack_stay(
    unlock: Unlock, key: str, content: str
) -> None:
    file = unlock.file(key, content)
    assert unlock()[0] == 0
    assert file.exists()


def test_attributes_of_a_stack_in_use_stay(unlock: Unlock) -> None:
    file = unlock.file("stacks/fleet/prod.json.attrs", "")
    unlock.lock("a", pid=os.getpid())
    assert unlock()[0] == 1
    assert file.exists()


def test_pulumi_cloud_is_cancelled_only_with_the_option(unlock: Unlock) -> None:
    unlock.backend("https://app.pulumi.com/acme")
    for arguments in ((), ("--cancel", "--dry-run")):
        code, said = unlock(*arguments)
        assert (code, unlock.cancelled) == (cli.NOT_VERIFIED, "")
        assert "--cancel" in said
    code, _ = unlock("--cancel")
    assert code == cli.VERIFIED
    assert unlock.cancelled == "cancel --yes --non-interactive --stack prod"


def test_cancel_is_refused_for_a_lock_with_a_known_owner(unlock: Unlock) -> None:
    file = unlock.lock("a")
    code, _ = unlock("--cancel")
    assert (code, file.exists(), unlock.cancelled) == (cli.BAD_INPUT, True, "")


def test_a_backend_with_unsupported_locks_is_reported(unlock: Unlock) -> None:
    unlock.backend("azblob://state")
    code, said = unlock()
    assert code == cli.CANNOT_RUN
    assert "pulumi cancel --stack prod" in said


@pytest.mark.parametrize("content", [None, "runtime: python\n", "- 1\n"])
def test_a_missing_project_is_one_line(unlock: Unlock, content: str | None) -> None:
    file = unlock.directory / "Pulumi.yaml"
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    code, said = unlock()
    assert (code, said.count("\n")) == (cli.CANNOT_RUN, 1)
    assert "Pulumi.yaml" in said


def test_a_missing_pulumi_is_one_line(unlock: Unlock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    code, said = unlock()
    assert (code, said.count("\n")) == (cli.CANNOT_RUN, 1)
    assert "cannot start pulumi" in said


@pytest.mark.parametrize("host", ["", " "])
def test_a_host_without_a_name_is_wrong_use(unlock: Unlock, host: str) -> None:
    with pytest.raises(SystemExit) as refused:
        unlock("--host", host)
    assert refused.value.code == 2

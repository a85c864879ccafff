"""Every command with an output that lacks characters, columns, room or a reader."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from slicewright import cli
from slicewright.live.access import Access
from slicewright.telemetry.streams import replace_unencodable
from tests.slicewright.live.hostile import Server
from tests.slicewright.processes.outside import EKS, EXISTING, ROOT, Outside, silent

TYPE: Final = "slicewright:index:Gke$gcp:container/nodePool:NodePool"
URN: Final = f"urn:pulumi:dev::slicewright::{TYPE}::pö→"
PREVIEW: Final = {"steps": [{"op": "delete", "urn": URN, "oldState": {"id": "日本\x1b[31m"}}]}
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "init": ("nö→where", "--yes", "--cloud", "nö→ne"),
    "check": (EXISTING, EKS, str(ROOT / "tests/infra/golden/all-keys.yaml"), "nö→where.yaml"),
    "plan": (EXISTING, EKS, str(ROOT / "tests/infra/golden/fractional-hami.yaml")),
    "optimise": (str(ROOT / "tests/infra/planner/demand.yaml"), "--explain"),
    "schema": (),
    "preview-report": ("-s", EKS, "PREVIEW"),
    "deployed": ("-s", "prö→d"),
    "rights": ("-s", "eks-a100"),
    "doctor": ("nö→where.yaml",),
    "status": ("--all",),
    "rollout": ("status", "p"),
    "load": ("-s", EKS, "nö→ne"),
    "drift": ("-s", "nö→ne"),
    "import-file": ("-s", EKS, "nö→where"),
    "unlock": ("-s", "nö→ne"),
    "recover": ("-s", "nö→ne"),
    "destroy": ("-s", "nö→ne", "--file", EXISTING, "--dry-run"),
    "rehearse": ("--stack", "nö→ne"),
    "completion": ("bash",),
}
"""Command -> arguments with which it prints characters that ASCII lacks, where it can."""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    monkeypatch.setattr(Access, "client", lambda self: Server())
    with silent(tmp_path) as outside:
        outside.pulumi("import sys; sys.exit('error: nö bäckend → log in')")
        (outside.directory / "preview.json").write_text(json.dumps(PREVIEW))
        yield outside


def argv(outside: Outside, command: str) -> list[str]:
    preview = str(outside.directory / "preview.json")
    return [command, *(preview if word == "PREVIEW" else word for word in COMMANDS[command])]


def run(
    outside: Outside, command: str, *, encoding: str = "utf-8", stdout: int | str | None = None
) -> tuple[int, str, str]:
    """Runs the command with this encoding of its streams. stdout: None for a file."""
    return outside.start(argv=argv(outside, command), encoding=encoding, stdout=stdout).end()


def test_every_command_is_in_the_table() -> None:
    assert tuple(COMMANDS) == tuple(cli.COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_narrow_encoding_is_no_traceback_and_no_other_exit_code(
    command: str, outside: Outside
) -> None:
    usual, out, err = run(outside, command)
    assert "Traceback" not in out + err, out + err
    for encoding in ("ascii", "latin-1", "cp437"):
        code, out, err = run(outside, command, encoding=encoding)
        assert (code, "Traceback" in out + err) == (usual, False), (encoding, out, err)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_or_a_reader_that_is_gone_has_its_code(command: str, outside: Outside) -> None:
    usual, out, _ = run(outside, command)
    full, _, err = run(outside, command, stdout="/dev/full")
    assert "Traceback" not in err
    assert full == (cli.CANNOT_RUN if out else usual)
    reader, writer = os.pipe()
    os.close(reader)
    closed, _, err = run(outside, command, stdout=writer)
    os.close(writer)
    assert "Traceback" not in err
    assert closed == (cli.CLOSED_PIPE if out else usual)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [1, 20])
def test_a_terminal_of_few_columns_is_no_traceback(
    columns: int, command: str, outside: Outside
) -> None:
    usual = run(outside, command)[0]
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    screen: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(ours, screen))
    reader.start()
    code, _, err = run(outside, command, stdout=its)
    os.close(its)
    reader.join()
    os.close(ours)
    assert (code, "Traceback" in err, b"Traceback" in b"".join(screen)) == (usual, False, False)


def _drain(terminal: int, screen: list[bytes]) -> None:
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            return
        if not part:
            return
        screen.append(part)


def test_an_answer_that_is_not_utf_8_confirms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`destroy` asks on a terminal for the name of the stack."""
    reader, writer = os.pipe()
    os.write(writer, b"\xff\xfe\n")
    os.close(writer)
    monkeypatch.setattr(sys, "stdin", os.fdopen(reader))
    replace_unencodable()
    assert sys.stdin.readline() == "\ufffd\ufffd\n"

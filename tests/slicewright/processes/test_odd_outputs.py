"""Every command that reads the output of another program, and that output is odd."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from slicewright import cli
from tests.slicewright.processes.odd_outputs import GOOD_STATE, NOT_A_STATE, NOT_JSON
from tests.slicewright.processes.outside import CLUSTER, PULUMI, Outside, silent

Read = Callable[[str, bytes], str]
STATE = {name: words for name, words in PULUMI.items() if name not in ("unlock", "deployed")}


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with silent(tmp_path) as outside:
        yield outside


@pytest.fixture
def complaint(
    outside: Outside, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Read:
    """Runs a command whose pulumi prints the output; returns its only line of stderr."""
    program = outside.directory / "bin/pulumi"
    program.write_text(f'#!/bin/sh\ncat "{outside.directory}/output"\n')
    monkeypatch.chdir(outside.directory)
    for name, value in outside.environment.items():
        monkeypatch.setenv(name, value)

    def complaint(command: str, output: bytes) -> str:
        (outside.directory / "output").write_bytes(output)
        code = cli.main(outside.argv(command))
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        assert code == cli.CANNOT_RUN, (code, out, err)
        (line,) = err.splitlines()
        assert line.startswith(f"slicewright {command}: ")
        assert line.isprintable()
        assert len(line) < 500
        return line

    return complaint


@pytest.mark.parametrize("kind", NOT_JSON)
def test_output_that_is_not_json_is_one_line_of_every_command(kind: str, complaint: Read) -> None:
    for command in PULUMI:
        assert "cannot parse the output of `pulumi" in complaint(command, NOT_JSON[kind]), command


@pytest.mark.parametrize("kind", NOT_A_STATE)
def test_json_that_is_not_a_state_is_one_line_of_every_command(kind: str, complaint: Read) -> None:
    for command in STATE:
        assert "expected the state of a stack, got" in complaint(command, NOT_A_STATE[kind])


def test_the_line_names_the_program_the_expected_and_the_printed(complaint: Read) -> None:
    assert complaint("destroy", b"warning: \x1b[31mplease log in\n" + b"x" * 1000) == (
        "slicewright destroy: cannot parse the output of `pulumi stack export`: expected the state "
        "of a stack, got no JSON (Expecting value, line 1, column 1): 'warning: "
        "\\x1b[31mplease log in\\n" + "x" * 47 + "…'"
    )


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-32"], ids=lambda encoding: str(encoding)
)
def test_a_byte_order_mark_names_the_encoding(
    encoding: str, outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PowerShell writes UTF-16."""
    preview = '{"steps": [], "changeSummary": {}}'
    (outside.directory / "preview.json").write_bytes(preview.encode(encoding))
    argv = outside.argv("preview-report")
    argv.remove("--live")
    assert cli.main(argv) == cli.VERIFIED


TOKEN = {"status": {"token": "t"}}
CREDENTIAL = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", **TOKEN}
NO_CREDENTIAL: Mapping[str, bytes] = {
    **{kind: NOT_JSON[kind] for kind in ("nothing", "words", "not UTF-8", "NUL bytes")},
    **{kind: NOT_JSON[kind] for kind in ("a million objects", "a huge number", "half")},
    "2 MiB": b"x" * 2**21,
    "a list": b"[]",
    "null": b"null",
    "status null": json.dumps({**CREDENTIAL, "status": None}).encode(),
    "status text": json.dumps({**CREDENTIAL, "status": "token"}).encode(),
    "a token that is a number": json.dumps({**CREDENTIAL, "status": {"token": 17}}).encode(),
    "a token of two lines": json.dumps({**CREDENTIAL, "status": {"token": "a\nb"}}).encode(),
    "a time that is none": json.dumps(
        {**CREDENTIAL, "status": {"token": "t", "expirationTimestamp": "soon"}}
    ).encode(),
    "a time without a zone": json.dumps(
        {**CREDENTIAL, "status": {"token": "t", "expirationTimestamp": "2026-11-27T00:00:00"}}
    ).encode(),
}


@pytest.mark.parametrize("kind", NO_CREDENTIAL)
def test_a_plugin_that_prints_no_credential_is_one_line_without_its_output(
    kind: str,
    outside: Outside,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (outside.directory / "output").write_bytes(NO_CREDENTIAL[kind])
    outside.plugin("")
    program = outside.directory / "bin/credential-plugin"
    program.write_text(f'#!/bin/sh\ncat "{outside.directory}/output"\necho secret >&2\n')
    monkeypatch.chdir(outside.directory)
    for name, value in outside.environment.items():
        monkeypatch.setenv(name, value)
    for command in CLUSTER:
        code = cli.main(outside.argv(command))
        out, err = capfd.readouterr()
        assert (code, "Traceback" in out + err) == (cli.CANNOT_RUN, False)
        assert err.count("\n") == 1
        assert "secret" not in out + err


def test_a_good_state_is_read(complaint: Read, capfd: pytest.CaptureFixture[str]) -> None:
    """The tables above would also pass with commands that refuse everything."""
    with pytest.raises(AssertionError, match="no creation was interrupted"):
        complaint("recover", GOOD_STATE)


@pytest.mark.parametrize(
    "steps",
    [1, "x", {"a": 1}, [1], [None], [{}], [{"op": "create", "urn": "u"}], [{"op": 1, "urn": "u"}]],
    ids=json.dumps,
)
def test_a_preview_of_another_shape_is_one_line_of_recover(steps: object, outside: Outside) -> None:
    (outside.directory / "state").write_bytes(GOOD_STATE)
    (outside.directory / "preview").write_text(json.dumps({"steps": steps}))
    program = outside.directory / "bin/pulumi"
    choose = "[ $1 = stack ] && echo state || echo preview"
    program.write_text(f"#!/bin/sh\ncat {outside.directory}/$({choose})\n")
    code, _, err = outside.start(argv=[*outside.argv("recover"), "--adopt", "urn:x"]).end()
    assert (code, err.count("\n")) == (cli.CANNOT_RUN, 1)
    assert "cannot parse the output of `pulumi preview`: expected a preview" in err

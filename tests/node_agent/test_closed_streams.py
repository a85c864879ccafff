"""The agent and the controller without their standard streams, as some supervisors start them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from slicewright.node_agent import cli


def start(module: str, how: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {how}', sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_closed_stdout_is_one_line_of_the_agent_unless_it_only_logs(command: str) -> None:
    code, err = start("slicewright.node_agent", ">&-", command, "--help")
    if command in ("watch", "attribution"):
        assert (code, err) == (0, "")
        return
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("slicewright-agent: stdout is closed")


@pytest.mark.parametrize("how", ["<&-", "2>&-", "<&- 2>&-"])
@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("slicewright.node_agent", ("verify", "--file", "/nowhere")),
        ("slicewright.node_agent", ("watch", "--desired", "/nowhere")),
        ("slicewright.fleet_controller", ()),
    ],
)
def test_other_closed_streams_change_no_exit_code(
    module: str, arguments: tuple[str, ...], how: str
) -> None:
    code, err = start(module, how, *arguments)
    assert (code, "Traceback" in err) == (2, False)

"""Every command while the world outside it is silent: it says so, ends, and leaves nothing."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from slicewright import cli
from slicewright.processes import programs, waits
from tests.slicewright.processes.outside import (
    CLUSTER,
    FILE,
    PULUMI,
    SILENT,
    STACK_FILE,
    Outside,
    silent,
)

WAITING = (*PULUMI, *CLUSTER, *FILE)
ALL = (*WAITING, *STACK_FILE)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    # A shorter wait is announced, too, so that the tests take no longer.
    monkeypatch.setattr(programs, "NOTICE_S", 0.3)
    monkeypatch.setattr(waits, "NOTICE_S", 0.3)
    with silent(tmp_path) as outside:
        yield outside


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_every_command_is_in_the_table() -> None:
    """A rehearsal has tests of its own: tests/rehearsal/scenario/whole_run/test_interrupted.py.
    The completion's script depends on nothing outside.
    """
    assert {*ALL, "rehearse", "completion"} == set(cli.COMMANDS)


@pytest.mark.parametrize("number", CODES)
def test_every_command_announces_its_wait_and_ends_at_a_signal(
    number: signal.Signals, outside: Outside
) -> None:
    commands = {command: outside.start(command) for command in WAITING}
    announced = {name: command.first_words() for name, command in commands.items()}
    assert len(outside.started()) == 2 * len(PULUMI)
    for command in commands.values():
        command.send_signal(number)
    ends = {name: command.end() for name, command in commands.items()}
    assert [name for name, line in announced.items() if "waiting for" not in line] == []
    assert {name: code for name, (code, _, _) in ends.items()} == dict.fromkeys(
        WAITING, CODES[number]
    )
    assert [name for name, (_, _, err) in ends.items() if "Traceback" in err] == []
    assert [pid for pid in outside.started() if lives(pid)] == []


def test_a_plugin_of_a_kubeconfig_is_announced_and_ended(outside: Outside) -> None:
    outside.plugin(SILENT)
    commands = [outside.start(name) for name in CLUSTER]
    for command in commands:
        assert "waiting for the credential plugin" in command.first_words()
        command.send_signal(signal.SIGTERM)
    assert [command.end()[0] for command in commands] == [143] * len(CLUSTER)
    assert len(outside.started()) == 2 * len(CLUSTER)
    assert [pid for pid in outside.started() if lives(pid)] == []


def test_a_cloud_that_does_not_answer_is_announced(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cloud_variables(outside.address).items():
        monkeypatch.setitem(outside.environment, name, value)
    for stack in ("eks-a100", "gke-h100"):
        command = outside.start(argv=["doctor", f"{outside.directory}/stacks/Pulumi.{stack}.yaml"])
        assert f"waiting for {outside.address}" in command.first_words(), stack
        command.send_signal(signal.SIGTERM)
        assert command.end()[0] == 143


def cloud_variables(address: str) -> dict[str, str]:
    google = ("CONTAINER", "COMPUTE", "SERVICE_USAGE", "RESOURCE_MANAGER", "IAM")
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "t",
        **{f"GOOGLE_{name}_CUSTOM_ENDPOINT": f"{address}/" for name in google},
    }


DEAF = """\
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
"""


def test_a_second_interrupt_kills_a_pulumi_that_goes_on_after_the_first(outside: Outside) -> None:
    outside.pulumi(f"""\
import sys
if "export" in sys.argv:
    print('{{"deployment": {{"resources": [{{"urn": "u", "type": "t", "custom": true}}]}}}}')
    sys.exit()
print("Destroying", flush=True)
{DEAF}{SILENT}""")
    command = outside.start("destroy")
    _wait_for(outside)
    command.send_signal(signal.SIGINT)
    assert "asked to stop; a second Ctrl-C kills it" in command.first_words()
    time.sleep(0.5)
    assert [pid for pid in outside.started() if not lives(pid)] == []
    command.send_signal(signal.SIGINT)
    code, _, err = command.end()
    assert (code, "Traceback" in err) == (130, False)
    assert [pid for pid in outside.started() if lives(pid)] == []


def _wait_for(outside: Outside) -> None:
    for _ in range(1200):
        if outside.started():
            return
        time.sleep(0.05)
    pytest.fail("pulumi was not started")


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 2)])
def test_a_closed_stdin_or_stderr_changes_no_exit_code(
    closed: Sequence[int], outside: Outside
) -> None:
    """Each command but `schema` ends by a pulumi that fails, by a file or cluster that does not
    exist, or by a wrong answer.
    """
    outside.pulumi("import sys; sys.exit('error: no backend')")
    (outside.directory / "kubeconfig").unlink()
    (outside.directory / "file").unlink()
    usual = {name: outside.start(name) for name in ALL}
    lacking = {name: outside.start(name, closed=closed) for name in ALL}
    codes = {name: command.end()[0] for name, command in usual.items()}
    assert {name for name, code in codes.items() if code not in (2, 3)} == {"schema"}
    ends = {name: command.end() for name, command in lacking.items()}
    assert {name: code for name, (code, _, _) in ends.items()} == codes
    assert [name for name, (_, _, err) in ends.items() if "Traceback" in err] == []


def test_a_closed_stdout_is_one_line_of_every_command(outside: Outside) -> None:
    commands = [outside.start(name, closed=(1,)) for name in ALL]
    line = (
        "slicewright: stdout is closed, so the result cannot be written; open it, or redirect it "
        "to /dev/null\n"
    )
    assert [command.end() for command in commands] == [(3, "", line)] * len(ALL)

"""A rehearsal that is cut off leaves nothing running, or a later run finds what is left and ends
it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rehearsal.host.processes import marks
from rehearsal.host.processes.marks import marked
from rehearsal.host.toolchain import Toolchain
from rehearsal.scenario import environment as environments
from rehearsal.scenario.engine_runs import Engine, Outcome
from rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal]


@pytest.fixture
def command(
    toolchain: Toolchain, confined: Path
) -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """`slicewright rehearse --stack s0` as a person starts it, in a process group of its own."""
    started: list[subprocess.Popen[str]] = []
    # The tools are there already; HOME is redirected, so say where.
    cache = toolchain.pulumi.parents[4] if "slicewright" in str(toolchain.pulumi) else None

    def start(directory: Path) -> subprocess.Popen[str]:
        variables = dict(os.environ) | ({"XDG_CACHE_HOME": str(cache)} if cache else {})
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "slicewright.cli",
                "rehearse",
                "--stack",
                "s0",
                "--directory",
                str(directory),
            ],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_until(process: subprocess.Popen[str], sign: str) -> str:
    seen = []
    assert process.stdout is not None
    for line in process.stdout:
        seen.append(line)
        if sign in line:
            return "".join(seen)
    pytest.fail(f"ended without {sign!r}:\n{''.join(seen)}")


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_told_to_end_in_the_middle_of_up_it_ends_everything(
    command: Callable[[Path], subprocess.Popen[str]], confined: Path, told: signal.Signals
) -> None:
    directory = confined / told.name.lower()
    process = command(directory)
    _read_until(process, "API server answers")
    process.send_signal(told)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert marked(directory / "s0") == []


def test_an_interrupted_run_does_not_stand_in_the_way_of_the_next(
    command: Callable[[Path], subprocess.Popen[str]], confined: Path
) -> None:
    """Cut off while the cloud makes the cluster: the engine's state and the cloud do not agree on
    what there is.
    """
    directory = confined / "again"
    first = command(directory)
    _read_until(first, "gcp:compute:Subnetwork gke-nodes created")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=180)
    second = command(directory)
    _read_until(second, "Previewing update")
    third = command(directory)
    output, _ = third.communicate(timeout=180)
    assert third.returncode == 3, output
    assert "another run works on s0" in output
    output, _ = second.communicate(timeout=400)
    assert second.returncode == 0, output
    assert not (directory / "s0").exists()


def test_what_a_killed_run_left_is_found_and_ended_by_a_later_one(
    command: Callable[[Path], subprocess.Popen[str]], confined: Path
) -> None:
    directory = confined / "killed"
    process = command(directory)
    _read_until(process, "API server answers")
    process.kill()
    process.wait()
    assert marked(directory / "s0"), "nothing was left running: the test has nothing to show"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "slicewright.cli",
            "rehearse",
            "stop",
            "--directory",
            str(directory),
        ],
        check=True,
        timeout=180,
    )
    assert marked(directory / "s0") == []


def test_processes_of_others_are_left_alone(
    make_environment: Callable[[str], Environment], confined: Path
) -> None:
    environment = make_environment("bystander")
    exported = {**os.environ, "SLICEWRIGHT_REHEARSAL": str(environment.root)}
    elsewhere = {**os.environ, **marks(confined / "another", "cloud")}
    bystanders = [subprocess.Popen(["sleep", "60"], env=env) for env in (exported, elsewhere)]
    try:
        environments.stop(environment)
        assert [b.poll() for b in bystanders] == [None, None]
    finally:
        for bystander in bystanders:
            bystander.kill()
            bystander.wait()


def test_two_environments_work_side_by_side(make_environment: Callable[[str], Environment]) -> None:
    """The same stack twice at once, same cluster name, each in its own cloud."""
    engines = [Engine(make_environment(name), "s0") for name in ("left", "right")]
    outcomes: list[Outcome | None] = [None, None]

    def run(at: int) -> None:
        engines[at].init()
        outcomes[at] = engines[at].up()

    threads = [threading.Thread(target=run, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [o.code if o else None for o in outcomes] == [0, 0], [
        o.output if o else None for o in outcomes
    ]
    assert engines[0].destroy().code == 0
    assert engines[0].environment.inventory() == {}
    assert engines[1].environment.inventory() != {}, "destroying one environment emptied the other"
    assert engines[1].up("--expect-no-changes").code == 0

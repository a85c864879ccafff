"""A rehearsal that is cut off leaves nothing running, or a later run finds what is left and ends
it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slicewright.rehearsal.host.processes import marks
from slicewright.rehearsal.host.processes.marks import marked
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment

pytestmark = [pytest.mark.rehearsal]
ENGINES_DIE = True


@pytest.fixture
def command(
    toolchain: Toolchain, confined: Path
) -> Iterator[Callable[[Path], subprocess.Popen[str]]]:
    """`slicewright rehearse --stack gke-h100` as a person starts it, in a process group of its
    own.
    """
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
                "gke-h100",
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


def _assert_it_ends_everything(
    process: subprocess.Popen[str], told: signal.Signals, directory: Path
) -> None:
    assert marked(directory / "gke-h100"), "nothing runs yet: the test has nothing to show"
    process.send_signal(told)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 128 + told, output
    assert "Traceback" not in output
    assert marked(directory / "gke-h100") == []


def test_sigterm_ends_everything_like_ctrl_c(
    command: Callable[[Path], subprocess.Popen[str]], confined: Path
) -> None:
    process = command(confined / "told")
    _read_until(process, "Previewing update")
    _assert_it_ends_everything(process, signal.SIGTERM, confined / "told")


@pytest.mark.long(
    "a run that ends on SIGTERM: tests/rehearsal/scenario/whole_run/test_interrupted.py"
)
def test_run_interrupted_during_up_does_not_block_the_next(
    command: Callable[[Path], subprocess.Popen[str]],
    make_environment: Callable[[str], Environment],
    confined: Path,
) -> None:
    """Cut off while the cloud makes the cluster: the engine's state and the cloud do not agree on
    what there is. The next run works beside the same stack, with the same cluster name, in another
    environment's own cloud.
    """
    directory = confined / "again"
    first = command(directory)
    _read_until(first, "gcp:compute:Subnetwork gke-nodes created")
    _assert_it_ends_everything(first, signal.SIGINT, directory)
    beside = Engine(make_environment("beside"), "gke-h100")
    with ThreadPoolExecutor(max_workers=1) as in_background:
        second = command(directory)
        up = in_background.submit(lambda: (beside.init(), beside.up())[-1])
        _read_until(second, "Previewing update")
        third = command(directory)
        output, _ = third.communicate(timeout=400)
        assert third.returncode == 3, output
        assert "another run works on gke-h100" in output
        output, _ = second.communicate(timeout=800)
        assert second.returncode == 0, output
        assert not (directory / "gke-h100").exists()
        assert up.result().code == 0, up.result().output
    assert beside.environment.inventory() != {}, "destroying one environment emptied the other"
    assert beside.up("--expect-no-changes").code == 0


def test_later_run_ends_the_processes_of_a_killed_run(
    command: Callable[[Path], subprocess.Popen[str]], confined: Path
) -> None:
    directory = confined / "killed"
    process = command(directory)
    _read_until(process, "API server answers")
    process.kill()
    process.wait()
    assert marked(directory / "gke-h100"), "nothing was left running: the test has nothing to show"
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
        timeout=400,
    )
    assert marked(directory / "gke-h100") == []


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

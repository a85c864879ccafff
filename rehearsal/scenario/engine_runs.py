"""Runs of the real `pulumi` in one environment: the same commands that a user types."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slicewright.rehearsal.host import processes
from slicewright.rehearsal.scenario import checkpoints, cloud_variables
from slicewright.rehearsal.scenario.environment import Environment

LineSink = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """How one `pulumi` command ended."""

    command: str
    code: int
    output: str
    """stdout and stderr together, in order."""
    seconds: float


@dataclass(frozen=True)
class Engine:
    """`pulumi` for one stack of one environment; `sink` gets each line of output at once."""

    environment: Environment
    stack: str
    sink: LineSink = lambda line: None
    is_hopeless: Callable[[], bool] = lambda: False
    """Asked every second while a command runs; once true, the command is killed."""

    def init(self) -> Outcome:
        """Selects the stack, creating it if need be."""
        return self._run("stack", "select", "--create", self.stack)

    def preview(self, *flags: str) -> Outcome:
        return self._run("preview", "--suppress-outputs", *self._common(), *flags)

    def up(self, *flags: str) -> Outcome:
        return self._run(
            "up", "--yes", "--skip-preview", "--suppress-outputs", *self._common(), *flags
        )

    def refresh(self, *flags: str) -> Outcome:
        return self._run("refresh", "--yes", "--skip-preview", *self._common(), *flags)

    def destroy(self, *flags: str) -> Outcome:
        return self._run("destroy", "--yes", "--skip-preview", *self._common(), *flags)

    def _common(self) -> tuple[str, ...]:
        return (
            "--stack",
            self.stack,
            "--non-interactive",
            "--color",
            "never",
            "--suppress-permalink=true",
        )

    def _run(self, *arguments: str) -> Outcome:
        pulumi = str(self.environment.root / "bin" / "pulumi")
        # Without bytecode every plugin would compile the SDK's modules at each start: seconds per
        # operation.
        dropped = ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE", *cloud_variables.USERS_OWN)
        environment = {
            k: v for k, v in os.environ.items() if k not in dropped and not k.startswith("PULUMI_")
        }
        environment |= self.environment.variables()
        environment |= checkpoints.engine_variables(os.environ)
        # Marked, so that a later run finds and ends the engine should this process be killed.
        environment |= processes.marks(self.environment.root, "pulumi")
        # An Output inside an f-string is a programming error that would otherwise end up in a
        # resource's name.
        environment["PULUMI_ERROR_OUTPUT_STRING"] = "1"
        # It writes its state, 3.5 MB with the code of agent and controller, at each step. With Go's
        # default of 100 a fifth of its processor time went into collecting the garbage of that.
        environment.setdefault("GOGC", "400")
        began = time.monotonic()
        process = subprocess.Popen(
            [pulumi, *arguments],
            cwd=self.environment.project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        lines: list[str] = []
        assert process.stdout is not None
        try:
            with self._killed_when_hopeless(process):
                for line in process.stdout:
                    lines.append(line)
                    self.sink(line.rstrip("\n"))
                code = process.wait()
        except BaseException:
            # On one interrupt pulumi finishes the step at hand and saves its state.
            _interrupt(process)
            raise
        return Outcome(
            " ".join(["pulumi", *arguments]), code, "".join(lines), time.monotonic() - began
        )

    @contextlib.contextmanager
    def _killed_when_hopeless(self, process: subprocess.Popen[str]) -> Iterator[None]:
        done = threading.Event()

        def look() -> None:
            while not done.wait(1.0):
                if self.is_hopeless():
                    os.killpg(process.pid, signal.SIGKILL)
                    return

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _interrupt(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

"""Starting a process so that it never runs without a record."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from slicewright.rehearsal.host.processes import children, kernel, records
from slicewright.rehearsal.host.processes.ending import end_descendants
from slicewright.rehearsal.host.processes.errors import NotStarted, ProcessError
from slicewright.rehearsal.host.processes.marks import marks
from slicewright.rehearsal.host.processes.records import Recorded

# The child is a shell that reads a line from its standard input, and then becomes the program. The
# line is sent once the record is written. If this process dies before, the shell reads the end of
# the pipe and exits.
_GATE = 'read -r _ && exec "$@" </dev/null'


class AlreadyRunning(ProcessError):
    """A process of that name runs in the environment already; `record` is its record."""

    def __init__(self, record: Recorded) -> None:
        super().__init__(
            f"{record.name} runs already in {record.environment} (pid {record.pid}); stop it first"
        )
        self.record = record


def start(
    environment: Path,
    name: str,
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
    pass_fds: Sequence[int] = (),
    stop_rank: int = 0,
) -> Recorded:
    """Starts `argv` in a session of its own, its output appended to `log`, without input.

    env: the whole environment of the process (None: this process's), to which the marks are added.
    log: by default ENVIRONMENT/log/NAME.log. stop_rank: lower ends first in `stop_all`. What an
    ended process of that name left running is ended first. The process outlives its starter. Raises
    AlreadyRunning, NotStarted, and ValueError for an invalid name.
    """
    environment = environment.resolve()
    records.check_name(name)
    records.directory(environment).mkdir(mode=0o700, parents=True, exist_ok=True)
    log = log or environment / "log" / f"{name}.log"
    variables = {**(os.environ if env is None else env), **marks(environment, name)}
    program = _program(argv[0], variables, cwd)
    with records.locked(environment):
        if running := records.find(environment, name):
            raise AlreadyRunning(running)
        end_descendants(environment, name)
        return _start(
            environment,
            name,
            [program, *map(str, argv[1:])],
            variables,
            cwd,
            log,
            tuple(pass_fds),
            stop_rank,
        )


def _start(
    environment: Path,
    name: str,
    argv: Sequence[str],
    variables: Mapping[str, str],
    cwd: Path | None,
    log: Path,
    pass_fds: Sequence[int],
    stop_rank: int,
) -> Recorded:
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(
            os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb", buffering=0
        ) as output:
            output.write(f"--- {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {name} starts\n".encode())
            child = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, name, *argv],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                cwd=cwd,
                pass_fds=pass_fds,
                start_new_session=True,
            )
    except OSError as e:
        raise NotStarted(f"{name}: {argv[0]} did not start: {e}") from e
    assert child.stdin is not None
    try:
        waiting = kernel.see(child.pid)
        if waiting is None:
            raise NotStarted(f"{name}: the shell that starts {argv[0]} ended; its log: {log}")
        record = Recorded(
            environment=environment,
            name=name,
            pid=child.pid,
            start_ticks=waiting.start_ticks,
            boot_id=kernel.boot_id(),
            log=log,
            stop_rank=stop_rank,
        )
        records.store(record)
        child.stdin.write(b"\n")
        child.stdin.flush()
    except OSError as e:
        raise NotStarted(f"{name}: {argv[0]} did not start: {e}") from e
    finally:
        # Closed without the line, the pipe makes the waiting shell exit.
        child.stdin.close()
        children.adopt(child)
    return record


def _program(program: str | Path, variables: Mapping[str, str], cwd: Path | None) -> str:
    """The absolute path. Raises NotStarted: the shell would report a missing program in its log."""
    directory = Path.cwd() if cwd is None else cwd
    if "/" in str(program):
        path = directory / program
        found = str(path) if path.is_file() and os.access(path, os.X_OK) else None
    else:
        found = shutil.which(str(program), path=variables.get("PATH", os.defpath))
    if found is None:
        raise NotStarted(f"{program}: not found, or not executable")
    return found

"""`pulumi` killed with its plugins at one call of a cloud, and what documentation says to do then.

The moment is a number of calls that change the cloud, not a time: so it is the same on any machine,
but for the order of what the engine does side by side.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slicewright.rehearsal.clouds.core.errors import ConnectionLost
from slicewright.rehearsal.host.processes import kernel, marks
from slicewright.rehearsal.host.processes.marks import marked
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import plugins_and_commands
from tests.infra.cloud_engine import CloudEngine, Ran, cloud_engine

_READS = re.compile(
    r"(.*\.)?(get|list|aggregatedList|describe|simulate|test|search)", re.IGNORECASE
)
_MARK = "pulumi"


@dataclass
class Killer:
    """Counts the calls that change a cloud, and ends the engine at one of them."""

    root: Path
    changes: list[str] = field(default_factory=list)
    """Since the last `arm`."""
    _at: int | None = None
    _carried_out: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _calls: int = 0
    """That are being answered."""
    _quiet: threading.Condition = field(default_factory=threading.Condition)
    _killed: list[kernel.Seen] = field(default_factory=list)

    def arm(self, at: int | None = None, *, carried_out: bool = False) -> None:
        """at: the number of the call, from 1; None: never. carried_out: whether the cloud does what
        it was asked for, to nobody's knowledge.
        """
        with self._lock:
            self.changes.clear()
            self._at, self._carried_out = at, carried_out

    @property
    def struck(self) -> bool:
        return self._at is not None and len(self.changes) >= self._at

    def watch(self, call: Any) -> Any:
        """As the cloud's own call."""

        def watched(*asked: Any) -> Any:
            with self._quiet:
                self._calls += 1
            try:
                return counted(*asked)
            finally:
                with self._quiet:
                    self._calls -= 1
                    self._quiet.notify_all()

        def counted(service: str, method: str, params: Any, body: Any) -> Any:
            if _READS.match(method):
                return call(service, method, params, body)
            with self._lock:
                self.changes.append(f"{service}.{method}")
                now = len(self.changes) == self._at
                if now:
                    self._kill()
                dead = self.struck
            if dead and not (now and self._carried_out):
                # Of a client that is dead: it had not been sent yet.
                raise ConnectionLost
            return call(service, method, params, body)

        return watched

    def settle(self) -> None:
        """Waits until every call has been answered, also those of clients that are dead, and until
        these have ended: an engine is its command's child, and may outlive that for a moment.
        """
        with self._quiet:
            assert self._quiet.wait_for(lambda: not self._calls, timeout=120)
        deadline = time.monotonic() + 120
        while any(map(_lives, self._killed)):
            assert time.monotonic() < deadline, "a killed process does not end"
            time.sleep(0.05)
        self._killed.clear()

    def _kill(self) -> None:
        for seen in marked(self.root, _MARK):
            with suppress(ProcessLookupError):
                os.kill(seen.pid, signal.SIGKILL)
                self._killed.append(seen)


def _lives(killed: kernel.Seen) -> bool:
    """Not as a zombie, which waits for its parent only; nor another one that has its number now."""
    now = kernel.see(killed.pid)
    return now is not None and now.start_ticks == killed.start_ticks and not now.ended


@dataclass(frozen=True)
class KilledEngine:
    engine: CloudEngine
    killer: Killer

    def undisturbed(self, command: str) -> int:
        """Runs it to its end. How many calls changed the cloud."""
        self.killer.arm()
        ran = self._engine(command)
        assert ran.code == 0, ran.output
        return len(self.killer.changes)

    def killed(self, command: str, at: int, *, carried_out: bool) -> str:
        """The last call before the end. Empty where the command ended before it."""
        self.killer.arm(at, carried_out=carried_out)
        ran = self._engine(command)
        self.killer.settle()
        struck = self.killer.struck
        last = self.killer.changes[at - 1] if struck else ""
        self.killer.arm()
        assert (ran.code == -signal.SIGKILL) == struck, ran.output
        # The cloud finishes what it was doing, as the how-to says to wait for.
        assert self.engine.cloud.tasks.wait(120)
        return last

    def as_documented(self) -> str:
        """docs/how-to/interrupted-up.md, up to the next `pulumi up`."""
        return "".join(
            self._slicewright(*words, "--stack", "dev") for words in (["unlock"], ["recover"])
        )

    def again(self, command: str) -> str:
        """Runs it, to a good end."""
        ran = self._engine(command)
        assert ran.code == 0, ran.output
        return ran.output

    def unchanged(self) -> None:
        """Neither the program nor the cloud differs from the state."""
        ran = self.engine.run("up", "--yes", "--skip-preview", "--refresh", "--expect-no-changes")
        assert ran.code == 0, ran.output

    def inventory(self) -> Mapping[str, int]:
        return {kind: len(names) for kind, names in sorted(self.engine.cloud.inventory().items())}

    def _engine(self, command: str) -> Ran:
        return self.engine.run(command, "--yes", "--skip-preview")

    def _slicewright(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "slicewright.cli", *arguments],
            cwd=self.engine.directory,
            env=dict(self.engine.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@contextmanager
def killed_engine(
    directory: Path, toolchain: Toolchain, fleet: Mapping[str, Any]
) -> Iterator[KilledEngine]:
    """The fleet's program over an empty cloud, with plugins that are processes of their own."""
    with cloud_engine(directory, toolchain) as engine:
        engine.write(fleet)
        (directory / "bin").mkdir()
        plugins_and_commands.install(directory, toolchain)
        variables = {
            **{k: v for k, v in engine.variables.items() if k != "PULUMI_DEBUG_PROVIDERS"},
            **plugins_and_commands.engine_settings(directory),
            **marks(directory, _MARK),
            "PULUMI_HOME": str(directory / "pulumi" / "home"),
            "PATH": f"{directory / 'bin'}:{engine.variables['PATH']}",
        }
        killer = Killer(directory)
        engine.cloud._call = killer.watch(engine.cloud._call)  # type: ignore[method-assign]
        yield KilledEngine(replace(engine, variables=variables), killer)

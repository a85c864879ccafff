"""Each command with the programs, servers and files outside it, all of which are silent."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slicewright import cli
from slicewright.commands import module_of
from slicewright.doctor import preflight
from slicewright.live import coming
from slicewright.preview import living, markdown

IMPORTED: Final = (
    *(module_of(name) for name in cli.COMMANDS),
    *(preflight, coming, living, markdown),
)
"""Imported once, and not by each command."""
ROOT: Final = Path(__file__).resolve().parents[3]
EXISTING: Final = str(ROOT / "stacks/Pulumi.existing-a100-t4.yaml")
EKS: Final = str(ROOT / "stacks/Pulumi.eks-a100.yaml")
SERVING: Final = str(ROOT / "tests/infra/golden/autoscaling.yaml")

PULUMI: Final[Mapping[str, Sequence[str]]] = {
    "deployed": ("-s", "dev"),
    "rights": ("-s", "eks-a100", "--state"),
    "drift": ("-s", "existing-a100-t4"),
    "unlock": ("-s", "dev"),
    "recover": ("-s", "dev"),
    "destroy": ("-s", "dev", "--file", EXISTING, "--yes"),
}
"""Command -> arguments with which it runs pulumi."""
CLUSTER: Final[Mapping[str, Sequence[str]]] = {
    "status": (),
    "rollout": ("status", "p"),
    "load": ("-s", SERVING, "llm"),
    "preview-report": ("-s", EKS, "--live", "PREVIEW"),
    "doctor": ("EXISTING",),
}
"""Command -> arguments with which it asks a cluster. PREVIEW and EXISTING are files."""
FILE: Final[Mapping[str, Sequence[str]]] = {"import-file": ("FILE", "-s", EKS)}
"""Command -> arguments with which it reads nothing but a file."""
STACK_FILE: Final[Mapping[str, Sequence[str]]] = {
    "check": ("FILE",),
    "plan": ("FILE",),
    "optimise": ("FILE",),
    "init": ("project", "--yes", "--cloud", "nö→where"),
    "schema": (),
}
"""Command -> arguments with which it reads at most a stack file, which cannot be a pipe."""


_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Command:
    """A running command, with its output in files."""

    pid: int
    out: Path
    err: Path

    def first_words(self, least: int = 1) -> str:
        """Its stderr, once it has that many lines."""
        for _ in range(1200):
            text = self.err.read_text() if self.err.exists() else ""
            if text.count("\n") >= least:
                return text
            time.sleep(0.05)
        raise AssertionError(f"no words: {text!r}")

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def end(self) -> tuple[int, str, str]:
        """Its exit code, stdout and stderr."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        out, err = (
            file.read_text(errors="replace") if file.exists() else ""
            for file in (self.out, self.err)
        )
        return code, out, err


@dataclass(frozen=True)
class Outside:
    directory: Path
    address: str
    """The URL of a server that accepts connections, and answers none."""
    environment: dict[str, str]

    def start(
        self,
        command: str = "",
        *,
        argv: Sequence[str] = (),
        closed: Sequence[int] = (),
        encoding: str = "utf-8",
        stdout: int | str | None = None,
    ) -> Command:
        """Starts a command as a fork of this process, which has imported everything.

        argv: in place of the command's own. closed: the standard streams that it lacks. stdout: a
        file, an open one, or None for one that is read at its end.
        """
        number = next(_NUMBERS)
        files = [self.directory / f"{name}-{number}" for name in ("out", "err")]
        pid = os.fork()
        if pid == 0:
            code = 99
            try:
                self._become(files if stdout is None else [stdout, files[1]], encoding, closed)
                code = cli.main([*(argv or self.argv(command))])
            except SystemExit as e:
                code = e.code if isinstance(e.code, int) else 1
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return Command(pid, *files)

    def _become(
        self, outputs: Sequence[int | str | Path], encoding: str, closed: Sequence[int]
    ) -> None:
        """Makes the forked process like a new one."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.directory)
        for descriptor, file in enumerate((os.devnull, *outputs)):
            opened = file if isinstance(file, int) else os.open(file, os.O_RDWR | os.O_CREAT)
            os.dup2(opened, descriptor)
        sys.stdin = open(0, encoding=encoding)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding=encoding)  # noqa: SIM115
        sys.stderr = open(  # noqa: SIM115
            2, "w", encoding=encoding, errors="backslashreplace", buffering=1
        )
        for descriptor in closed:
            os.close(descriptor)
            setattr(sys, ("stdin", "stdout", "stderr")[descriptor], None)

    def argv(self, command: str) -> list[str]:
        words = {**PULUMI, **CLUSTER, **FILE, **STACK_FILE}[command]
        files = {"PREVIEW": "preview.json", "EXISTING": "existing.yaml", "FILE": "file"}
        named = [str(self.directory / files[w]) if w in files else w for w in words]
        return [command, *named]

    def pulumi(self, script: str) -> None:
        """Replaces the pulumi that prints nothing and never ends."""
        self._program("pulumi", script)

    def plugin(self, script: str) -> None:
        self._program("credential-plugin", script)
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "CP"}}
        user["exec"]["command"] = str(self.directory / "bin/credential-plugin")
        file = Path(self.environment["KUBECONFIG"])
        config = json.loads(file.read_text())
        file.write_text(json.dumps({**config, "users": [{"name": "c", "user": user}]}))

    def _program(self, name: str, script: str) -> None:
        program = self.directory / "bin" / name
        program.write_text(f"#!{sys.executable}\n{script}\n")
        program.chmod(0o755)

    def started(self) -> list[int]:
        """The processes that the silent programs have written down."""
        return [int(pid) for f in self.directory.glob("pids-*") for pid in f.read_text().split()]


SILENT: Final = """\
import os, pathlib, subprocess, sys, time
# A plugin of Pulumi has a process group of its own.
child = subprocess.Popen(["sleep", "1000"], process_group=0)
pids = pathlib.Path(os.environ["PIDS"], f"pids-{os.getpid()}")
pids.with_name("new").write_text(f"{os.getpid()} {child.pid}")
pids.with_name("new").rename(pids)
time.sleep(1000)
"""


@contextmanager
def silent(directory: Path) -> Iterator[Outside]:
    """A project with a pulumi, an API server and a file that accept, and never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        (directory / "bin").mkdir()
        (directory / "stacks").symlink_to(ROOT / "stacks")
        (directory / "Pulumi.yaml").write_text(
            "name: slicewright\nruntime: python\nstackConfigDir: stacks\n"
        )
        (directory / "preview.json").write_text('{"steps": [], "changeSummary": {}}')
        os.mkfifo(directory / "file")
        kubeconfig = directory / "kubeconfig"
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        config = {
            "current-context": "gpu-sharing",
            "contexts": [{"name": "gpu-sharing", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "c", "user": {"token": "t"}}],
        }
        kubeconfig.write_text(json.dumps(config))
        existing = Path(EXISTING).read_text()
        assert "  kubeconfig:" not in existing
        (directory / "existing.yaml").write_text(existing)
        outside = Outside(
            directory,
            address,
            {
                **os.environ,
                "PATH": f"{directory / 'bin'}:/usr/bin:/bin",
                "HOME": str(directory),
                "KUBECONFIG": str(kubeconfig),
                "PIDS": str(directory),
            },
        )
        outside.pulumi(SILENT)
        yield outside

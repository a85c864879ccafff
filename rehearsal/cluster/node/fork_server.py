"""Starts many programs of simulated nodes as forks of one process.

    python -I -S fork_server.py PARENT FD...

Run by forks.py; each FD is a socket of messages, and the first one carries what to load. Each
program has its own file system, user and process group, as from sandbox.py. What its start no
longer costs is that of a Python, and where a program is to be loaded that is Python code, the
compilation and import of its modules: a fork has them already, and shares their memory until it
writes to it.

For each FD there is one process with a session of its own, in which its forks are, too. A kernel
that groups processes by session (sched(7), autogroup) gives a session the processor time of one
program: the CPUs of a fleet's nodes are its own, and do not take those of its control plane.
"""

# ruff: noqa: PTH100, PTH120, PTH123

from __future__ import annotations

import gc
import hashlib
import importlib.util
import io
import json
import os
import socket
import sys
import time
import types
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

_NICE = 5
"""A third of the weight of other programs. Source: kernel/sched/core.c, sched_prio_to_weight."""
_MOST_BYTES = 1 << 20
"""Of a message."""


def _sandbox() -> Any:
    path = f"{os.path.dirname(os.path.abspath(__file__))}/sandbox.py"
    spec = importlib.util.spec_from_file_location("sandbox", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sandbox = _sandbox()


class Loaded:
    """A program `python -c CODE ARCHIVE HASH ARGUMENTS…`, with all modules of its archive imported.

    CODE runs the archive's `__main__.py`, with ARCHIVE and ARGUMENTS, if the archive has this hash.
    """

    def __init__(self, code: str, archive: str, digest: str) -> None:
        """Asks for the program's version, for which CODE checks the archive, and leaves behind what
        imports modules from what it has checked. Raises OSError, ValueError.
        """
        with open(archive, "rb") as file:
            content = file.read()
        before = len(sys.meta_path)
        _check(code, archive, digest)
        self._bytes = _hash_of(archive)
        if self._bytes != hashlib.sha256(content).hexdigest():
            raise ValueError("its archive changes")
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            names = [name for name in opened.namelist() if name.endswith(".py")]
            main = opened.read("__main__.py")
        self._main = compile(main, f"{archive}/__main__.py", "exec", dont_inherit=True)
        for name in names:
            module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if module.rpartition(".")[2] != "__main__":
                try:
                    importlib.import_module(module)
                except Exception:  # noqa: BLE001, S112 - the program says so, if it needs it
                    continue
        self._added = len(sys.meta_path) - before
        if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
            raise ValueError("its modules start threads, which forks would not have")

    def run(self, argv: list[str]) -> None:
        """In a fork that is a process of the node. argv: of the program."""
        at = argv.index("-c")
        code, archive, _, *arguments = argv[at + 1 :]
        try:
            same = _hash_of(archive) == self._bytes
        except OSError:
            same = False
        if same:
            # What CODE would do, without a second copy of the archive in memory.
            sys.argv = [archive, *arguments]
            exec(self._main, _main_module())  # noqa: S102 - checked code of our own
        else:
            sys.argv = ["-c", *argv[at + 2 :]]
            del sys.meta_path[: self._added]
            _run(code)


def _hash_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(code: str, archive: str, digest: str) -> None:
    sys.argv = ["-c", archive, digest, "--version"]
    said = io.StringIO()
    status: object = 0
    with redirect_stdout(said), redirect_stderr(said):
        try:
            _run(code)
        except SystemExit as e:
            status = e.code
    if status:
        raise ValueError(f"exit code {status}: {said.getvalue().strip()}")


def _main_module() -> dict[str, Any]:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    return vars(main)


def _run(code: str) -> None:
    """As `python -c CODE` runs it."""
    exec(compile(code, "<string>", "exec"), _main_module())  # noqa: S102 - the program itself


def _fork(asked: dict[str, Any]) -> int:
    """0 in the fork, which is then a process of the node. Raises OSError."""
    pid = os.fork()
    if pid:
        # Here too: whoever gets the pid may signal its group at once.
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass  # it has already done so, or ended
        return pid
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        for descriptor, number in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, number)
        os.close(nothing)
        os.close(log)
    except OSError as e:
        print(f"rehearsal: {asked['log']}: {e}", file=sys.stderr, flush=True)
        os._exit(126)
    return 0


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Answers requests; in a fork returns what that is to become. None: the other side has gone."""
    parent = os.getpid()
    while message := connection.recv(_MOST_BYTES):
        asked = json.loads(message)
        if "reap" in asked:
            _, status = os.waitpid(asked["reap"], 0)
            answer: dict[str, Any] = {"status": os.waitstatus_to_exitcode(status)}
        else:
            try:
                pid = _fork(asked)
            except OSError as e:
                answer = {"errno": e.errno, "why": e.strerror}
            else:
                if not pid:
                    connection.close()
                    spec: dict[str, Any] = {**asked["spec"], "parent": parent}
                    return spec
                answer = {"pid": pid}
        connection.sendall(json.dumps(answer).encode())
    return None


def _become(spec: dict[str, Any], loaded: Loaded | None) -> None:
    """Runs the program that this fork is to be; returns where it does."""
    sandbox.enter(spec)
    if loaded is None:
        sandbox.execute(spec)
        return  # not reached
    sandbox.as_after_exec()
    os.chdir(spec["cwd"])
    os.environ.clear()
    os.environ.update(spec["env"])
    time.tzset()
    importlib.invalidate_caches()
    gc.enable()
    loaded.run(spec["argv"])


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[1]))
    # Only for kernels that do not group processes by session.
    os.nice(_NICE)
    connections = [socket.socket(fileno=int(number)) for number in sys.argv[2:]]
    program = json.loads(connections[0].recv(_MOST_BYTES))
    loaded, why_not = None, ""
    if program:
        try:
            loaded = Loaded(**program)
        except Exception as e:  # noqa: BLE001 - whatever it is: such a program starts by itself
            why_not = f"{type(e).__name__}: {e}"
    connections[0].sendall(json.dumps({"why_not": why_not}).encode())
    if why_not:
        return
    gc.collect()
    # A look for garbage would write to memory that all forks share.
    gc.freeze()
    gc.disable()
    spec = _serve(_one_of(connections))
    if spec is not None:
        _become(spec, loaded)


def _one_of(connections: list[socket.socket]) -> socket.socket:
    """This process's; the others are for forks with sessions of their own."""
    first = os.getpid()
    mine = connections[0]
    for connection in connections[1:]:
        if os.fork() == 0:
            os.setsid()
            sandbox.die_with_parent(first)
            mine = connection
            break
    for connection in connections:
        if connection is not mine:
            connection.close()
    return mine


if __name__ == "__main__":
    main()

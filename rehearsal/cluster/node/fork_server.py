"""Starts many programs of simulated nodes as forks of one process.

    python -I -S fork_server.py FD PARENT

Run by forks.py; FD is a socket of messages. Each program has its own file system, user and process
group, as from sandbox.py. What its start no longer costs is that of a Python, and where the first
message names a program that is Python code, the compilation and import of its modules: a fork has
them already, and shares their memory until it writes to it.

All forks of a server are in one session, so a kernel that groups processes by session (sched(7),
autogroup) gives them together the processor time of one program: the CPUs of a fleet's nodes are
its own, and do not take those of its control plane.
"""

# Imports little of the standard library, as sandbox.py.
# ruff: noqa: PTH100, PTH120

from __future__ import annotations

import gc
import importlib.util
import json
import os
import socket
import sys
import types
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


def _load(code: str, archive: str, digest: str) -> None:
    """Imports everything that a program `python -c CODE ARCHIVE HASH …` carries in its archive.

    CODE checks the archive, and leaves behind what imports modules from what it has checked; asked
    for the program's version, it does no more. Raises ValueError where it does not.
    """
    import io
    import zipfile
    from contextlib import redirect_stderr, redirect_stdout

    before = list(sys.meta_path)
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
    with zipfile.ZipFile(archive) as opened:
        names = [name for name in opened.namelist() if name.endswith(".py")]
    for name in names:
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if module.rpartition(".")[2] != "__main__":
            try:
                importlib.import_module(module)
            except Exception:  # noqa: BLE001, S112 - the program says so, if it needs the module
                continue
    # A fork finds modules that are not loaded yet in its own archive.
    sys.meta_path[:] = before
    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        raise ValueError("its modules start threads, which forks would not have")


def _run(code: str) -> None:
    """As `python -c CODE` runs it."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    exec(compile(code, "<string>", "exec"), vars(main))  # noqa: S102 - the program itself


def _fork(asked: dict[str, Any]) -> int:
    """0 in the fork, which is then a process of the node. Raises OSError."""
    pid = os.fork()
    if pid:
        # Here too: whoever is told the pid may signal its group at once.
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
    """Answers requests; in a fork returns what that is to become. None: nobody asks any more."""
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


def _become(spec: dict[str, Any], *, loaded: bool) -> None:
    """Runs the program that this fork is to be; returns where it does."""
    sandbox.enter(spec)
    if not loaded:
        sandbox.execute(spec)
    import time

    sandbox.as_after_exec()
    os.chdir(spec["cwd"])
    os.environ.clear()
    os.environ.update(spec["env"])
    time.tzset()
    argv = spec["argv"]
    at = argv.index("-c")
    sys.argv = ["-c", *argv[at + 2 :]]
    importlib.invalidate_caches()
    gc.enable()
    _run(argv[at + 1])


def main() -> None:
    sandbox.die_with_parent(int(sys.argv[2]))
    # Only for kernels that do not group processes by session.
    os.nice(_NICE)
    connection = socket.socket(fileno=int(sys.argv[1]))
    program = json.loads(connection.recv(_MOST_BYTES))
    why_not = ""
    if program:
        try:
            _load(program["code"], program["archive"], program["digest"])
        except Exception as e:  # noqa: BLE001 - whatever it is: such a program starts by itself
            why_not = f"{type(e).__name__}: {e}"
    connection.sendall(json.dumps({"why_not": why_not}).encode())
    if why_not:
        return
    gc.collect()
    # A look for garbage would write to memory that all forks share.
    gc.freeze()
    gc.disable()
    spec = _serve(connection)
    if spec is not None:
        _become(spec, loaded=bool(program))


if __name__ == "__main__":
    main()

"""Starts programs on a simulated node: processes in mount namespaces that show the node's files."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from slicewright.rehearsal.cluster.node.privileges import missing, own
from slicewright.rehearsal.cluster.silicon import device_nodes
from slicewright.rehearsal.cluster.silicon.state import VARIABLE

_SANDBOX = Path(__file__).with_name("sandbox.py")
_SILICON_INSIDE = "/dev/simulated-silicon"
INTERPRETER = (os.path.realpath(sys.executable), "-I", "-S")
"""-S: no site-packages, -I: nothing from the environment. The base interpreter starts faster than
the virtual environment's.
"""
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Bind:
    """A bind mount: `source` on the host is `target` for the program."""

    source: Path
    target: Path
    read_only: bool = True


@dataclass(frozen=True, kw_only=True)
class LaunchSpec:
    """One program on one node.

    It sees, read-only at the same paths, the host's /usr, /bin, /lib…, parts of /etc, and
    `host_paths`; from `node_root` the node's /proc/modules, /proc/driver, /sys, /etc/*, /home/*
    (read-only), /run/* and /var/lib/kubelet (writable); an empty /tmp; and the `binds`. Nothing
    else of the host is visible, and nothing of it is writable. All other directories are the
    program's own and empty, and end with it.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment; the path of the node's GPU state file is added."""
    node_root: Path
    """NodeFiles.root"""
    log: Path
    """stdout and stderr are appended here."""
    cwd: Path = Path("/")
    """Made if nothing of the above is there."""
    read_only_root: bool = False
    """Whether the program may write only where a bind is writable, not even to /tmp."""
    uid: int = 0
    gid: int = 0
    binds: tuple[Bind, ...] = ()
    host_paths: tuple[Path, ...] = ()
    """Visible paths of the host besides the directory of argv[0]."""
    privileged: bool = True
    """Else without CAP_SYS_ADMIN."""
    gpu_devices: frozenset[str] | None = None
    """Device nodes of GPUs to have in /dev; None: whatever the node has at each moment."""
    processes: Path | None = None
    """A directory that programs share as their /proc; each adds itself. None: a /proc of its own.

    Whoever started a program removes its pid from there when it has ended.
    """


def start(spec: LaunchSpec) -> subprocess.Popen[bytes]:
    """Starts the program in a session of its own; it is killed when this process ends.

    Its exit code is 126 if its file system could not be built, 127 if it could not be executed,
    with the reason in the log. Raises OSError.
    """
    return in_lasting_thread(lambda: _popen(spec))


def stop(process: subprocess.Popen[bytes], *, grace_s: float) -> int:
    """SIGTERM to the program's process group, SIGKILL after `grace_s`; returns its exit code.

    If the program has ended already, what is left of its group is killed.
    """
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        _await_end(process, grace_s)
    # Until it is waited for, the ended program keeps its pid, so the signal hits no other group.
    _signal_group(process, signal.SIGKILL)
    return process.wait()


def _await_end(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        ended = select.poll()  # select() refuses descriptors above 1023
        ended.register(descriptor, select.POLLIN)
        ended.poll(timeout_s * 1000)
    finally:
        os.close(descriptor)


@cache
def why_not() -> str | None:
    """None where programs can be started like this; else the reason and the remedy."""
    if sys.platform != "linux":
        return (
            f"simulated nodes need Linux mount namespaces, and this is {sys.platform}; use a Linux "
            "machine, or a container on one"
        )
    with tempfile.TemporaryDirectory() as directory:
        tried = subprocess.run(
            [*INTERPRETER, str(_SANDBOX), "--probe", directory, *_rootless()],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    if tried.returncode == 0:
        return None
    reason = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[
        -1
    ].removeprefix("rehearsal: ")
    return (
        "simulated nodes run programs in mount namespaces, also with "
        "SLICEWRIGHT_REHEARSAL_OPERANDS=simulated: agents, controller and operator run there as "
        f"they are. This host does not allow them ({reason}). {missing(own())}"
    )


class _Starter:
    """One lasting thread that starts everything: PR_SET_PDEATHSIG acts when that thread ends."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="rehearsal-launcher", daemon=True).start()

    def call(self, what: Callable[[], _T]) -> _T:
        future: Future[_T] = Future()

        def carry_out() -> None:
            try:
                future.set_result(what())
            except Exception as e:  # noqa: BLE001 - raised in the caller
                future.set_exception(e)

        self._wanted.put(carry_out)
        return future.result()

    def _run(self) -> None:
        while True:
            self._wanted.get()()


@cache
def _starter() -> _Starter:
    return _Starter()


def in_lasting_thread(start: Callable[[], _T]) -> _T:
    """What `start` returns or raises, called where the processes that it starts may outlive the
    caller's thread.
    """
    return _starter().call(start)


os.register_at_fork(after_in_child=_starter.cache_clear)


def _popen(spec: LaunchSpec) -> subprocess.Popen[bytes]:
    descriptor = os.memfd_create("launch")
    try:
        os.write(descriptor, json.dumps(described(spec)).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        if spec.processes is not None:
            spec.processes.mkdir(exist_ok=True)
        with spec.log.open("ab") as log:
            return subprocess.Popen(
                [*INTERPRETER, str(_SANDBOX), str(descriptor)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(descriptor,),
                env={},
                cwd="/",
                start_new_session=True,
            )
    finally:
        os.close(descriptor)


def described(spec: LaunchSpec) -> dict[str, object]:
    """As sandbox.py reads it."""
    # Through a descriptor, not the command line: the environment may hold secrets.
    silicon = spec.node_root.parent / "silicon"
    program = Path(spec.argv[0])
    host_paths = set(spec.host_paths)
    if program.is_absolute():
        host_paths |= {program.parent, program.resolve().parent} - {Path("/")}
    env = dict(spec.env)
    if silicon.is_dir():
        env[VARIABLE] = f"{_SILICON_INSIDE}/state"
        if spec.gpu_devices is not None:
            env[device_nodes.VARIABLE] = "/dev"
    return {
        "argv": list(spec.argv),
        "env": env,
        "cwd": str(spec.cwd),
        "read_only_root": spec.read_only_root,
        "uid": spec.uid,
        "gid": spec.gid,
        "binds": [
            {"source": str(b.source.absolute()), "target": str(b.target), "read_only": b.read_only}
            for b in spec.binds
        ],
        "host_paths": [str(path) for path in host_paths],
        "node_root": str(spec.node_root.absolute()),
        "mount_point": str(spec.node_root.absolute().parent / "mnt"),
        "silicon": str(silicon.absolute()) if silicon.is_dir() else None,
        "privileged": spec.privileged,
        "gpu_devices": sorted(spec.gpu_devices or ()),
        "processes": str(spec.processes.absolute()) if spec.processes else None,
        "rootless": bool(_rootless()),
        "parent": os.getpid(),
    }


@cache
def _rootless() -> tuple[str, ...]:
    """Whether mounts need a user namespace, as an argument of the sandbox."""
    return () if own().sys_admin else ("rootless",)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.returncode is not None and Path(f"/proc/{process.pid}").exists():
        return  # its pid is reused, so nothing of its group is left
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass

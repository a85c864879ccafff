"""Forks the process of each Pulumi program, with the packages imported that earlier ones used.

    python -u program_server.py SOCKET

Importing the SDKs of the clouds is two thirds of the processor time of a program: 5 s of each
command of the engine; importing this project is most of what is left. Started by path, and imports
only the standard library: a program finds imported what a program before it took from site-packages
and from this project, the latter only while no file of the project has changed. It ends when its
standard input ends, and its programs with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import sysconfig
import time
import traceback
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

# What Python, or a package when it is imported, reads: where one of these differs, what has been
# imported here is not what the program would import.
_READ_AT_IMPORT = ("PYTHON", "GRPC_", "OTEL_", "PROTOCOL_BUFFERS_", "PYDANTIC_", "LC_", "LANG")
_READ_BY_PULUMI = frozenset(
    {"PULUMI_ENABLE_LEGACY_APPLY", "PULUMI_OTEL_EXPORTER_OTLP_ENDPOINT", "TRACEPARENT"}
)
# The server runs with `-u`, as every program does.
_SAME_BY_FLAG = "PYTHONUNBUFFERED"
_REQUEST_TIMEOUT_S = 10.0
_PROJECT = Path(__file__).resolve().parents[3]

_Files = frozenset[tuple[str, int, int, int]]
"""Path, time of the last change, size and inode of each file of some packages."""


@dataclass(kw_only=True)
class _Run:
    """A program that runs, and the connection of the language host that waits for it."""

    pid: int
    host: socket.socket
    ended: int
    """The pidfd: readable when the program has ended."""
    imported: int
    """The pipe through which a program tells what it has imported."""
    received: bytearray = field(default_factory=bytearray)


class _Server:
    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, None)
        self._runs: list[_Run] = []
        self._variables = _read_at_import(os.environ)
        self._prefix = Path(sys.prefix).resolve()
        self._project: dict[str, _Files] = {}
        """Packages of the project that are imported here -> their files as they were imported."""

    def serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    for run in self._runs:
                        os.kill(run.pid, signal.SIGKILL)
                    return
                # What came before it in the list may have ended its run.
                if self._selector.get_map().get(key.fd) == key:
                    key.data()

    def _accept(self) -> None:
        host, _ = self._listener.accept()
        host.settimeout(_REQUEST_TIMEOUT_S)
        try:
            request, descriptors = _receive(host)
        except (OSError, ValueError):
            host.close()
            return
        try:
            why_not = self._refusal(request)
            _send(host, {"refused": why_not})
            if why_not:
                host.close()
            else:
                self._start(request, descriptors, host)
        except OSError:
            host.close()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _refusal(self, request: Mapping[str, Any]) -> str:
        """Why the program needs a process of its own; empty if it does not."""
        if Path(request["python"]).parent.parent.resolve() != self._prefix:
            return f"{request['python']} is not of {self._prefix}"
        import_variables = _read_at_import(request["variables"])
        differing = {k for k, _ in import_variables.items() ^ self._variables.items()}
        return f"other values of {', '.join(sorted(differing))}" if differing else ""

    def _start(
        self, request: Mapping[str, Any], descriptors: list[int], host: socket.socket
    ) -> None:
        imported, telling = os.pipe()
        os.set_blocking(imported, False)
        pid = os.fork()
        if pid == 0:
            os.close(imported)
            host.close()
            self._close()
            _become(request, descriptors, telling, self._project)
        os.close(telling)
        run = _Run(pid=pid, host=host, ended=os.pidfd_open(pid), imported=imported)
        self._runs.append(run)
        self._selector.register(host, selectors.EVENT_READ, lambda: self._hear(run))
        self._selector.register(imported, selectors.EVENT_READ, lambda: self._learn(run))
        self._selector.register(run.ended, selectors.EVENT_READ, lambda: self._end(run))

    def _close(self) -> None:
        """In a fork: what is the server's."""
        self._selector.close()
        self._listener.close()
        for run in self._runs:
            run.host.close()
            os.close(run.imported)
            os.close(run.ended)

    def _hear(self, run: _Run) -> None:
        """Signals that the language host asks for; SIGKILL where it has gone."""
        try:
            message = run.host.recv(64)
        except OSError:
            message = b""
        for number in message or (signal.SIGKILL,):
            os.kill(run.pid, number)
        if not message:
            self._selector.unregister(run.host)

    def _learn(self, run: _Run) -> None:
        chunk = os.read(run.imported, 65536)
        run.received += chunk
        if not chunk:
            self._selector.unregister(run.imported)

    def _end(self, run: _Run) -> None:
        _, status = os.waitpid(run.pid, 0)
        try:
            while chunk := os.read(run.imported, 65536):
                run.received += chunk
        except BlockingIOError:
            pass  # a process that the program has forked lives on
        self._runs.remove(run)
        connections = self._selector.get_map()
        for source in (run.host, run.imported, run.ended):
            if source in connections:
                self._selector.unregister(source)
        try:
            _send(run.host, {"status": os.waitstatus_to_exitcode(status)})
        except OSError:
            pass
        run.host.close()
        os.close(run.imported)
        os.close(run.ended)
        _import(run.received.decode().split(), self._project)


def _become(
    request: Mapping[str, Any],
    descriptors: list[int],
    telling: int,
    project: Mapping[str, _Files],
) -> NoReturn:
    """Turns this fork into what `python -u PROGRAM ARGUMENTS...` starts."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    descriptors.clear()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["variables"])
    time.tzset()
    status: Any = 1
    try:
        os.chdir(request["directory"])
        gc.enable()
        importlib.invalidate_caches()
        program = request["argv"][0]
        sys.argv = list(request["argv"])
        sys.path.insert(0, str(Path(program).resolve().parent))
        if not _would_import(project, request["argv"]):
            _forget(project)
        runpy.run_path(program, run_name="__main__")
        status = 0
    except SystemExit as e:
        status = e.code
    except BaseException:  # noqa: BLE001 - as Python shows what ends a program
        traceback.print_exc()
    finally:
        with os.fdopen(telling, "w") as pipe:
            pipe.write(" ".join(_imported()))
        # Ends as a program does: its threads are waited for, and what is registered is called.
        sys.exit(status)


def _imported() -> list[str]:
    """Modules of Python, of its site-packages and of this project, in the order in which they were
    imported.
    """
    roots = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib"))
    modules = []
    for name, module in list(sys.modules.items()):
        # Any attribute of a module that importlib loads lazily would load it.
        if type(module) is types.ModuleType:
            spec = vars(module).get("__spec__")
            origin = str(getattr(spec, "origin", ""))
            if origin.startswith(roots) or _is_of_project(name, origin):
                modules.append(name)
    return modules


def _is_of_project(name: str, origin: str) -> bool:
    """Not under another name, as a program's own directory on sys.path would give its modules."""
    path = str(_PROJECT.joinpath(*name.split(".")))
    return origin in (f"{path}.py", f"{path}{os.sep}__init__.py")


def _files(package: str) -> _Files:
    """What importing a package of the project reads: its sources, and data beside them."""
    paths = set()
    # The parts of the package lie beside it, behind links.
    for directory, inner, names in os.walk(_PROJECT / package, followlinks=True):
        inner[:] = [name for name in inner if name != "__pycache__"]
        for name in names:
            path = os.path.join(directory, name)  # noqa: PTH118 - hundreds of files a program
            state = os.stat(path)  # noqa: PTH116
            paths.add((path, state.st_mtime_ns, state.st_size, state.st_ino))
    return frozenset(paths)


def _would_import(project: Mapping[str, _Files], argv: Sequence[str]) -> bool:
    """Whether a program would import these packages as they were imported here.

    It would not if a file has changed, or if a directory that it is given, and may put on
    sys.path, has another package of the same name.
    """
    arguments = (Path(part) for part in argv if os.sep in part)
    directories = {path if path.is_dir() else path.parent for path in arguments}
    prefixes = (
        directory / f"{package}{end}"
        for directory in directories
        for package in project
        for end in ("", ".py")
    )
    return not any(
        other.exists() and other.resolve() != _PROJECT / other.name for other in prefixes
    ) and all(_files(package) == files for package, files in project.items())


def _forget(project: Mapping[str, _Files]) -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in project:
            del sys.modules[name]


def _import(names: Sequence[str], project: dict[str, _Files]) -> None:
    """project: gets the packages of the project that are among them."""
    for package in {name.partition(".")[0] for name in names} - project.keys():
        if (_PROJECT / package / "__init__.py").exists():
            # Read before the import: what changes in between is seen as a change.
            project[package] = _files(package)
    for name in names:
        try:
            # An attribute loads a lazy module; in Pulumi's, those that every module has do not.
            # Loaded after its submodules, it would have them for the classes of their names.
            getattr(importlib.import_module(name), "any_attribute", None)
        except Exception:  # noqa: BLE001, S112 - the program that needs it says what is wrong
            continue
    # Looking through them for garbage would also copy their memory in every fork.
    gc.collect()
    gc.freeze()


def _read_at_import(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        k: v
        for k, v in variables.items()
        if (k.startswith(_READ_AT_IMPORT) or k in _READ_BY_PULUMI) and k != _SAME_BY_FLAG
    }


def _receive(host: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request and the three standard streams. Raises ValueError where it breaks off."""
    head, descriptors, _, _ = socket.recv_fds(host, 8, 3)
    size, body = int.from_bytes(head, "big"), bytearray()
    while len(body) < size:
        chunk = host.recv(size - len(body))
        if not chunk:
            break
        body += chunk
    return json.loads(body), descriptors


def _send(host: socket.socket, answer: Mapping[str, Any]) -> None:
    host.sendall(f"{json.dumps(answer)}\n".encode())


def main() -> None:
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    gc.disable()
    # An interrupt in its terminal is for the programs; this process ends with its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("ready", flush=True)
        _Server(listener).serve()


if __name__ == "__main__":
    main()

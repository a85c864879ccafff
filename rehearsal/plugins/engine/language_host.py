"""The rehearsal's `pulumi-language-python`: runs programs and policy packs in the project's Python.

    python -m slicewright.rehearsal.plugins.engine.language_host [engine's flags] ENGINE_ADDRESS

The engine starts it twice for `up` and `preview`, the first time only for its version, so it
imports little. Source of the protocol: pulumi/pulumi `proto/pulumi/language.proto`,
`sdk/python/cmd/pulumi-language-python`.
"""

# ruff: noqa: N802 - the methods' names are the protocol's

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from google.protobuf import empty_pb2

from slicewright.rehearsal.plugins.engine import served_program
from slicewright.rehearsal.plugins.engine.grpc_server import new_server, serve_until_stopped
from slicewright.rehearsal.plugins.engine.protocol import (
    language_pb2,
    language_pb2_grpc,
    plugin_pb2,
)
from slicewright.rehearsal.plugins.engine.run_program import REPORTED
from slicewright.rehearsal.plugins.engine.served_program import ServedProgram

VERSION = "3.259.0"
_RUN_PROGRAM = Path(__file__).with_name("run_program.py")
_KILL_AFTER_S = 2.0
_Child = TypeVar("_Child", subprocess.Popen[bytes], ServedProgram)


class NoEnvironment(Exception):
    """The project names a Python environment that does not exist."""


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):  # type: ignore[misc]
    """One servicer for one engine (launched), or for one engine after another (attached)."""

    def __init__(self, engine_address: str = "") -> None:
        self._engine_address = engine_address
        self._children: set[subprocess.Popen[bytes] | ServedProgram] = set()
        self._lock = threading.Lock()

    def Handshake(self, request: Any, context: Any) -> Any:
        self._engine_address = request.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        # The SDK sends each package's version with its resources; nothing is installed in advance.
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        self.end_children()
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        info = request.info
        try:
            python, variables = _environment(info)
        except NoEnvironment as e:
            return language_pb2.RunResponse(error=str(e))
        argv = [
            str(python),
            "-u",
            str(_RUN_PROGRAM),
            *(
                "--project",
                request.project,
                "--stack",
                request.stack,
                "--parallel",
                str(request.parallel),
            ),
            *("--dry_run", "true" if request.dryRun else "false"),
            *("--monitor", request.monitor_address, "--engine", self._engine_address),
            *(
                "--pwd",
                request.pwd,
                "--organization",
                request.organization,
                "--root_directory",
                info.root_directory,
            ),
            str(Path(info.program_directory) / info.entry_point),
            *request.args,
        ]
        # May hold secrets, and other users can read a process's arguments, but not its environment.
        variables["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        variables["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        status = self._run_to_end(argv, variables, context)
        if status == 0:
            return language_pb2.RunResponse()
        if status == REPORTED:
            return language_pb2.RunResponse(bail=True)
        if status < 0:
            return language_pb2.RunResponse(error=f"Program was killed by signal {-status}")
        return language_pb2.RunResponse(error=f"Program exited with non-zero exit code: {status}")

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Runs a provider or policy pack written in Python."""
        try:
            python, variables = _environment(request.info)
        except NoEnvironment as e:
            yield language_pb2.RunPluginResponse(stderr=f"{e}\n".encode())
            yield language_pb2.RunPluginResponse(exitcode=1)
            return
        for assignment in request.env:
            name, _, value = assignment.partition("=")
            variables[name] = value
        directory = request.info.program_directory
        if request.kind == "analyzer":
            argv = [str(python), "-u", "-m", "pulumi.policy", *request.args, directory]
        else:
            argv = [
                str(python),
                "-u",
                str(Path(directory) / request.info.entry_point),
                *request.args,
            ]
        child = self._start(argv, variables, request.pwd, subprocess.PIPE)
        context.add_callback(lambda: self._end(child))
        try:
            yield from _output_of(child)
            yield language_pb2.RunPluginResponse(exitcode=child.wait() & 0xFF)
        finally:
            self._end(child)

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        try:
            python, _ = _environment(request.info)
            text = f"The rehearsal installs no dependencies; programs run with {python}\n"
            yield language_pb2.InstallDependenciesResponse(stdout=text.encode())
        except NoEnvironment as e:
            yield language_pb2.InstallDependenciesResponse(stderr=f"{e}\n".encode())

    def About(self, request: Any, context: Any) -> Any:
        python, _ = _environment(request.info)
        version = _ask(python, "import platform; print(platform.python_version())").strip()
        return language_pb2.AboutResponse(executable=str(python), version=version)

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        python, _ = _environment(request.info)
        packages = json.loads(
            _ask(
                python,
                "import json, importlib.metadata as m; print(json.dumps(sorted((d.name, "
                "d.version) for d in m.distributions())))",
            )
        )
        dependencies = [
            language_pb2.DependencyInfo(name=name, version=version) for name, version in packages
        ]
        return language_pb2.GetProgramDependenciesResponse(dependencies=dependencies)

    def end_children(self) -> None:
        """Stops every program that is still running."""
        with self._lock:
            children = list(self._children)
        for child in children:
            self._end(child)

    def _run_to_end(self, argv: Sequence[str], variables: Mapping[str, str], context: Any) -> int:
        served = served_program.start(argv, variables, Path.cwd())
        child: subprocess.Popen[bytes] | ServedProgram
        child = self._added(served) if served else self._start(argv, variables, None, None)
        # An engine that fails early drops this call while the program still waits for its answer.
        context.add_callback(lambda: self._end(child))
        try:
            return child.wait()
        finally:
            self._end(child)

    def _start(
        self, argv: Sequence[str], variables: Mapping[str, str], pwd: str | None, pipe: int | None
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            argv, env=dict(variables), cwd=pwd, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        return self._added(child)

    def _added(self, child: _Child) -> _Child:
        with self._lock:
            self._children.add(child)
        return child

    def _end(self, child: subprocess.Popen[bytes] | ServedProgram) -> None:
        with self._lock:
            self._children.discard(child)
        if child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(timeout=_KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def attach(host: LanguageHost) -> tuple[Any, int]:
    """Serves the host in this process, for PULUMI_DEBUG_LANGUAGES=python:PORT.

    Returns the server (end it with `.stop(None)`) and its port.
    """
    server = new_server()
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port: int = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def _environment(info: Any) -> tuple[Path, dict[str, str]]:
    """The Python that runs the project, and the variables for it. Raises NoEnvironment."""
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    options = dict(info.options.items()) if info.HasField("options") else {}
    named = options.get("virtualenv")
    if not isinstance(named, str) or not named:
        return Path(sys.executable), variables
    virtualenv = Path(info.root_directory) / named
    python = virtualenv / "bin" / "python"
    if not python.exists():
        raise NoEnvironment(
            f"Pulumi.yaml's runtime option `virtualenv` is {named!r}, but {python} does not exist; "
            "run `make setup`"
        )
    variables["VIRTUAL_ENV"] = str(virtualenv)
    variables["PATH"] = f"{virtualenv / 'bin'}:{variables.get('PATH', os.defpath)}"
    return python, variables


def _output_of(child: subprocess.Popen[bytes]) -> Iterator[Any]:
    chunks: SimpleQueue[tuple[str, bytes]] = SimpleQueue()

    def forward(name: str, stream: Any) -> None:
        while chunk := stream.read1(65536):
            chunks.put((name, chunk))
        chunks.put((name, b""))

    for name, stream in (("stdout", child.stdout), ("stderr", child.stderr)):
        threading.Thread(target=forward, args=(name, stream), daemon=True).start()
    open_streams = 2
    while open_streams:
        name, chunk = chunks.get()
        if chunk:
            yield language_pb2.RunPluginResponse(**{name: chunk})
        else:
            open_streams -= 1


def _ask(python: Path, program: str) -> str:
    return subprocess.run(
        [str(python), "-c", program], check=True, capture_output=True, text=True, timeout=60
    ).stdout


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(
            "this is the Pulumi engine's Python language host: do not start it by hand, run "
            "`pulumi`, which starts it with the engine's address as the last argument"
        )
    host = LanguageHost(sys.argv[-1])
    serve_until_stopped(
        lambda server: language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server),
        leave=host.end_children,
    )


if __name__ == "__main__":
    main()

"""The real `pulumi` in its own directory, with the rehearsal's language host in this process."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine import served_program
from slicewright.rehearsal.plugins.engine.home import make_home
from slicewright.rehearsal.plugins.engine.language_host import LanguageHost, attach


@dataclass
class Project:
    """A Pulumi project with one stack, `dev`."""

    directory: Path
    pulumi: Path
    variables: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)

    def write(self, program: str) -> None:
        (self.directory / "__main__.py").write_text(textwrap.dedent(program))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.pulumi), *arguments],
            cwd=self.directory,
            env={**self.variables, **self.extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def up(self, *flags: str) -> tuple[int, str]:
        return self.run(
            "up",
            "--yes",
            "--skip-preview",
            "--stack",
            "dev",
            "--non-interactive",
            "--color",
            "never",
            *flags,
        )


@pytest.fixture
def project(
    tmp_path: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    """With the language host attached: no start cost. A program has a process of its own."""
    monkeypatch.delenv(served_program.VARIABLE, raising=False)
    server, port = attach(LanguageHost())
    made = _project(tmp_path, toolchain)
    made.extra["PULUMI_DEBUG_LANGUAGES"] = f"python:{port}"
    assert made.run("stack", "init", "dev")[0] == 0
    yield made
    server.stop(None)


@pytest.fixture(params=["own process", "fork of the server"])
def either(
    request: pytest.FixtureRequest,
    project: Project,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Project]:
    """A project whose programs run as users' do, and one whose programs run as whole runs' do."""
    with ExitStack() as served:
        if request.param != "own process":
            served.enter_context(served_program.server(tmp_path / "s"))
            monkeypatch.setenv(served_program.VARIABLE, str(tmp_path / "s"))
        yield project


@pytest.fixture
def new_project(tmp_path: Path, toolchain: Toolchain) -> Callable[[], Project]:
    """Without a language host: the engine looks for one on PATH."""
    return lambda: _project(tmp_path, toolchain)


def _project(directory: Path, toolchain: Toolchain) -> Project:
    make_home(directory / "home")
    for name in ("state", "project"):
        (directory / name).mkdir()
    (directory / "project" / "Pulumi.yaml").write_text("name: tiny\nruntime: python\n")
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("PULUMI_") and key != "KUBECONFIG"
    }
    variables = {
        **inherited,
        "PULUMI_HOME": str(directory / "home"),
        "PULUMI_BACKEND_URL": f"file://{directory / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "long enough for a test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_SKIP_CONFIRMATIONS": "true",
    }
    return Project(directory / "project", toolchain.pulumi, variables)

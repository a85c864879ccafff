"""What all tests share: tools that are not ours, found, fetched or built once per machine, never
skipped; and no stop-watch.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rehearsal.host.toolchain import Toolchain, ensure, go_sdk
from rehearsal.host.toolchain.acquisition import obtain
from rehearsal.host.toolchain.cache import Cache
from rehearsal.host.toolchain.go_sdk import Sdk
from rehearsal.host.toolchain.settings import Settings, from_environment
from rehearsal.host.toolchain.tools import TOOLS
from rehearsal.host.toolchain.versions import Answers

TOOLCHAIN_VARIABLE = "SLICEWRIGHT_TEST_TOOLCHAIN"

# An example that a busy machine was slow at says nothing about the code; pytest's own limit ends
# what hangs.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Background jobs start with SIGINT ignored, nohup's with SIGHUP; children inherit that, and
    tests would signal in vain.
    """
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """The real tools; those that a toolchain.json names, where SLICEWRIGHT_TEST_TOOLCHAIN gives its
    path.
    """
    given = os.environ.get(TOOLCHAIN_VARIABLE)
    return Toolchain.load(Path(given)) if given else ensure(print)


@pytest.fixture(scope="session")
def one_tool() -> Callable[[str], Path]:
    """A single tool by its field of Toolchain, for tests that need no other: those that they do not
    run are not built.
    """

    def get(field: str) -> Path:
        given = os.environ.get(TOOLCHAIN_VARIABLE)
        if given:
            path = getattr(Toolchain.load(Path(given)), field)
            assert isinstance(path, Path)
            return path
        tools = tuple(tool for tool in TOOLS if field in {binary.field for binary in tool.binaries})
        (found,) = obtain(tools, from_environment(os.environ), print)
        return found.paths[field].absolute()

    return get


@pytest.fixture(scope="session")
def go() -> tuple[Sdk, dict[str, str]]:
    """Go, and an environment for it in which nothing that a developer has set for other work
    counts.
    """
    settings: Settings = from_environment(os.environ)
    sdk = go_sdk.ensure(
        settings, Answers(settings.cache / "answers.json"), Cache(settings.cache), print
    )
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOOS", "GOARCH", "GOEXPERIMENT")
    }
    if sdk.from_wheel:
        environment.pop("GOROOT", None)
    return sdk, environment | {
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


@pytest.fixture(scope="session")
def witness(
    go: tuple[Sdk, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Runs one of the Go programs of tests/infra/witness, built once per session, and gives what it
    prints.
    """
    sdk, environment = go
    directory = tmp_path_factory.mktemp("witness")
    source = Path(__file__).parent / "infra" / "witness"
    subprocess.run(
        [sdk.program, "build", "-o", f"{directory}{os.sep}", "./..."],
        cwd=source,
        env=environment,
        check=True,
    )

    def run(program: str, *arguments: Path) -> str:
        return subprocess.run(
            [directory / program, *arguments], check=True, capture_output=True, text=True
        ).stdout

    return run

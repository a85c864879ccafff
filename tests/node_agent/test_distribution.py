"""The agent as a distribution of its own: what it requires, and that it runs with nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from slicewright import node_agent
from slicewright.apis.version import VERSION
from slicewright.rehearsal.cluster.silicon import state

PROJECT = Path(node_agent.__file__).resolve().parents[1]
PACKAGES = ("node_agent", "apis", "kubeapi", "telemetry")
"""Below `slicewright`: the folder of links to them."""

# It builds a wheel: no unit test.
pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built without network, as `pip install ./node_agent` does, from a copy of the sources."""
    sources, out = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    for package in PACKAGES:
        shutil.copytree(
            PROJECT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    links = sources / "slicewright"
    links.mkdir()
    shutil.copy(PROJECT / "slicewright" / "__init__.py", links)
    for package in PACKAGES:
        (links / package).symlink_to(f"../{package}")
    _pip("wheel", "--no-build-isolation", "--wheel-dir", out, sources / "node_agent")
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, its requirements and theirs; no pip, nothing else."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False, symlinks=True)
    _pip("--python", directory / "bin/python", "install", wheel)
    (site,) = directory.glob("lib/python*/site-packages")
    missing = _requirements(metadata.distributions(name="slicewright-agent", path=[str(site)]))
    while missing:
        found = metadata.distribution(missing.pop())
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(found.locate_file(file)), site / file)
        missing |= _requirements([found])
    return directory


def _pip(*arguments: object) -> None:
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, arguments)],
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _requirements(distributions: Any) -> set[str]:
    """Names of what they require without extras."""
    return {
        re.split(r"[\s<>=!~;\[(]", requirement, maxsplit=1)[0]
        for distribution in distributions
        for requirement in distribution.requires or ()
        if "extra ==" not in requirement
    }


def _run(environment: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment / "bin/slicewright-agent", *arguments],
        env={"PATH": os.environ["PATH"], **variables},
        cwd=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_agent_distribution_has_three_requirements_of_the_repository() -> None:
    own = tomllib.loads((PROJECT / "node_agent/pyproject.toml").read_text())["project"]
    whole = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[<>=]", requirement)[0] for requirement in own["dependencies"]]
    assert names == ["nvidia-ml-py", "urllib3", "h2"]
    assert set(own["dependencies"]) <= set(whole["dependencies"])
    assert whole["version"] == VERSION


def test_the_wheel_holds_four_packages_and_brings_nothing_of_pulumi(environment: Path) -> None:
    (site,) = environment.glob("lib/python*/site-packages")
    installed = {d.metadata["Name"] for d in metadata.distributions(path=[str(site)])}
    assert installed == {
        "slicewright-agent", "nvidia-ml-py", "urllib3", "h2", "hpack", "hyperframe"
    }  # fmt: skip
    (own,) = metadata.distributions(name="slicewright-agent", path=[str(site)])
    assert own.version == VERSION
    tops = {file.parts[:2] for file in own.files or () if file.suffix == ".py"}
    assert tops == {("slicewright", package) for package in PACKAGES}
    size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
    assert size < 10_000_000, "all of it, with bytecode"


def test_the_installed_command_runs(environment: Path, halves: Any, fake_library: Path) -> None:
    version = _run(environment, "--version")
    assert (version.returncode, version.stdout) == (0, f"slicewright-agent {VERSION}\n")
    shown = _run(
        environment,
        "show",
        LD_LIBRARY_PATH=str(fake_library.parent),
        **{state.VARIABLE: str(halves.path)},
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "GPU 0-1  NVIDIA H100 80GB HBM3" in shown.stdout


@pytest.mark.parametrize("command", ["verify", "watch", "apply", "clear", "attribution"])
def test_every_command_finds_its_modules(command: str, environment: Path) -> None:
    """Each imports what it needs only when it runs; a missing package would be a traceback."""
    modules = {
        "verify": "slicewright.node_agent.commands.verify, slicewright.node_agent.cluster.node",
        "watch": "slicewright.node_agent.commands.watch, slicewright.node_agent.watch, "
        "slicewright.node_agent.cluster.own_node, "
        "slicewright.telemetry.endpoints",
        "apply": "slicewright.node_agent.commands.apply, "
        "slicewright.node_agent.host.reader, slicewright.node_agent.host.partition",
        "clear": "slicewright.node_agent.commands.clear",
        "attribution": "slicewright.node_agent.commands.attribution, "
        "slicewright.node_agent.attribution.exporter",
    }
    imported = subprocess.run(
        [environment / "bin/python", "-I", "-c", f"import {modules[command]}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (imported.returncode, imported.stderr) == (0, "")

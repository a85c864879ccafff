"""The very commands of the pod templates: with the code that was deployed they run, with other code
they do not.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import delivery
from slicewright.infra.components import pods, verified_start
from slicewright.infra.components.fleet import attribution
from slicewright.infra.components.fleet.controller_pod import controller_pod
from slicewright.infra.components.fleet.node_agent_pod import AgentPod
from slicewright.infra.delivery import Zipapp
from slicewright.infra.plan import read_file
from slicewright.infra.stack_file import NodeAgent
from tests.infra.conftest import ROOT

MARK = "import pathlib, sys\npathlib.Path(sys.argv[0] + '.ran').touch()\n"


@cache
def _commands() -> Mapping[str, tuple[Zipapp, list[str]]]:
    """Container -> zipapp and command, as the components make them."""
    agent, controller = delivery.node_agent(), delivery.fleet_controller()
    pool, *_ = read_file(ROOT / "stacks" / "Pulumi.eks-a100.yaml").pools
    image = pods.Image(name="python")
    agents = AgentPod(
        image=image,
        settings=NodeAgent(attribution=True),
        operator=None,
        zipapp=agent,
        code="code",
    )
    agent_pod: Any = agents.spec(pool, "desired")
    watch, sidecar = agent_pod.containers
    own_pod: Any = controller_pod(image, {}, controller, "code")
    assert sidecar.command == attribution.container("python", agent).command
    return {
        "node-agent": (agent, watch.command),
        "attribution": (agent, sidecar.command),
        "fleet-controller": (controller, own_pod.containers[0].command),
    }


CONTAINERS = ("node-agent", "attribution", "fleet-controller")
CONTAINER = pytest.mark.parametrize("container", CONTAINERS)


def _run(
    command: list[str], archive: Path, *more: str, **options: Any
) -> subprocess.CompletedProcess[str]:
    """With the archive where the pod has its mount."""
    assert command[0] == "python"
    mounted = [str(archive) if part.startswith(pods.CODE_DIRECTORY) else part for part in command]
    return subprocess.run(
        [sys.executable, *mounted[1:], *more],
        capture_output=True, text=True, cwd=archive.parent, timeout=60, check=False, **options,
    )  # fmt: skip


def _archive(files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def _files(app: Zipapp) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(app.content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@CONTAINER
def test_the_deployed_code_runs(container: str, tmp_path: Path) -> None:
    app, command = _commands()[container]
    archive = tmp_path / app.name
    archive.write_bytes(app.content)
    done = _run(command, archive, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage" in done.stdout.lower()


@CONTAINER
def test_equal_files_run_however_they_are_compressed(container: str, tmp_path: Path) -> None:
    """Another machine's zlib gives other bytes."""
    app, command = _commands()[container]
    archive = tmp_path / app.name
    stored = _archive(dict(reversed(_files(app).items())), zipfile.ZIP_STORED)
    assert stored != app.content
    archive.write_bytes(stored)
    assert _run(command, archive, "--help").returncode == 0


def _changed(app: Zipapp) -> bytes:
    return _archive({**_files(app), "__main__.py": MARK.encode()})


def _one_more(app: Zipapp) -> bytes:
    """Of a module that the program would find before Python's own."""
    return _archive({**_files(app), "argparse.py": MARK.encode()})


def _one_less(app: Zipapp) -> bytes:
    return _archive(dict(list(_files(app).items())[1:]))


def _moved_boundary(app: Zipapp) -> bytes:
    """The same bytes after one another, cut elsewhere."""
    files = _files(app)
    path = "slicewright/telemetry/log.py"
    files[path], files[path + "x"] = files[path][:10], files[path][10:]
    return _archive(files)


def _a_script(app: Zipapp) -> bytes:
    return MARK.encode()


def _a_script_before_the_archive(app: Zipapp) -> bytes:
    """Which Python would not run either, but a zip file with a head is one to zipfile."""
    return MARK.encode() + b"\n" + _changed(app)


TAMPERED = [
    _changed,
    _one_more,
    _one_less,
    _moved_boundary,
    _a_script,
    _a_script_before_the_archive,
]


@pytest.mark.parametrize(
    ("container", "tampered"),
    [
        *(("node-agent", each) for each in TAMPERED),
        *((name, _changed) for name in CONTAINERS if name != "node-agent"),
    ],
)
def test_other_code_does_not_run(
    tampered: Callable[[Zipapp], bytes], container: str, tmp_path: Path
) -> None:
    app, command = _commands()[container]
    archive = tmp_path / app.name
    archive.write_bytes(tampered(app))
    done = _run(command, archive, "--help")
    assert (done.returncode, done.stdout) == (verified_start.REFUSED, "")
    assert done.stderr.startswith(f"{archive}: not started: ")
    assert done.stderr.count("\n") == 1
    assert not Path(f"{archive}.ran").exists()


@CONTAINER
def test_missing_archive_is_refused(container: str, tmp_path: Path) -> None:
    app, command = _commands()[container]
    done = _run(command, tmp_path / app.name)
    assert done.returncode == verified_start.REFUSED
    assert "cannot be read: FileNotFoundError" in done.stderr


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archive_with_a_path_twice_does_not_run(tmp_path: Path) -> None:
    app, command = _commands()["node-agent"]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("__main__.py", MARK)
        for name, content in _files(app).items():
            archive.writestr(name, content)
    file = tmp_path / app.name
    file.write_bytes(made.getvalue())
    _run(command, file, "--help")
    assert not Path(f"{file}.ran").exists()


def test_the_archive_is_read_once(tmp_path: Path) -> None:
    """From a pipe nothing can be read twice, so what runs is what was hashed."""
    app, command = _commands()["node-agent"]
    pipe = tmp_path / app.name
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(app.content))
    writer.start()
    done = _run(command, pipe, "--help")
    writer.join()
    assert (done.returncode, done.stderr) == (0, "")


def test_check_imports_nothing_from_the_environment_or_directory(tmp_path: Path) -> None:
    app, command = _commands()["node-agent"]
    archive = tmp_path / app.name
    archive.write_bytes(app.content)
    for module in ("zipfile", "hashlib", "sitecustomize", "argparse"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(99)\n")
    done = _run(command, archive, "--help", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_a_traceback_names_file_and_line(tmp_path: Path) -> None:
    files = {"__main__.py": b"import broken\n", "broken.py": b"x = 1\nraise RuntimeError('here')\n"}
    archive = tmp_path / "x.pyz"
    archive.write_bytes(_archive(files))
    command = pods.command(Zipapp(name="x.pyz", content=b"", sources_hash=delivery.hash_of(files)))
    done = _run(command, archive)
    assert done.returncode == 1
    assert f'File "{archive}/broken.py", line 2, in <module>' in done.stderr
    assert done.stderr.endswith("RuntimeError: here\n")


def test_the_text_survives_kubernetes_expansion_of_variables() -> None:
    """`$(NAME)` in a command is replaced by the kubelet, and `$$` by `$`."""
    for _, command in _commands().values():
        assert "$" not in "".join(command)

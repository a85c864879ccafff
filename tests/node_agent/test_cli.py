"""The command as people and pods run it: as a process, and out of a zip file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipapp
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import urllib3

from slicewright import kubeapi, node_agent, telemetry
from slicewright.apis.desired_state import Desired, dump
from slicewright.rehearsal.cluster.silicon import state

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent as the program ships it: our packages and their pure-Python dependencies."""
    source = tmp_path_factory.mktemp("zipapp")
    for package in (node_agent, kubeapi, telemetry, urllib3):
        where = Path(str(package.__file__)).parent
        shutil.copytree(where, source / where.name, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("opt") / "node_agent.pyz"
    (source / "__main__.py").write_text(
        "import sys\n\nfrom slicewright.node_agent.cli import main\n\nsys.exit(main())\n"
    )
    zipapp.create_archive(source, target, compressed=True)
    return target


@pytest.fixture(params=["module", "zip"])
def agent(request: pytest.FixtureRequest, zipped: Path, fake_library: Path, tmp_path: Path) -> Run:
    def run(
        *arguments: str, silicon: Any = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        # -I: nothing of the environment or the working directory helps the zip file.
        start = (
            [sys.executable, "-m", "slicewright.node_agent"]
            if request.param == "module"
            else [sys.executable, "-I", str(zipped)]
        )
        variables = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(fake_library.parent),
            **environment,
        }
        if silicon is not None:
            variables[state.VARIABLE] = str(silicon.path)
        directory = (
            Path(node_agent.__file__).resolve().parents[1]
            if request.param == "module"
            else tmp_path
        )
        return subprocess.run(
            [*start, *arguments],
            env=variables,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def file(desired: Desired, tmp_path: Path) -> str:
    path = tmp_path / "desired.json"
    path.write_text(dump(desired))
    return str(path)


def test_show_draws_every_partition_with_its_address(agent: Run, halves: Any) -> None:
    shown = agent("show", silicon=halves)
    assert (shown.returncode, shown.stderr) == (0, "")
    (first, *_) = state.load(halves.path).gpus
    assert "GPU 0-1  NVIDIA H100 80GB HBM3" in shown.stdout
    assert shown.stdout.count("    3g.40gb  ") == 4  # rows of the table
    assert shown.stdout.count("│ 3g.40gb ") == 2  # boxes of the picture
    assert all(ci.uuid in shown.stdout for gi in first.instances for ci in gi.compute_instances)


def test_show_as_json_is_all_that_was_read(agent: Run, halves: Any) -> None:
    raw = json.loads(agent("show", "--json", silicon=halves).stdout)
    assert [len(gpu["devices"]) for gpu in raw["gpus"]] == [2, 2]


def test_verify_exits_with_0_on_a_match(agent: Run, halves: Any, file: str) -> None:
    judged = agent("verify", "--desired", file, "--silicon-only", silicon=halves)
    assert (judged.returncode, judged.stderr) == (0, "")
    assert judged.stdout.startswith("Match: 2 GPUs as wanted (3g.40gb x2).")


def test_verify_exits_with_1_on_a_mismatch_and_names_the_gpu(
    agent: Run, halves: Any, file: str
) -> None:
    state.repartition(halves.path, 1, ["1g.10gb"] * 7)
    judged = agent("verify", "--desired", file, "--silicon-only", silicon=halves)
    assert judged.returncode == 1
    assert judged.stdout.startswith("Mismatch: GPU 1 wanted 3g.40gb x2, found 1g.10gb x7:")


def test_verify_exits_with_2_if_the_driver_does_not_answer(
    agent: Run, halves: Any, file: str
) -> None:
    state.inject(halves.path, state.Injection(call="nvmlInit", code=9))
    judged = agent("verify", "--desired", file, "--silicon-only", silicon=halves)
    assert judged.returncode == 2
    assert judged.stdout.startswith(
        "Unknown: node wanted 2 GPUs, found nvmlInit: Driver Not Loaded:"
    )


def test_without_a_driver_show_says_so(agent: Run) -> None:
    shown = agent("show", LD_LIBRARY_PATH="")
    assert shown.returncode == 2
    assert "NVML Shared Library Not Found" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["verify", "--desired", "/nowhere/desired.json"],
            "/nowhere/desired.json: No such file or directory",
        ),
        (
            ["verify", "--desired", "{file}"],
            "NODE_NAME is not set; on a machine that is not a Kubernetes node, add --silicon-only",
        ),
        (["watch", "--desired", "{file}"], "NODE_NAME is not set"),
        (["watch"], "--desired"),
        (["show", "--deadline", "soon"], "'soon' is not a number of seconds"),
        (["show", "--deadline", "0"], "'0' is not a number of seconds from 0.1 to 3600"),
        (["mend"], "invalid choice"),
        ([], "COMMAND"),
    ],
)
def test_wrong_use_gets_a_clear_message_and_exit_code_2(
    arguments: list[str], complaint: str, agent: Run, file: str, halves: Any
) -> None:
    answer = agent(*(a.replace("{file}", file) for a in arguments), silicon=halves)
    assert answer.returncode == 2
    assert complaint in answer.stderr
    assert "Traceback" not in answer.stderr


def test_watch_outside_a_cluster_says_so(agent: Run, file: str, halves: Any) -> None:
    answer = agent("watch", "--desired", file, silicon=halves, NODE_NAME="n1")
    assert (answer.returncode, "not in a pod" in answer.stderr, "Traceback" in answer.stderr) == (
        2,
        True,
        False,
    )


def test_a_broken_desired_file_is_refused_with_its_problems(agent: Run, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('{"version": "v1", "pool": "p"}')
    answer = agent("verify", "--desired", str(path), "--silicon-only")
    assert answer.returncode == 2
    assert f"{path}: 5 problems" in answer.stderr
    assert "  gpus: missing" in answer.stderr


def test_the_zip_file_fits_into_a_config_map(zipped: Path) -> None:
    assert zipped.stat().st_size < 700 * 1024


def test_watch_imports_neither_another_command_nor_the_api_client_before_it_forks() -> None:
    """Every fork copies the memory that the process has until then."""
    imported = subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sys, slicewright.node_agent.cli\n"
            "try:\n    slicewright.node_agent.cli.main(['watch', '--help'])\n"
            "finally:\n    print(*sys.modules, file=sys.stderr)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stderr.split()
    assert "slicewright.node_agent.commands.watch" in imported
    others = {"apply", "attribution", "clear", "prove", "show", "verify"}
    assert not {f"slicewright.node_agent.commands.{other}" for other in others} & set(imported)
    assert not {"slicewright.kubeapi", "urllib3", "slicewright.node_agent.watch"} & set(imported)

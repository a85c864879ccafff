"""The playbook as Ansible itself runs it, on simulated A100: from hosts-a100's stack file to
partitions.

Ansible reaches the host without ssh, as root, and what is for the next boot is left out: it would
change this machine. `nvidia-smi` is a stand-in for the three calls that the playbook makes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli, node_agent
from slicewright.rehearsal.cluster.silicon import state

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        os.geteuid() != 0, reason="partitioning GPUs needs root, on the fake as on a real driver"
    ),
]
ROOT = Path(node_agent.__file__).resolve().parents[1]
ANSIBLE = "ansible-core==2.19.14"
NVIDIA_SMI = """\
#!{python}
import sys
from pathlib import Path

sys.path.insert(0, {root!r})
from slicewright.rehearsal.cluster.silicon import state

path, said = Path({silicon!r}), Path({persistence!r})
match sys.argv[1:]:
    case ["-i", gpu, "--query-gpu=persistence_mode", "--format=csv,noheader"]:
        print("Enabled" if gpu in said.read_text().split() else "Disabled")
    case ["-i", gpu, "-pm", "1"]:
        said.write_text(said.read_text() + gpu + " ")
    case ["-i", gpu, "--gpu-reset"]:
        pending = state.load(path).gpus[int(gpu)].mig_pending
        state.set_mig_mode(path, int(gpu), enabled=pending)
    case other:
        sys.exit(f"simulated nvidia-smi: {{other}}")
"""
AGENT = """\
#!/bin/sh
export LD_LIBRARY_PATH={library} {variable}={silicon}
cd {root} && exec {python} -m slicewright.node_agent "$@"
"""


@dataclass(frozen=True)
class Host:
    """hosts-a100's, with a place for its programs and files."""

    silicon: Path
    files: Path
    ansible: Path

    def play(self, *options: str) -> subprocess.CompletedProcess[str]:
        variables = {
            "PATH": f"{self.files / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.ansible),
            "HOME": str(self.files),
            "ANSIBLE_NOCOLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            [
                *(sys.executable, self.ansible / "bin" / "ansible-playbook"),
                *("-i", self.files / "inventory.yaml", "-i", self.files / "connections.yaml"),
                *("-e", f"slicewright_agent={self.files}/bin/slicewright-agent"),
                *("--skip-tags", "boot", *options),
                ROOT / "node_agent/ansible/gpu-partitions.yaml",
            ],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def instances(self) -> list[tuple[str, int]]:
        return sorted((i.profile, i.start) for i in state.load(self.silicon).gpus[2].instances)


@pytest.fixture(scope="module")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From PyPI; it is in no environment of the project."""
    directory = tmp_path_factory.mktemp("ansible")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--target", directory, ANSIBLE],
        check=True,
        timeout=600,
    )
    return directory


@pytest.fixture
def host(silicon: Callable[..., Any], tmp_path: Path, ansible: Path) -> Host:
    gpus = silicon("A100-40", 6)
    assert (
        cli.main(
            ["plan", str(ROOT / "stacks/Pulumi.hosts-a100.yaml"), "--hosts-dir", str(tmp_path)]
        )
        == 0
    )
    connection = {
        "ansible_connection": "local",
        "ansible_become": "false",
        "ansible_python_interpreter": sys.executable,
    }
    lines = "".join(f"      {key}: {value}\n" for key, value in connection.items())
    (tmp_path / "connections.yaml").write_text(f"gpu_hosts:\n  hosts:\n    rnd3:\n{lines}")
    known = {
        "python": sys.executable,
        "root": str(ROOT),
        "silicon": str(gpus.path),
        "library": gpus.library.parent,
        "variable": state.VARIABLE,
        "persistence": str(tmp_path / "persistence"),
    }
    (tmp_path / "persistence").touch()
    (tmp_path / "bin").mkdir()
    for name, text in (("nvidia-smi", NVIDIA_SMI), ("slicewright-agent", AGENT)):
        program = tmp_path / "bin" / name
        program.write_text(textwrap.dedent(text).format(**known))
        program.chmod(0o755)
    return Host(gpus.path, tmp_path, ansible)


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Ansible's own at the end of a play."""
    (recap,) = re.findall(r"^rnd3 +: (.*)$", done.stdout, re.MULTILINE)
    return {key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", recap)}


HALVES = [("3g.20gb", 0), ("3g.20gb", 4)]


def test_a_reset_that_is_not_allowed_fails_the_play_and_one_that_is_ends_in_the_partitions(
    host: Host,
) -> None:
    others = [gpu for gpu in state.load(host.silicon).gpus if gpu.index != 2]

    refused = host.play()
    assert refused.returncode != 0
    assert counts(refused)["failed"] == 1
    assert "--gpu-reset" in refused.stdout, "the command to run"
    assert host.instances() == []

    done = host.play("-e", "slicewright_reset=true")
    assert (done.returncode, counts(done)["failed"]) == (0, 0), done.stdout + done.stderr
    assert host.instances() == HALVES
    assert [gpu for gpu in state.load(host.silicon).gpus if gpu.index != 2] == others
    assert (host.files / "persistence").read_text().split() == ["2"]

    again = host.play()
    assert (again.returncode, counts(again)["changed"]) == (0, 0), again.stdout


def test_with_check_it_tells_the_steps_and_changes_nothing(host: Host) -> None:
    state.set_mig_mode(host.silicon, 2, enabled=True)
    told = host.play("--check")
    assert (told.returncode, counts(told)["failed"]) == (0, 0), told.stdout + told.stderr
    assert told.stdout.count("create 3g.20gb") >= 2
    assert host.instances() == []


def test_a_gpu_in_use_is_refused_with_its_process(host: Host) -> None:
    (whole,) = state.repartition(host.silicon, 2, ["7g.40gb"]).gpus[2].instances
    user = state.Process(gpu=2, pid=os.getpid(), gi=whole.id, ci=0)
    state.run_process(host.silicon, user)
    refused = host.play()
    assert refused.returncode != 0
    assert str(user.pid) in refused.stdout
    assert host.instances() == [("7g.40gb", 0)]

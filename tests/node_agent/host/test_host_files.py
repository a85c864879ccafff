"""What `slicewright plan --hosts-dir` writes is what the agent applies: hosts-a100, from stack
file on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.rehearsal.cluster.silicon import state

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="partitioning GPUs needs root, on the fake as on a real driver"
)
HOSTS_A100 = Path(__file__).resolve().parents[3] / "stacks/Pulumi.hosts-a100.yaml"


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    assert cli.main(["plan", str(HOSTS_A100), "--hosts-dir", str(tmp_path)]) == 0
    return tmp_path / "rnd3.layout"


@pytest.fixture
def server(silicon: Callable[..., Any]) -> Any:
    return silicon("A100-40", 6)


def _instances(gpu: state.Gpu) -> list[tuple[str, int, int, int]]:
    """Profile, start, size, compute instances."""
    return sorted(
        (i.profile, i.start, i.slice.size, len(i.compute_instances)) for i in gpu.instances
    )


def test_s2s_file_partitions_gpu_2_and_no_other(
    command: Callable[..., Any], server: Any, layout: Path
) -> None:  # S2-05, -11, -12, -20
    for gpu in (4, 5):
        state.repartition(server.path, gpu, ["3g.20gb", "3g.20gb"])
    others = [gpu for gpu in state.load(server.path).gpus if gpu.index != 2]
    arguments = ("apply", "--wait", "0", "--file", str(layout))
    assert command(server, "verify", "--file", str(layout)).returncode == 1
    assert command(server, *arguments).returncode == 4
    # The reset that exit code 4 asks for.
    state.set_mig_mode(server.path, 2, enabled=True)
    assert command(server, *arguments).returncode == 0
    gpus = state.load(server.path).gpus
    assert _instances(gpus[2]) == [("3g.20gb", 0, 4, 1), ("3g.20gb", 4, 4, 1)]
    assert [gpu for gpu in gpus if gpu.index != 2] == others
    assert command(server, "verify", "--file", str(layout)).returncode == 0
    again = command(server, *arguments)
    assert (again.returncode, again.stdout.startswith("nothing to do")) == (0, True)


def test_the_file_can_be_given_on_standard_input(
    command: Callable[..., Any], server: Any, layout: Path
) -> None:
    """As the playbook gives it, so that --check works where no file was copied yet."""
    state.set_mig_mode(server.path, 2, enabled=True)
    with layout.open() as file:
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            planned = command(server, "apply", "--dry-run", "--file", "/dev/stdin")
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert planned.returncode == 0
    assert planned.stdout.count("create 3g.20gb") == 2

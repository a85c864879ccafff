"""Benchmarks refuse a wrong number of nodes before they start anything."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONTROLLER = "benchmarks/controller.py"
SCENARIO = "-m slicewright.rehearsal.scenario.bench --nodes"


@pytest.mark.parametrize(
    ("command", "nodes", "said"),
    [
        (CONTROLLER, "many", "argument nodes: invalid int value: 'many'"),
        (CONTROLLER, "7", "argument nodes: 7: must be 8 or more, as an eighth joins alone, too"),
        (SCENARIO, "many", "argument --nodes: invalid int value: 'many'"),
        (SCENARIO, "0", "argument --nodes: 0: a pool has at least one node"),
    ],
)
def test_a_wrong_number_of_nodes_is_one_message(command: str, nodes: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, *command.split(), nodes],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(said)
    assert "Traceback" not in done.stderr

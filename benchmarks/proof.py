"""The cost of a compute proof: `python benchmarks/proof.py`. Fake driver, real processes.

It runs the command as a person does. Memory is every page of the command and its children once
(PSS), the most of all moments at which it was read. With a driver before R570 a process sees one
partition: then there is one process per partition instead of one per GPU.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.host.toolchain import obtain
from slicewright.rehearsal.host.toolchain.settings import from_environment
from slicewright.rehearsal.host.toolchain.tools import TOOLS

_RUNS: Final = 9
_GPUS: Final = 8
_LAYOUT: Final = ("1g.10gb",) * 7
_DRIVERS: Final = {"580.65.06": "a process per GPU", "550.90.07": "a process per partition"}
_GOAL_S, _GOAL_MB = 2.0, 60.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A run of the command."""

    seconds: float
    pss_mb: float


def main() -> None:
    libraries = _libraries()
    print(f"simulated GPUs, {_GPUS} x {len(_LAYOUT)}; median (largest) of {_RUNS} runs")
    dearest = Cost(seconds=0.0, pss_mb=0.0)
    with tempfile.TemporaryDirectory() as name:
        for driver, processes in _DRIVERS.items():
            costs = [_run(_node(Path(name), driver), libraries) for _ in range(_RUNS)]
            seconds = [cost.seconds for cost in costs]
            pss = [cost.pss_mb for cost in costs]
            print(
                f"driver {driver}, {processes:<25} {statistics.median(seconds):6.2f} s "
                f"({max(seconds):.2f})  {statistics.median(pss):6.1f} MB PSS ({max(pss):.1f})"
            )
            dearest = Cost(
                seconds=max(dearest.seconds, statistics.median(seconds)),
                pss_mb=max(dearest.pss_mb, *pss),
            )
    print("goals, each for the dearer of both:")
    _print_goal("the command, from start to end", dearest.seconds, _GOAL_S, "s")
    _print_goal("memory of the command and its children (PSS)", dearest.pss_mb, _GOAL_MB, "MB")


def _print_goal(what: str, value: float, most: float, unit: str) -> None:
    met = "met" if value <= most else "NOT met"
    print(f"  {what:<50} {value:8.2f} {unit}, goal <= {most:g} {unit}: {met}")


def _libraries() -> str:
    """The directories with the fake NVML and the fake CUDA, for LD_LIBRARY_PATH."""
    tools = [tool for tool in TOOLS if tool.name in ("fake-nvml", "fake-cuda")]
    built = obtain(tools, from_environment(os.environ), lambda line: print(line, file=sys.stderr))
    return ":".join(str(path.parent) for tool in built for path in tool.paths.values())


def _node(directory: Path, driver: str) -> Path:
    path = directory / driver / "silicon"
    state.create(path, "H100-80", _GPUS, driver, "proof")
    for index in range(_GPUS):
        state.repartition(path, index, _LAYOUT)
    return path


def _run(silicon: Path, libraries: str) -> Cost:
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, state.VARIABLE: str(silicon)}
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "node_agent", "prove", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        most_kib = 0
        while process.poll() is None:
            most_kib = max(most_kib, sum(_pss_kib(pid) for pid in _tree(process.pid)))
            time.sleep(0.002)
        assert process.stdout is not None
        proof = json.loads(process.stdout.read())
    assert proof["outcome"] == "computed", proof
    assert sum(len(gpu["devices"]) for gpu in proof["gpus"]) == _GPUS * len(_LAYOUT)
    return Cost(seconds=time.perf_counter() - began, pss_mb=most_kib * 1024 / 1e6)


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return  # it has ended
    for child in children:
        yield from _tree(int(child))


def _pss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    main()

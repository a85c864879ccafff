"""How long it takes to read, check and plan stack files of 200 and 5,000 pools, after import.
`python benchmarks/plan.py [POOLS …]`

Each measurement is made in a process of its own, as each `slicewright check` is one: a second
file in the same process finds the GPU's tables made, and memory that is used already. Before the
clock starts, the process has imported the program and read the catalog's own files, which take the
same time for every stack file; that is shown last, and has no goal.

Processor time; other programs of the machine make it longer all the same, as they take caches and
shared cores. So PyYAML's own reading of the same file, by libyaml, is timed in each round: the
ratio to that changes little. `all` is `plan.read_file`, as the command calls it. Its steps are
timed in another process, with Python's collector paused as the command pauses it.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from operator import truediv
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve()
_GOALS_MS = {200: 60.0, 5000: 1500.0}
"""By the number of pools; for another number there is none."""
_ROUNDS = {5000: 5}
_OTHERWISE = 15
_WARM_UP = 1
"""Rounds before those that count: what is read from the disk is in memory after them."""
# Three kinds of pools, so that no table is asked the same question twice in a row.
_PARTITIONS = (
    "{ mode: operator, layout: { 1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1 } }",
    "{ mode: operator, config: all-1g.5gb }",
    "{ mode: operator, gpus: [{ index: [0, 1, 2, 3], layout: { 1g.5gb: 7 } }, { index: [4, "
    "5, 6, 7], layout: {} }] }",
)
_POOL = """\
      - name: pool-{i}
        machine_type: p4d.24xlarge
        nodes: {{ min: 0, max: 4 }}
        partition: {partition}
        sharing: {{ mode: time-slicing, replicas: 2 }}
        labels: {{ team: team-{i}, tier: gold }}
        taints: [{{ key: team, value: team-{i}, effect: NoSchedule }}]
        disk: {{ size_gb: 200 }}
"""


def stack_file(pools: int) -> str:
    """A stack file with that many pools, all good: subnets that the stack makes would be too small
    for their nodes.
    """
    head = (
        "config:\n  slicewright:fleet:\n    cloud: eks\n    cluster:\n      name: c\n"
        "      region: eu-west-1\n      network: { mode: existing, subnets: "
        "[subnet-0a1b2c3d4e5f60718, subnet-0a1b2c3d4e5f60719] }\n    node_pools:\n"
    )
    return head + "".join(
        _POOL.format(i=i, partition=_PARTITIONS[i % len(_PARTITIONS)]) for i in range(pools)
    )


def main() -> None:
    if sys.argv[1:2] == ["--timed"]:
        print(json.dumps(_TIMED[sys.argv[2]](Path(sys.argv[3]))))
        return
    for pools in map(int, sys.argv[1:]) if sys.argv[1:] else _GOALS_MS:
        _measure(pools)


def _measure(pools: int) -> None:
    rounds = _ROUNDS.get(pools, _OTHERWISE)
    spent: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "Pulumi.bench.yaml"
        file.write_text(stack_file(pools))
        for i in range(_WARM_UP + rounds):
            for what in _TIMED:
                for name, took in _in_a_new_process(what, file).items():
                    spent.setdefault(name, []).extend([took] if i >= _WARM_UP else [])
    print(f"{pools} pools, {rounds} rounds, milliseconds of processor time: median (least to most)")
    for name, took in spent.items():
        print(f"  {name:8} {statistics.median(took):7.1f} ({min(took):.1f} to {max(took):.1f})")
    ratio = statistics.median(map(truediv, spent["all"], spent["PyYAML"]))
    print(f"  all / PyYAML's own reading of the file: {ratio:.2f}")
    if pools in _GOALS_MS:
        goal, found = _GOALS_MS[pools], statistics.median(spent["all"])
        met = "met" if found <= goal else "NOT met"
        print(f"goal: all of {pools} pools within {goal:.0f} ms after import, median: {met}")


def _in_a_new_process(what: str, file: Path) -> dict[str, float]:
    run = subprocess.run(
        [sys.executable, str(_HERE), "--timed", what, str(file)],
        cwd=_HERE.parents[1],
        env={"PYTHONPATH": ".", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(run.stdout))


def _command(file: Path) -> dict[str, float]:
    """As `slicewright check` does it."""
    from slicewright.infra import plan

    _read_catalog()
    took, _ = _timed(lambda: plan.read_file(file))
    return {"all": took}


def _steps(file: Path) -> dict[str, float]:
    from slicewright.infra import plan
    from slicewright.infra import stack_file as spec

    _read_catalog()
    gc.disable()
    reading, source = _timed(lambda: spec.read(file))
    checking, fleet = _timed(lambda: spec.parse(json.dumps(source.raw), source))
    planning, (planned, problems) = _timed(lambda: plan.build(fleet))
    assert planned is not None, problems
    return {"read": reading, "check": checking, "plan": planning}


def _by_pyyaml(file: Path) -> dict[str, float]:
    import yaml

    took, _ = _timed(lambda: yaml.load(file.read_text(), Loader=yaml.CSafeLoader))
    return {"PyYAML": took}


def _before(_: Path) -> dict[str, float]:
    """What is the same for every file; nearly all of the import is pydantic's and ours."""

    def imported() -> None:
        pass

    importing, _ = _timed(imported)
    reading, _ = _timed(_read_catalog)
    return {"import": importing, "catalog": reading}


def _read_catalog() -> None:
    """The files that a plan for EKS uses."""
    from slicewright.infra import catalog

    catalog.load()
    catalog.aws()
    catalog.offerings()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return (time.process_time() - began) * 1000, result


_TIMED: dict[str, Callable[[Path], dict[str, float]]] = {
    "command": _command,
    "PyYAML": _by_pyyaml,
    "steps": _steps,
    "before": _before,
}
"""Each in a process of its own, which imports only what it times."""


if __name__ == "__main__":
    main()

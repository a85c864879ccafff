"""How long it takes to read, check and plan stack files of 200 and 5,000 pools, after import.
`python benchmarks/plan.py [POOLS …]`

Processor time; other programs of the machine make it longer all the same, as they take caches and
shared cores. So PyYAML's own reading of the same file, by libyaml, is timed beside it in each
round: the ratio to that changes little. `all` is `plan.read_file`, as the command calls it; its
first run also makes the GPU's tables. The steps are timed apart, with Python's collector at work.
The import is timed in processes of its own, and has no goal.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from operator import truediv
from pathlib import Path

import yaml

from infra import plan, spec

_GOALS_MS = {200: 60.0, 5000: 1500.0}
"""By the number of pools; for another number there is none."""
_RUNS = {5000: 4}
_OTHERWISE = 15
"""Rounds."""
_IMPORTS = 5
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
    """A stack file with that many pools, all good."""
    head = (
        "config:\n  slicewright:fleet:\n    cloud: eks\n    cluster: { name: c, region: "
        "eu-west-1 }\n    node_pools:\n"
    )
    return head + "".join(
        _POOL.format(i=i, partition=_PARTITIONS[i % len(_PARTITIONS)]) for i in range(pools)
    )


def _import_ms() -> float:
    """Of what the command imports to plan, in a new process; nearly all of it is pydantic's and
    ours.
    """
    timed = (
        "import time; began = time.process_time(); import infra.plan; "
        "print(time.process_time() - began)"
    )
    here = Path(__file__).resolve().parents[1]
    runs = [
        subprocess.run(
            [sys.executable, "-c", timed], cwd=here, capture_output=True, text=True, check=True
        )
        for _ in range(_IMPORTS)
    ]
    return statistics.median(float(run.stdout) for run in runs) * 1000


def main() -> None:
    for pools in map(int, sys.argv[1:]) if sys.argv[1:] else _GOALS_MS:
        _measure(pools)
    print(f"import, milliseconds: {_import_ms():.1f}")


def _measure(pools: int) -> None:
    runs = _RUNS.get(pools, _OTHERWISE)
    spent: dict[str, list[float]] = {"all": [], "PyYAML": [], "read": [], "check": [], "plan": []}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "Pulumi.bench.yaml"
        file.write_text(stack_file(pools))
        for _ in range(runs):
            times = [time.process_time()]
            plan.read_file(file)
            times.append(time.process_time())
            yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
            times.append(time.process_time())
            source = spec.read(file)
            times.append(time.process_time())
            fleet = spec.parse(json.dumps(source.raw), source)
            times.append(time.process_time())
            planned, problems = plan.build(fleet)
            times.append(time.process_time())
            assert planned is not None, problems
            for name, start, end in zip(spent, times, times[1:], strict=False):
                spent[name].append((end - start) * 1000)
    print(f"{pools} pools, {runs} rounds, milliseconds of processor time: median (best, first)")
    for name, took in spent.items():
        print(f"  {name:6} {statistics.median(took):7.1f} ({min(took):.1f}, {took[0]:.1f})")
    ratio = statistics.median(map(truediv, spent["all"], spent["PyYAML"]))
    print(f"  all / PyYAML's own reading of the file: {ratio:.2f}")
    if pools in _GOALS_MS:
        goal, found = _GOALS_MS[pools], statistics.median(spent["all"])
        met = "met" if found <= goal else "NOT met"
        print(f"goal: all of {pools} pools within {goal:.0f} ms after import, median: {met}")


if __name__ == "__main__":
    main()

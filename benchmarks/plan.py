"""How long it takes to read, check and plan a stack file of 200 pools, after import. `python
benchmarks/plan.py [POOLS]`

Processor time, so that other programs of the machine count little. `all` is `plan.read_file`, as
the command calls it; its first run also makes the GPU's tables. The steps are timed apart, with
Python's collector at work. The import is timed in processes of its own, and has no goal.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from infra import plan, spec

_GOAL_MS = 60.0
_RUNS = 15
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
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    steps: dict[str, list[float]] = {"read": [], "check": [], "plan": []}
    whole: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "Pulumi.bench.yaml"
        file.write_text(stack_file(pools))
        for _ in range(_RUNS):
            began = time.process_time()
            plan.read_file(file)
            whole.append((time.process_time() - began) * 1000)
        for _ in range(_RUNS):
            times = [time.process_time()]
            source = spec.read(file)
            times.append(time.process_time())
            fleet = spec.parse(json.dumps(source.raw), source)
            times.append(time.process_time())
            planned, problems = plan.build(fleet)
            times.append(time.process_time())
            assert planned is not None, problems
            for name, start, end in zip(steps, times, times[1:], strict=False):
                steps[name].append((end - start) * 1000)
    print(f"{pools} pools, {_RUNS} runs, milliseconds of processor time: median (best, first)")
    for name, spent in {"all": whole, **steps}.items():
        print(f"  {name:6} {statistics.median(spent):7.1f} ({min(spent):.1f}, {spent[0]:.1f})")
    print(f"  import {_import_ms():7.1f}")
    met = statistics.median(whole) < _GOAL_MS
    print(f"goal: all under {_GOAL_MS:.0f} ms after import, median: {'met' if met else 'NOT met'}")


if __name__ == "__main__":
    main()

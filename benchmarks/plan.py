"""How long it takes to read, check and plan a stack file of 200 pools, after import. `python benchmarks/plan.py [POOLS]`

Exit 1 where the median is above the limit.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from infra import plan, spec

_LIMIT_MS = 150.0
_RUNS = 15
# Three kinds of pools, so that no table is asked the same question twice in a row.
_PARTITIONS = (
    "{ mode: operator, layout: { 1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1 } }",
    "{ mode: operator, config: all-1g.5gb }",
    "{ mode: operator, gpus: [{ index: [0, 1, 2, 3], layout: { 1g.5gb: 7 } }, { index: [4, 5, 6, 7], layout: {} }] }",
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
    head = "config:\n  slicewright:fleet:\n    cloud: eks\n    cluster: { name: c, region: eu-west-1 }\n    node_pools:\n"
    return head + "".join(_POOL.format(i=i, partition=_PARTITIONS[i % len(_PARTITIONS)]) for i in range(pools))


def main() -> int:
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    steps: dict[str, list[float]] = {"read": [], "check": [], "plan": [], "all": []}
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "Pulumi.bench.yaml"
        file.write_text(stack_file(pools))
        for _ in range(_RUNS):
            times = [time.perf_counter()]
            source = spec.read(file)
            times.append(time.perf_counter())
            fleet = spec.parse(json.dumps(source.raw), source)
            times.append(time.perf_counter())
            planned, problems = plan.build(fleet)
            times.append(time.perf_counter())
            assert planned is not None, problems
            for name, start, end in zip(steps, times, times[1:], strict=False):
                steps[name].append((end - start) * 1000)
            steps["all"].append((times[-1] - times[0]) * 1000)
    print(f"{pools} pools, {_RUNS} runs, milliseconds: median (best, first)")
    for name, spent in steps.items():
        print(f"  {name:6} {statistics.median(spent):7.1f} ({min(spent):.1f}, {spent[0]:.1f})")
    return 1 if statistics.median(steps["all"]) > _LIMIT_MS else 0


if __name__ == "__main__":
    sys.exit(main())

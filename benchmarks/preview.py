"""What a `pulumi preview` of 50 pools costs beside a program written by hand, and what one without
changes costs beside one that creates: `python benchmarks/preview.py [POOLS]`

Real engine; stand-ins of the plugins, over simulated clouds. The program by hand declares the same
resources with the same inputs, in the SDKs' own classes and without components, plan or checks:
`by_hand.py`, which takes the inputs from this program's own preview. The two are previewed in turns
in one run. Then the stack comes up, and is previewed again: its pools scale from zero, so that no
node has to join for that. Compared is processor time of engine, program and plugins, because other
load of the machine changes it less than time that passes.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slicewright.rehearsal.host.toolchain import ensure
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment

_GOAL = 1.2
_UNCHANGED_GOAL = 1.0
_ROUNDS = 3
_STACK = "gke-h100"
_BY_HAND = Path(__file__).with_name("by_hand.py")
_FLEET = """\
config:
  gcp:project: slicewright-preview
  pulumi:disable-default-providers: ["*"]
  slicewright:fleet:
    cloud: gke
    cluster: { name: main, location: us-central1 }
    node_pools:
"""
_POOL = """\
      - name: pool-{i}
        machine_type: a3-highgpu-8g
        zones: [us-central1-c]
        nodes: {{ min: 0, max: 1 }}
        capacity: spot
        partition: {{ mode: native, profile: 3g.40gb }}
        labels: {{ team: team-{i} }}
"""


@dataclass
class Spent:
    """Seconds of each preview."""

    passed: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def preview(self, engine: Engine, *flags: str) -> Outcome:
        before = _of_children_s()
        outcome = engine.preview(*flags)
        if outcome.code:
            raise SystemExit(f"{outcome.command}:\n{outcome.output}")
        self.passed.append(outcome.seconds)
        self.processor.append(_of_children_s() - before)
        return outcome

    def __str__(self) -> str:
        return (
            f"{statistics.median(self.processor):6.1f} s of processor time "
            f"({min(self.processor):.1f} to {max(self.processor):.1f}), "
            f"{statistics.median(self.passed):6.1f} s passed"
        )


def main() -> int:
    pools = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    tools = ensure(lambda line: print(line, file=sys.stderr))
    base = Path(tempfile.mkdtemp(prefix="sw-bench-", dir="/tmp"))
    environment = environments.create(base / _STACK, tools)
    try:
        environment.stack_file(_STACK).write_text(
            _FLEET + "".join(_POOL.format(i=i) for i in range(pools))
        )
        environments.start(environment)
        return _compared(environment, pools)
    finally:
        environments.remove(environment)
        shutil.rmtree(base, ignore_errors=True)


def _compared(environment: Environment, pools: int) -> int:
    ours = Engine(environment, _STACK)
    ours.init()
    # The first also makes caches of bytecode, for both.
    steps = _steps(Spent().preview(ours, "--json"))
    by_hand = _written_by_hand(environment, steps)
    theirs = _steps(Spent().preview(by_hand, "--json"))
    missing = _types(steps) - _types(theirs)
    assert not missing, f"the program by hand lacks {missing}"
    spent, spent_by_hand = Spent(), Spent()
    for _ in range(_ROUNDS):
        spent.preview(ours)
        spent_by_hand.preview(by_hand)
    print(
        f"GKE, {pools} pools, {sum(_types(steps).values())} resources; simulated clouds; median "
        f"(least to most) of {_ROUNDS} rounds"
    )
    print(f"slicewright             {spent}")
    print(f"a program by hand       {spent_by_hand}")
    ratio = statistics.median(spent.processor) / statistics.median(spent_by_hand.processor)
    print(
        f"goal: slicewright / by hand <= {_GOAL}: {ratio:.2f}, "
        f"{'met' if ratio <= _GOAL else 'NOT met'}"
    )
    _show_unchanged(ours, spent)
    return 0


def _show_unchanged(engine: Engine, creating: Spent) -> None:
    made = engine.up()
    if made.code:
        raise SystemExit(f"{made.command}:\n{made.output}")
    unchanged = Spent()
    for _ in range(_ROUNDS):
        unchanged.preview(engine, "--expect-no-changes")
    print(f"without changes         {unchanged}")
    ratio = statistics.median(unchanged.processor) / statistics.median(creating.processor)
    print(
        f"goal: without changes / creating <= {_UNCHANGED_GOAL}: {ratio:.2f}, "
        f"{'met' if ratio <= _UNCHANGED_GOAL else 'NOT met'}"
    )


def _written_by_hand(environment: Environment, steps: list[dict[str, Any]]) -> Engine:
    """A project of its own in the same environment, whose engine it also uses."""
    other = _ByHand(environment.root)
    project = other.project
    (project / "stacks").mkdir(parents=True)
    (project / "Pulumi.yaml").write_text(
        "name: by-hand\nruntime: { name: python, options: { toolchain: pip, virtualenv: .venv } }\n"
        "stackConfigDir: stacks\n"
    )
    (project / ".venv").symlink_to(sys.prefix)
    shutil.copy(_BY_HAND, project / "__main__.py")
    (project / "resources.json").write_text(json.dumps([step["newState"] for step in steps]))
    engine = Engine(other, "by-hand")
    made = engine.init()
    assert made.code == 0, made.output
    return engine


@dataclass(frozen=True)
class _ByHand(Environment):
    """The environment, with the other program for its project."""

    @property
    def project(self) -> Path:
        return self.root / "by-hand"


def _steps(outcome: Outcome) -> list[dict[str, Any]]:
    """Of a preview with --json: those for resources of the providers."""
    text = outcome.output[outcome.output.index("{") :]
    found, _ = json.JSONDecoder().raw_decode(text)
    return [step for step in found["steps"] if step["newState"].get("custom")]


def _types(steps: list[dict[str, Any]]) -> Counter[str]:
    return Counter(step["newState"]["type"] for step in steps)


def _of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())

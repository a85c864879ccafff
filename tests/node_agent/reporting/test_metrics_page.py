"""docs/reference/metrics.md has every metric that the agent exports, with its type and labels, and
no other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slicewright import node_agent
from slicewright.apis.desired_state import Desired
from slicewright.node_agent.attribution import exporter as attribution
from slicewright.node_agent.attribution.pod_resources import ContainerDevices
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Failure, Observation
from slicewright.node_agent.reporting.metrics import Metrics
from slicewright.node_agent.verdict.verify import verify
from slicewright.node_agent.xids.history import XidHistory
from slicewright.node_agent.xids.kernel_log import Record
from slicewright.rehearsal.cluster.silicon import state
from slicewright.telemetry.prometheus import lines

PAGE = Path(node_agent.__file__).resolve().parents[1] / "docs" / "reference" / "metrics.md"
_GPU = {"gpu", "minor", "uuid"}
_PARTITION = _GPU | {"gpu_instance", "compute_instance", "profile"}

Metric = tuple[str, str, frozenset[str]]
"""Name, type, labels."""


def _documented() -> set[Metric]:
    rows = re.findall(
        r"^\| `(slicewright_\w+)` \| (\w+) \| (.*?) \|", PAGE.read_text(), re.MULTILINE
    )
    return {(name, kind, _labels(words)) for name, kind, words in rows}


def _labels(words: str) -> frozenset[str]:
    named = set(re.findall(r"`(\w+)`", words))
    plain = set(re.findall(r"\b(GPU|partition)\b", re.sub(r"`\w+`|\(.*\)", "", words)))
    return frozenset(
        named
        | (_GPU if "GPU" in plain else set())
        | (_PARTITION if "partition" in plain else set())
    )


def _exported(text: str) -> set[Metric]:
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    found: dict[str, set[str]] = {name: set() for name in kinds}
    for series, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        name = (
            series
            if series in kinds
            else series.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        )
        found[name] |= set(re.findall(r'(\w+)="', labels)) - {"le"}
    return {(name, kind, frozenset(found[name])) for name, kind in kinds.items()}


def test_the_page_is_what_is_exported(
    silicon: Callable[..., Any], desired: Desired, node: NodeState
) -> None:
    fake = silicon("H100-80", 2)
    state.repartition(fake.path, 0, ["3g.40gb", "3g.40gb"])
    for index in range(2):
        state.set_health(fake.path, index, throttle_reasons=8, recovery_action=1)
    switched = silicon("B200", 8)
    state.set_health(switched.path, 0, fabric_health=0x1A9)
    before_ampere = silicon("T4", 1).observe(thorough=True, utilization=True)
    history = XidHistory()
    history.add(
        [
            Record(
                at_s=1,
                text=f"NVRM: Xid (PCI:{state.load(fake.path).gpus[0].pci}): 31, pid=1, name=x",
            )
        ]
    )
    seen = history.annotate(fake.observe(thorough=True, utilization=True))
    assert seen.gpus[0].xids
    metrics = Metrics(replace(desired, resources={}))
    broken = Observation(failure=Failure(call="probe", code=-1, text="no answer"))
    text = ""
    for observation, thorough in (
        (broken, False),
        (before_ampere, True),
        (switched.observe(thorough=True), True),
        (seen, True),
    ):
        metrics.update(
            observation,
            verify(desired, observation, node),
            node,
            took_s=0.01,
            at=1.0,
            thorough=thorough,
        )
        text += metrics.text
    holding = ContainerDevices(
        namespace="n",
        pod="p",
        container="c",
        resource="nvidia.com/gpu",
        devices=("MIG-1", "nvidia0/gi1"),
    )
    attributed = (
        "\n".join(
            line for family in attribution.families([holding], None) for line in lines(family)
        )
        + "\n"
    )
    assert _exported(text + attributed) == _documented()

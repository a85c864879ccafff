"""What the fault "hold" says, and how it holds the partitioning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds, hold_partitioning, holds_of
from slicewright.rehearsal.cluster.node.machine import ANNOTATION
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.state import Injection


def _node(annotation: Any) -> dict[str, Any]:
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    return {"metadata": {"name": "n1", "annotations": {ANNOTATION: text}}}


def test_every_field_is_read() -> None:
    fault = {
        "kind": "hold",
        "pods": ["nvidia-mig-manager"],
        "driver": True,
        "toolkit": True,
        "partitioning_from": 0,
    }
    assert holds_of(_node({"cloud": "eks", "fault": fault})) == Holds(
        pods=("nvidia-mig-manager",), driver=True, toolkit=True, partitioning_from=0
    )


@pytest.mark.parametrize(
    "annotation",
    [
        {"cloud": "eks"},
        {"cloud": "eks", "fault": None},
        {"fault": {"kind": "wrong-layout", "gpu": 3, "profile": "1g.10gb"}},
        {"fault": {"kind": "hold", "partitioning_from": "GPU 3"}},
        "{",
        "[]",
    ],
)
def test_without_a_readable_hold_nothing_is_held(annotation: Any) -> None:
    assert holds_of(_node(annotation)) == Holds()
    assert holds_of({"metadata": {"name": "n1"}}) == Holds()


def test_a_pod_is_held_by_the_beginning_of_its_name() -> None:
    held = Holds(pods=("node-agent", "nvidia-mig-manager"))
    assert held.holds_pod("node-agent-a100-x7x7x")
    assert not held.holds_pod("nvidia-device-plugin-daemonset-x7x7x")
    assert not Holds().holds_pod("node-agent")


def test_one_gpu_at_a_time_is_held_and_other_injections_stay(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state.create(path, "H100-80", 8, "580.65.06", "n1")
    other = Injection(call="nvmlDeviceGetName", gpu=4, delay_ms=5)
    state.inject(path, other)
    for first in (0, 4, 4):
        hold_partitioning(path, first)
        (_, held) = state.load(path).injections
        assert (held.call, held.gpu, held.code) == ("nvmlDeviceCreateGpuInstance", first, 0)
    hold_partitioning(path, None)
    assert state.load(path).injections == (other,)

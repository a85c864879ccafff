"""What the agent reads from outside may be anything: it is refused in one clear message."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.desired_state import (
    LARGEST,
    Desired,
    DesiredError,
    DesiredGpu,
    assigned_or_declared,
    dump,
    parse,
)
from slicewright.kubeapi import ApiError
from slicewright.node_agent.attribution.pod_resources import parse as parse_pod_resources
from slicewright.node_agent.attribution.wire import NotProtobuf
from slicewright.node_agent.cluster.backoff import Backoff
from slicewright.node_agent.cluster.node import read
from slicewright.node_agent.cluster.own_node import OwnNode
from slicewright.node_agent.cluster.restart_memory import Past, RestartMemory
from slicewright.node_agent.reporting.report import Reporter
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.layout_change import or_pending
from tests.nasty import obeyed
from tests.odd_values import ABSENT, VALUES, places, replaced
from tests.properties import examples

GOOD = Desired(
    pool="p",
    partitioner="mig-manager",
    gpu_count=1,
    gpu_models=("NVIDIA H100 80GB HBM3",),
    gpus=(DesiredGpu(index="all", mig=True, instances={"3g.40gb": 2}),),
    resources={"nvidia.com/mig-3g.40gb": 2},
    labels={"nvidia.com/gpu.product": ("NVIDIA-H100",)},
)
NODE: dict[str, Any] = {
    "metadata": {
        "name": "n",
        "uid": "u",
        "labels": {"nvidia.com/mig.config": "x", "nvidia.com/gpu.product": "NVIDIA-H100"},
        "annotations": {
            "slicewright.io/desired-state": dump(GOOD),
            "slicewright.io/layout-change": '{"nodeUid":"u","phase":"Draining"}',
            "slicewright.io/reports-after": "2026-11-27T00:00:00Z",
        },
    },
    "status": {
        "nodeInfo": {"bootID": "b"},
        "capacity": {"nvidia.com/gpu": "1", "cpu": "4"},
        "allocatable": {"nvidia.com/gpu": "1"},
    },
}


class Server:
    """Answers every request with one object."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, path: str, **query: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def patch(self, path: str, body: Any, **more: str) -> Any:
        return {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested too deep"),
        ("[" * 20 + "]" * 20, "nested more than 8 levels deep"),
        (" " * (LARGEST + 1), "longer than"),
        (json.dumps({f"k{n}": 1 for n in range(5000)}), "and 4987 more"),
        (dump(GOOD).replace('"pool":"p"', '"pool":"\\ud800"'), "half of a surrogate pair"),
        (dump(GOOD).replace('"gpu_count":1', '"gpu_count":1000000000000'), "which no node has"),
        (dump(GOOD).replace('"gpu_count":1', '"gpu_count":1' + "0" * 5000), "not JSON"),
    ],
)
def test_impossible_desired_state_is_refused_at_once_with_a_short_message(
    text: str, said: str
) -> None:
    began = time.monotonic()
    with pytest.raises(DesiredError, match=said) as refused:
        parse(text, source="file")
    assert len(str(refused.value)) < 8_000
    assert time.monotonic() - began < 5
    assert assigned_or_declared(text, GOOD) == GOOD


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_an_odd_desired_state_is_read_or_refused_and_obeyed_by_no_terminal(
    data: st.DataObject,
) -> None:
    raw = json.loads(dump(GOOD))
    way = data.draw(st.sampled_from(list(places(raw))))
    values = VALUES[:-1]
    new = data.draw(st.sampled_from((ABSENT, *values) if way else values))
    text = json.dumps(replaced(raw, way, new))
    said = ""
    try:
        assert dump(parse(text)).encode()
    except DesiredError as e:
        said = str(e)
    assert not obeyed(said.replace("\n", ""))
    assert len(said) < 8_000


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_an_odd_node_is_read_or_not_and_ends_no_turn(data: st.DataObject) -> None:
    way = data.draw(st.sampled_from(list(places(NODE))))
    odd = replaced(NODE, way, data.draw(st.sampled_from((ABSENT, *VALUES) if way else VALUES)))
    own = OwnNode(Server(odd), "n", Backoff(longest_s=1.0))  # type: ignore[arg-type]
    state = own.read(0.0)
    assert (state is None) == (own.error is not None)
    assert len(own.error or "") <= 500
    if state is not None:
        judged = Verdict(
            verdict="Mismatch", reason="WrongLayout", message="m", instances=(), checks=()
        )
        or_pending(judged, GOOD, state, "other")
        assigned_or_declared(state.assigned, GOOD)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_an_odd_report_of_before_is_overwritten(data: st.DataObject) -> None:
    old = {
        "metadata": {"ownerReferences": [{"uid": "u"}]},
        "report": {"time": "2026-11-27T00:00:00Z", "verdict": "Match", "reason": "R"},
    }
    way = data.draw(st.sampled_from(list(places(old))))
    odd = replaced(old, way, data.draw(st.sampled_from(VALUES)))
    reporter = Reporter(Server(odd), "n")  # type: ignore[arg-type]
    new = {
        "metadata": {},
        "report": {"time": "2026-11-27T00:01:00Z", "verdict": "Mismatch", "reason": "GpuLost"},
    }
    assert reporter.write(new, now=1_795_737_660.0)


def test_an_error_of_the_server_is_kept_short() -> None:
    refused = ApiError(500, {"message": "x" * 200_000})
    own = OwnNode(Server(refused), "n", Backoff(longest_s=1.0))  # type: ignore[arg-type]
    assert own.read(0.0) is None
    assert len(own.error or "") <= 500


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "x" * 1_000_000,
        '{"boot_id":"b","ends":[1e999],"in_vain":[]}',
        '{"boot_id":"b","ends":[' + "9" * 400 + '],"in_vain":[]}',
        '{"boot_id":"b","ends":7,"in_vain":[]}',
        "[]",
    ],
)
def test_an_odd_memory_of_restarts_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "restarts.json").write_text(text)
    assert RestartMemory(tmp_path).past_of("b", 10.0) == Past(boot_id="b")


def test_as_it_must_be_a_node_is_read() -> None:
    assert (read(NODE).uid, read(NODE).boot_id) == ("u", "b")


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), bytearray()
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([number << 3 | 2, *length, size]) + content


def test_more_allocations_than_a_node_can_have_are_no_answer() -> None:
    def answer(devices: int, name: bytes = b"pod") -> bytes:
        container = _field(1, b"c") + _field(2, _field(1, b"nvidia.com/gpu")) * devices
        return _field(1, _field(1, name) + _field(2, b"ns") + _field(3, container))

    assert len(parse_pod_resources(answer(3))) == 3
    with pytest.raises(NotProtobuf, match="more than 50000 allocations"):
        parse_pod_resources(answer(50_001))
    with pytest.raises(NotProtobuf, match="a name of more than 253"):
        parse_pod_resources(answer(1, b"x" * 200_000))

"""A trace's classes: its devices, and the replicas that exist at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import catalog
from slicewright.infra.plan.demand.concurrency import Interval, concurrent, span_of
from slicewright.infra.plan.demand.trace_classes import classes_of_trace
from slicewright.infra.plan.demand.trace_rows import BadTrace
from tests.properties import examples

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,100,0
p1,6000,12288,1,142,,LS,Running,10,20,10
p2,6000,12288,1,143,,LS,Running,20,30,20
p3,6000,12288,1,460,,LS,Running,0,15,0
p4,6000,12288,1,571,,LS,Running,14,,14
p5,6000,12288,1,572,,LS,Running,100,,100
p6,6000,12288,8,1000,,LS,Running,0,1,0
p7,6000,12288,0,0,,LS,Running,0,1,0
"""


def test_a_trace_of_alibaba_is_read_by_compute() -> None:
    """Thresholds in thousandths of a GPU: 142, 285, 428, 571. Its memory is that of the node."""
    assert classes_of_trace(OPENB, "t") == [
        {"name": "trace-1-gpu", "replicas": 1, "gpus": 1},
        {"name": "trace-1g", "replicas": 1, "compute_slices": 1},
        {"name": "trace-2g", "replicas": 1, "compute_slices": 2},
        {"name": "trace-4g", "replicas": 2, "compute_slices": 4},
        {"name": "trace-8-gpus", "replicas": 1, "gpus": 8},
    ]


PLAIN = (
    'Class;GPU_Memory_MiB;gpu_share;"gpus";replicas\r\n'
    "\r\n"
    '"Chat ""A""";38000;;;2\r\n'
    'chat a; 38001.5 ;;;"3"\r\n'
    "embed;;0.1;;4\r\n"
    "embed;8000;0.2;;1e1\r\n"
    "tuned;;;2;\r\n"
    "tuned;150000;;2;1\r\n"
    "none;0;0;0;5\r\n"
    "none;;;1;0\r\n"
)


def test_plain_columns_without_times_are_all_demanded_at_once() -> None:
    """Excel's form: semicolons, CR LF, quotes, and empty lines."""
    assert classes_of_trace(PLAIN, "t") == [
        {"name": "chat-a", "replicas": 5, "memory": "40192Mi"},
        {"name": "embed-1g", "replicas": 4, "compute_slices": 1},
        {"name": "embed-2g-9728mib", "replicas": 10, "memory": "9728Mi", "compute_slices": 2},
        {"name": "tuned-2-gpus", "replicas": 1, "gpus": 2},
        {"name": "tuned-2-gpus-161792mib", "replicas": 1, "memory": "161792Mi", "gpus": 2},
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "t, line 1: has no columns"),
        ("\n\n", "t, line 1: has no columns"),
        ("gpus,gpus\n1,1\n", "line 1: has the column 'gpus' twice"),
        ("pod,vcpus\na,1\n", "line 1: has no column gpu_memory_mib, gpu_share or gpus, but 'pod'"),
        ("gpus,start\n1,0\n", "line 1: needs start together with end or duration"),
        ("gpus,end\n1,0\n", "line 1: needs start together with end or duration"),
        ("gpus\n\n0\n", "t: no row requests a GPU"),
        ("gpus\n", "t: no row requests a GPU"),
        ("gpus\n1\n1,2\n", "t, line 3: has 2 cells, the header 1"),
        ("gpus\n-1\n", "line 2: gpus '-1' is not a number from 0 to 16"),
        ("gpus\n1.5\n", "line 2: gpus '1.5' is not a whole number"),
        ("gpus\n17\n", "line 2: gpus '17' is not a number from 0 to 16"),
        ("gpus\n１\n", "is not a number"),
        ("gpus,replicas\n1,99999999999\n", "replicas '99999999999' is not a number from 0 to"),
        ("gpus,replicas\n1,1e99\n", "replicas '1e99' is not a number from 0 to 10,000,000"),
        ("gpus,replicas\n" + "1,9000000\n" * 2, "trace-1-gpu has 18,000,000 replicas; at most"),
        ("gpu_share\n1.1\n", "line 2: gpu_share '1.1' is not a number from 0 to 1"),
        ("gpu_share\nnan\n", "line 2: gpu_share 'nan' is not a number"),
        ("gpu_share\ninf\n", "line 2: gpu_share 'inf' is not a number"),
        ("gpu_share;gpus\n0,5;\n", "line 2: gpu_share '0,5' is not a number"),
        ("gpu_share,gpus\n0.5,1\n", "line 2: has gpu_share and gpus"),
        ("gpus,class\n,chat\n", "line 2: has no gpu_memory_mib, gpu_share or gpus"),
        ("gpu_memory_mib\n999999\n", "line 2: gpu_memory_mib 999999 is more than 1 GPU can have"),
        ("gpus,start,end\n1,5,4\n", "line 2: ends at 4, before its start at 5"),
        ("gpus,start,end\n1,,4\n", "line 2: has no start"),
        ("gpus,start,duration\n1,0,-3\n", "line 2: duration '-3' is not a number"),
        ('gpus,class\n1,"chat\n', "t, line 2: is no CSV"),
        ('gpus,class\n1,"a"b\n', "t, line 2: is no CSV"),
        ("gpus,class\n1," + "a" * 200_000 + "\n", "line 2: is no CSV"),
        ("gpus,replicas\n1," + "9" * 5000 + "\n", "is not a number"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(BadTrace) as refused:
        classes_of_trace(text, "t")
    assert reason in str(refused.value)
    assert len(str(refused.value)) < 250
    assert "\n" not in str(refused.value)


def test_a_percentile_needs_times_and_replicas_that_last() -> None:
    with pytest.raises(BadTrace, match="t: has no times"):
        classes_of_trace("gpus\n1\n", "t", percentile=90)
    with pytest.raises(BadTrace, match="at percentile 50 of its time no replica exists"):
        classes_of_trace("gpus,start,duration\n1,0,1\n1,99,1\n", "t", percentile=50)


def test_each_class_has_its_own_percentile_of_the_whole_time() -> None:
    rows = "gpus,start,duration,replicas\n1,0,100,1\n1,0,10,4\n2,50,50,3\n"
    peak = {c["name"]: c["replicas"] for c in classes_of_trace(rows, "t")}
    assert peak == {"trace-1-gpu": 5, "trace-2-gpus": 3}
    most = {c["name"]: c["replicas"] for c in classes_of_trace(rows, "t", percentile=90)}
    assert most == {"trace-1-gpu": 1, "trace-2-gpus": 3}


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    start = draw(st.integers(0, 12))
    length = draw(st.one_of(st.none(), st.integers(0, 6)))
    end = None if length is None else Decimal(start + length)
    return Interval(start=Decimal(start), end=end, replicas=draw(st.integers(1, 4)))


def _existing(trace: Sequence[Interval], moment: int, last: Decimal) -> int:
    """Counts the replicas at a moment one by one."""
    return sum(
        interval.replicas
        for interval in trace
        if interval.start <= moment < (last if interval.end is None else interval.end)
        or interval.start == moment
    )


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(intervals(), min_size=1, max_size=12), st.integers(1, 99))
def test_peak_and_percentile_equal_a_count_of_every_second(
    trace: list[Interval], percentile: int
) -> None:
    first, last = span_of(trace)
    moments = range(int(first), int(last) + 1)
    peak = max(_existing(trace, moment, last) for moment in moments)
    assert concurrent(trace, (first, last), 100) == peak
    during = [
        sum(
            interval.replicas
            for interval in trace
            if interval.start <= moment < (last if interval.end is None else interval.end)
        )
        for moment in moments[:-1]
    ]
    enough = concurrent(trace, (first, last), percentile)
    assert 100 * sum(count <= enough for count in during) >= percentile * len(during)
    if enough:
        assert 100 * sum(count < enough for count in during) < percentile * max(len(during), 1)


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(1, 180_000), st.integers(1, 4))
def test_rounded_memory_fits_the_same_devices(per_gpu: int, gpus: int) -> None:
    memory = per_gpu * gpus
    try:
        (demand,) = classes_of_trace(f"gpus,gpu_memory_mib\n{gpus},{memory}\n", "t")
    except BadTrace:
        assert not _fitting(memory, gpus)
        return
    assert _fitting(memory, gpus) == _fitting(int(demand["memory"].removesuffix("Mi")), gpus)


def _fitting(memory: int, gpus: int) -> list[tuple[str, Any]]:
    models = catalog.load().gpus.values()
    partitions = [(gpu.name, profile) for gpu in models for profile in gpu.profiles.values()]
    return [
        *((gpu.name, "whole") for gpu in models if memory <= (gpu.memory_mib or 0) * gpus),
        *((name, p.name) for name, p in partitions if memory <= (p.memory_mib or 0) * gpus),
    ]

"""The words in which a person says how GPUs are to be cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.apis.layout import GpuLayout, Layout, LayoutError, Partition, parse

UUID = "GPU-82864c44-d125-bf84-645f-e800925bf730"
GPUS = {
    0: "GPU-00000000-0000-0000-0000-000000000000",
    1: UUID,
    2: "GPU-22222222-2222-2222-2222-222222222222",
}


def _of(*texts: str) -> dict[int, str]:
    return {index: str(wanted) for index, wanted in parse(texts).resolve(GPUS).items()}


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["2:3g.20gb@0,3g.20gb@4"], {2: "3g.20gb@0,3g.20gb@4"}),
        (["all:1g.5gb*7"], {0: "1g.5gb*7", 1: "1g.5gb*7", 2: "1g.5gb*7"}),
        (["all:1g.5gbx7", "1:off"], {0: "1g.5gb*7", 1: "off", 2: "1g.5gb*7"}),
        (["0-1:9,9"], {0: "9,9", 1: "9,9"}),
        (["0,2:1g.10gb+mex1"], {0: "1g.10gb+me", 2: "1g.10gb+me"}),
        ([f"{UUID}:7g.40gb"], {1: "7g.40gb"}),
        (["0:1c.3g.20gb@4*3"], {0: "1c.3g.20gb@4*3"}),
        (["0:1g.24gb+me.all,1g.24gb-me*3"], {0: "1g.24gb+me.all,1g.24gb-me*3"}),
        (["0:empty; 1:off"], {0: "empty", 1: "off"}),
        (["# the halves\n0:3g.20gb*2  # of GPU 0\n\n1:off\n"], {0: "3g.20gb*2", 1: "off"}),
    ],
)
def test_layout_syntax_is_parsed(texts: list[str], wanted: dict[int, str]) -> None:
    assert _of(*texts) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "empty"),
        ("3g.20gb", "write GPUS:WHAT"),
        ("2:", "write GPUS:WHAT"),
        ("two:off", "'two' is not a GPU"),
        ("3-1:off", "3-1: the range is empty; write 1-3"),
        ("2:3g", "'3g' is not a partition"),
        ("2:3g.20gb@x", "'3g.20gb@x' is not a partition"),
        ("2:3g.20gb*0", "'3g.20gb*0' is not a partition"),
        ("2:3g.20gb@0*2", "2 instances cannot all start at 0"),
        ("2:off,3g.20gb", "'off' is not a partition"),
    ],
)
def test_an_invalid_layout_is_refused_with_its_reason(text: str, complaint: str) -> None:
    with pytest.raises(LayoutError) as refused:
        parse([text])
    assert complaint in str(refused.value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(LayoutError) as refused:
        parse(["2:nothing", "x:off"], source="file")
    assert str(refused.value).count("file: ") == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("7:off", "7: no such GPU; this machine has GPU 0, 1, 2"),
        ("GPU-00000000-0000-0000-0000-00000000000f:off", "no such GPU"),
        ("1:off 1:empty", "GPU 1 is named twice"),
        (f"1:off {UUID}:empty", "GPU 1 is named twice"),
        ("all:off all:empty", "all: named twice"),
    ],
)
def test_a_gpu_must_exist_and_be_named_once(text: str, complaint: str) -> None:
    with pytest.raises(LayoutError) as refused:
        _of(text)
    assert complaint in str(refused.value)


def test_all_of_no_gpu_is_refused() -> None:
    with pytest.raises(LayoutError, match="all: this machine has no GPU"):
        parse(["all:off"]).resolve({})
    assert parse(["0-2:off all:empty"]).resolve(GPUS).keys() == GPUS.keys(), (
        "all others may be none"
    )


parts = st.builds(
    Partition,
    profile=st.sampled_from(["3g.20gb", "1g.10gb+me", "1g.24gb+me.all", "1g.24gb-me", "9", "0"]),
    start=st.none() | st.integers(0, 11),
    compute_slices=st.none() | st.integers(1, 7),
    count=st.integers(1, 7),
).filter(lambda part: part.count == 1 or part.start is None or part.compute_slices is not None)
layouts = st.one_of(
    st.builds(GpuLayout, mig=st.just(True), parts=st.lists(parts, max_size=5).map(tuple)),
    st.just(GpuLayout(mig=False)),
)


@given(st.dictionaries(st.sampled_from(["all", "0", "1", "2"]), layouts, min_size=1))
def test_printed_layout_parses_to_itself(clauses: dict[str, GpuLayout]) -> None:
    layout = Layout(clauses=tuple(((selector,), wanted) for selector, wanted in clauses.items()))
    assert parse([f"{selector}:{wanted}" for selector, wanted in clauses.items()]) == layout
    assert parse([str(layout)]) == layout


@given(st.text())
def test_any_text_is_a_layout_or_a_layout_error(text: str) -> None:
    try:
        parse([text])
    except LayoutError:
        pass

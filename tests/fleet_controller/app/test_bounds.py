"""Times, texts and identifiers that others write are bounded where they are read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.fleet_controller.objects import bounds

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    "timestamp",
    [
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "10000-01-01T23:58:59Z",
        "1969-12-31T23:59:59Z",
        "2100-01-01T00:00:00Z",
        "2027-01-15T08:00:00",
        "2027-01-15T08:00:60Z",
        "yesterday",
        "\ud800",
    ],
)
def test_a_time_that_could_not_be_written_back_is_refused(timestamp: str) -> None:
    with pytest.raises(ValueError, match=r"time|isoformat|month|second|year"):
        bounds.seconds(timestamp)


@pytest.mark.parametrize("wrong", [1, True, [1], {"a": 1}])
def test_a_time_that_is_no_text_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        bounds.seconds(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "timestamp", ["2027-01-15T08:00:00Z", "2027-01-15t08:00:00z", "2027-01-15T09:00:00.00+01:00"]
)
def test_every_form_of_rfc_3339_is_read(timestamp: str) -> None:
    assert bounds.seconds(timestamp) == NOW


def test_no_time_is_the_epoch() -> None:
    assert bounds.seconds(None) == bounds.seconds("") == 0.0


@given(at=st.floats(allow_nan=False))
def test_every_time_can_be_written_and_read_back(at: float) -> None:
    written = bounds.stamp(at)
    if 0 <= at < bounds.LATEST_S:
        assert bounds.seconds(written) == math.floor(at)
    else:
        assert written in ("1970-01-01T00:00:00Z", "2100-01-01T00:00:00Z")


@given(value=st.text() | st.text("\ud800\x1b\n\u202e"), longest=st.integers(0, 20))
def test_a_text_is_printable_and_as_long_as_allowed(value: str, longest: int) -> None:
    read = bounds.text(value, longest)
    assert read.isprintable()
    assert len(read) <= longest
    assert read == value[:longest] or not value[:longest].isprintable()


@pytest.mark.parametrize("read", [bounds.text, bounds.identifier, bounds.reason])
def test_what_is_no_text_is_refused(read: object) -> None:
    assert callable(read)
    assert read(None) == ""
    for wrong in (0, False, [], {}):
        with pytest.raises(TypeError):
            read(wrong)


@given(one=st.text(), other=st.text())
def test_identifiers_are_equal_only_if_their_texts_are(one: str, other: str) -> None:
    assert (bounds.identifier(one) == bounds.identifier(other)) is (one == other)


def test_a_long_identifier_becomes_short_and_stays_different() -> None:
    long = "x" * 200_000
    assert len(bounds.identifier(long)) < 80
    assert bounds.identifier(long) != bounds.identifier(long + "y")
    assert bounds.identifier("b1") == "b1"


@pytest.mark.parametrize("wrong", ["two words", "camelCase", "A" * 65, "A-B", "\ud800"])
def test_a_reason_that_no_status_could_hold_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="CamelCase"):
        bounds.reason(wrong)


def test_a_note_longer_than_the_controller_writes_is_cut() -> None:
    assert bounds.note("{}") == "{}"
    assert bounds.note("x" * 200_000) == "x" * bounds.LONGEST_NOTE
    assert bounds.note(None) == ""


@pytest.mark.parametrize("wrong", [{"a": 1}, {1: "a"}, {"a": None}, ["a"], "a"])
def test_labels_that_are_no_texts_are_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        bounds.texts(wrong)


@pytest.mark.parametrize("wrong", [{"name": ""}, {"name": "a\n"}, {"name": "a" * 254}])
def test_an_object_needs_a_valid_name(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="name"):
        bounds.name(wrong)

"""Decoding and encoding of properties."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import struct_pb2

from slicewright.rehearsal.plugins.engine.properties import (
    UNKNOWN,
    Secret,
    decode,
    encode,
    has_secret,
    has_unknown,
    unwrap,
)

SIGNATURE = "4dabf18193072939515e22adb298388d"


def _struct(value: dict[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(value)
    return struct


def test_whole_numbers_are_integers() -> None:
    decoded = decode(_struct({"a": 3.0, "b": 2.5, "c": True}))
    assert decoded == {"a": 3, "b": 2.5, "c": True}
    assert [type(decoded[key]) for key in "abc"] == [int, float, bool]


@pytest.mark.parametrize(
    "marker",
    [
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9",
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    ],
)
def test_every_kind_of_unknown_is_unknown(marker: str) -> None:
    assert decode(_struct({"a": [{"b": marker}]})) == {"a": [{"b": UNKNOWN}]}


def test_a_secret_is_marked_at_any_depth() -> None:
    wrapped = {SIGNATURE: "1b47061264138c4ac30d75fd1eb44270", "value": {"k": "v"}}
    assert decode(_struct({"a": wrapped, "b": [wrapped]})) == {
        "a": Secret({"k": "v"}),
        "b": [Secret({"k": "v"})],
    }


def test_an_output_value_may_be_secret_and_unknown() -> None:
    def output(**more: Any) -> dict[str, Any]:
        return {SIGNATURE: "d0e6a833031e9bbcd3f4e8bde6ca49a4", **more}

    decoded = decode(
        _struct(
            {"known": output(value="x"), "secret": output(value="x", secret=True), "open": output()}
        )
    )
    assert decoded == {"known": "x", "secret": Secret("x"), "open": UNKNOWN}


def test_assets_pass_through() -> None:
    asset = {SIGNATURE: "c44067f5952c0a294b673a41bacd8c17", "text": "hello", "hash": "h"}
    assert decode(_struct({"a": asset})) == {"a": asset}


def test_encoded_values_are_decoded_again() -> None:
    value = {
        "none": None,
        "list": [1, {"a": Secret([UNKNOWN])}],
        "empty": {},
        "nothing": [],
        "f": 0.5,
        "big": 2**53,
        "t": "text",
    }
    assert decode(encode(value)) == value


def test_a_value_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot encode a set"):
        encode({"a": {1, 2}})


def test_the_repr_of_a_secret_hides_its_value() -> None:
    assert "hunter2" not in repr({"a": Secret("hunter2")})


def test_marks_are_found_and_taken_off() -> None:
    value = {"a": [Secret({"b": UNKNOWN})]}
    assert has_secret(value)
    assert has_unknown(value)
    assert unwrap(value) == {"a": [{"b": UNKNOWN}]}
    assert not has_secret({"a": [1]})

"""Times of tokens, from the lines of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.load.chat_stream import ChatStream


def event(*choices: dict[str, Any], **more: Any) -> bytes:
    return b"data: " + json.dumps({"choices": list(choices), **more}).encode()


def delta(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "finish_reason": None}


ROLE = event(delta(role="assistant", content=""), usage=None)
WORD = event(delta(content=" word"), usage=None)
USAGE = event(usage={"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12})
DONE = b"data: [DONE]"


def read(*events: tuple[float, bytes], end: bytes = b"\n") -> ChatStream:
    stream = ChatStream()
    for now_s, line in events:
        stream.feed(line + end, now_s)
        stream.feed(end, now_s)
    return stream


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_first_token_is_the_first_text_not_the_role(end: bytes) -> None:
    stream = read((1.0, ROLE), (1.2, WORD), (1.3, WORD), (1.6, WORD), (1.6, DONE), end=end)
    assert stream.first_token_s == 1.2
    assert stream.tokens == 3
    assert stream.inter_token_s == pytest.approx(0.2)
    assert stream.longest_gap_s == pytest.approx(0.3)
    assert stream.complete


def test_several_tokens_of_one_chunk_share_its_time() -> None:
    stream = read((1.0, WORD), (1.6, WORD), (1.6, USAGE), (1.6, DONE))
    assert stream.tokens == 7
    assert stream.inter_token_s == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "tool_calls"])
def test_text_of_reasoning_and_tools_counts_as_text(name: str) -> None:
    assert read((1.0, event(delta(**{name: "x"})))).first_token_s == 1.0


def test_one_token_has_no_time_between_tokens() -> None:
    stream = read((1.0, ROLE), (1.1, WORD), (1.1, DONE))
    assert (stream.tokens, stream.inter_token_s, stream.longest_gap_s) == (1, None, None)


@pytest.mark.parametrize(
    "chunk",
    [
        {"error": {"message": "out of memory", "code": 500}},
        {"object": "error", "message": "out of memory", "code": 500},
        {"error": "out of memory"},
    ],
)
def test_an_error_within_the_stream_is_kept(chunk: dict[str, Any]) -> None:
    """The status was 200 long before."""
    stream = read((1.0, WORD), (1.1, b"data: " + json.dumps(chunk).encode()), (1.1, DONE))
    assert stream.error == "out of memory"


def test_a_stream_that_ends_in_the_middle_is_not_complete() -> None:
    assert not read((1.0, ROLE), (1.1, WORD)).complete


def test_the_reason_for_the_end_is_an_end_without_a_marker() -> None:
    assert read((1.0, event({"delta": {"content": "x"}, "finish_reason": "stop"}))).complete


def test_comments_and_other_fields_are_no_data() -> None:
    stream = read((1.0, b": ping"), (1.1, b"event: message"), (1.2, WORD), (1.3, DONE))
    assert (stream.first_token_s, stream.tokens, stream.error) == (1.2, 1, None)


def test_data_over_several_lines_is_one_chunk() -> None:
    stream = ChatStream()
    for line in (b'data: {"choices":', b'data:[{"delta": {"content": "x"}}]}', b""):
        stream.feed(line, 1.0)
    assert (stream.tokens, stream.error) == (1, None)


def test_a_last_event_needs_no_empty_line() -> None:
    stream = ChatStream()
    stream.feed(DONE, 1.0)
    stream.end_event(1.0)
    assert stream.complete


def test_a_chunk_that_is_not_json_is_an_error() -> None:
    assert "not a JSON object: b'{broken'" in str(read((1.0, b"data: {broken")).error)

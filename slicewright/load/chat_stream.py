"""A streamed chat answer: server-sent events, with the times at which tokens arrive.

Sources: https://html.spec.whatwg.org/multipage/server-sent-events.html (server-sent events); vLLM,
vllm/entrypoints/openai/serving_chat.py, chat_completion_stream_generator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_TEXT_FIELDS: Final = ("content", "reasoning_content", "reasoning", "tool_calls")
"""The text fields of a chunk's delta. vLLM's first chunk has only a role, and an empty content."""


@dataclass
class ChatStream:
    """Takes the lines of an answer as they arrive. All times are from the caller's clock."""

    first_token_s: float | None = None
    last_token_s: float | None = None
    longest_gap_s: float | None = None
    """The longest time between two chunks that had text."""
    error: str | None = None
    """The server's message. An answer that has begun can no longer get an error status."""
    complete: bool = False
    """True after the end marker, or after the reason for the answer's end."""
    _chunks: int = 0
    _usage: int | None = None
    _data: list[bytes] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """The server's count of tokens, or else the number of chunks with text."""
        return self._chunks if self._usage is None else self._usage

    @property
    def inter_token_s(self) -> float | None:
        """The mean time between two tokens. None if there were fewer than two, or all came at once.

        It is measured over all tokens, since servers may put several into one chunk.
        """
        if self.first_token_s is None or self.last_token_s is None or self._chunks < 2:
            return None
        return (self.last_token_s - self.first_token_s) / (max(self.tokens, self._chunks) - 1)

    def feed(self, line: bytes, now_s: float) -> None:
        """Takes one line, with or without its line end."""
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line:
            self.end_event(now_s)

    def end_event(self, now_s: float) -> None:
        """Ends the event, at an empty line and at the end of the answer."""
        data, self._data = b"\n".join(self._data), []
        if data == b"[DONE]":
            self.complete = True
        elif data:
            self._take(data, now_s)

    def _take(self, data: bytes, now_s: float) -> None:
        try:
            chunk = json.loads(data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            self.error = self.error or f"a chunk is not a JSON object: {data[:100]!r}"
            return
        if chunk.get("error") or chunk.get("object") == "error":
            self.error = self.error or _message(chunk)
            return
        usage = chunk.get("usage")
        if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
            self._usage = usage["completion_tokens"]
        choices = [choice for choice in chunk.get("choices") or () if isinstance(choice, dict)]
        if any(choice.get("finish_reason") for choice in choices):
            self.complete = True
        if any(_has_text(choice) for choice in choices):
            self._token(now_s)

    def _token(self, now_s: float) -> None:
        self._chunks += 1
        if self.last_token_s is not None:
            self.longest_gap_s = max(self.longest_gap_s or 0.0, now_s - self.last_token_s)
        if self.first_token_s is None:
            self.first_token_s = now_s
        self.last_token_s = now_s


def _has_text(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return any(delta.get(name) for name in _TEXT_FIELDS) or bool(choice.get("text"))


def _message(chunk: Mapping[str, Any]) -> str:
    """OpenAI's format has an object `error`. vLLM's format before 0.10 was that object itself."""
    error = chunk.get("error", chunk)
    return str(error.get("message", error) if isinstance(error, dict) else error)

"""Bodies of OpenAI's completions and chat completions, as vLLM reads and writes them. Pure.

Source: vLLM docs, OpenAI-compatible server (vllm/entrypoints/openai/protocol.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Body = dict[str, Any]
"""JSON of a request or an answer."""
TOKEN: Final = " simulated"  # noqa: S105 - a token of text
"""Every token of an answer."""
_UNLESS_TOLD: Final = {"text_completion": 16, "chat.completion": 64}
"""Tokens without `max_tokens`: OpenAI's default, and where a model would have ended a chat."""
Kind = Literal["text_completion", "chat.completion"]
KINDS: Final[dict[str, Kind]] = {
    "/v1/completions": "text_completion",
    "/v1/chat/completions": "chat.completion",
}


class RequestRefused(Exception):
    """A request that vLLM answers with an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body: Body = {
            "object": "error",
            "message": message,
            "type": kind,
            "param": None,
            "code": status,
        }


@dataclass(frozen=True, kw_only=True)
class CompletionRequest:
    """What a request asks for."""

    kind: Kind
    model: str
    prompt_tokens: int
    """Words count as tokens: there is no tokenizer."""
    answer_tokens: int
    reason: str
    """Why the answer ends: `length`, or `stop` where no length was given."""
    stream: bool
    usage: bool
    """Whether a stream ends with a chunk with the numbers of tokens."""


def read(kind: Kind, body: bytes, names: Sequence[str], max_model_len: int) -> CompletionRequest:
    """Raises Refused."""
    try:
        raw = json.loads(body)
    except ValueError as e:
        raise RequestRefused(400, "BadRequestError", f"the body is not JSON: {e}") from None
    if not isinstance(raw, dict):
        raise RequestRefused(400, "BadRequestError", "the body is not a JSON object")
    model = raw.get("model")
    if not isinstance(model, str) or model not in names:
        raise RequestRefused(404, "NotFoundError", f"The model `{model}` does not exist.")
    field = "prompt" if kind == "text_completion" else "messages"
    if not raw.get(field):
        raise RequestRefused(400, "BadRequestError", f"{field} is required")
    prompt = _tokens(raw[field])
    most = raw.get("max_completion_tokens", raw.get("max_tokens"))
    if most is not None and (type(most) is not int or most < 1):
        raise RequestRefused(400, "BadRequestError", f"max_tokens must be at least 1, got {most}.")
    answer_tokens = most or min(_UNLESS_TOLD[kind], max(max_model_len - prompt, 1))
    if prompt + answer_tokens > max_model_len:
        where = "the messages" if kind == "chat.completion" else "the prompt"
        raise RequestRefused(
            400,
            "BadRequestError",
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {prompt + answer_tokens} tokens ({prompt} in {where}, {answer_tokens} in "
            "the completion). Please reduce the length of the messages or completion.",
        )
    return CompletionRequest(
        kind=kind,
        model=model,
        prompt_tokens=prompt,
        answer_tokens=answer_tokens,
        reason="length" if most or kind == "text_completion" else "stop",
        stream=bool(raw.get("stream")),
        usage=bool((raw.get("stream_options") or {}).get("include_usage")),
    )


def answer(request: CompletionRequest, identity: str, created: int) -> Body:
    """The whole answer. identity: its id; created: seconds since 1970."""
    text = TOKEN * request.answer_tokens
    choice: Body = {"index": 0, "logprobs": None, "finish_reason": request.reason}
    if request.kind == "chat.completion":
        choice["message"] = {"role": "assistant", "content": text.lstrip(), "tool_calls": []}
    else:
        choice["text"] = text
    return {**_head(request, identity, created), "choices": [choice], "usage": usage(request)}


def role_chunk(request: CompletionRequest, identity: str, created: int) -> Body:
    """The chunk before the first token of a chat, which is written together with that token.

    Source: vLLM, chat_completion_stream_generator in vllm/entrypoints/openai/serving_chat.py.
    """
    choice = {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    return _with_null_usage(
        request, _chunk_head(request, identity, created) | {"choices": [choice]}
    )


def chunk(
    request: CompletionRequest, identity: str, created: int, *, tokens: int, last: bool
) -> Body:
    """The next part of a streamed answer."""
    text = TOKEN * tokens
    choice: Body = {
        "index": 0,
        "logprobs": None,
        "finish_reason": request.reason if last else None,
    }
    if last:
        choice["stop_reason"] = None
    if request.kind == "chat.completion":
        choice["delta"] = {"content": text}
    else:
        choice["text"] = text
    return _with_null_usage(
        request, _chunk_head(request, identity, created) | {"choices": [choice]}
    )


def last_usage(request: CompletionRequest, identity: str, created: int) -> Body:
    """The chunk of `stream_options: {include_usage: true}`."""
    return {**_chunk_head(request, identity, created), "choices": [], "usage": usage(request)}


def usage(request: CompletionRequest) -> Body:
    return {
        "prompt_tokens": request.prompt_tokens,
        "total_tokens": request.prompt_tokens + request.answer_tokens,
        "completion_tokens": request.answer_tokens,
    }


def models(names: Sequence[str], root: str, max_model_len: int, created: int) -> Body:
    """The answer to /v1/models."""
    return {
        "object": "list",
        "data": [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "vllm",
                "root": root,
                "parent": None,
                "max_model_len": max_model_len,
            }
            for name in names
        ],
    }


def _head(request: CompletionRequest, identity: str, created: int) -> Body:
    return {"id": identity, "object": request.kind, "created": created, "model": request.model}


def _chunk_head(request: CompletionRequest, identity: str, created: int) -> Body:
    head = _head(request, identity, created)
    if request.kind == "chat.completion":
        head["object"] = "chat.completion.chunk"
    return head


def _with_null_usage(request: CompletionRequest, body: Body) -> Body:
    """If the last chunk will tell the numbers of tokens, the others say null."""
    return {**body, "usage": None} if request.usage else body


def _tokens(prompt: Any) -> int:
    """Of a text, a list of token ids, a list of texts, or messages; at least 1."""
    match prompt:
        case str():
            return max(len(prompt.split()), 1)
        case dict():
            return _tokens(prompt.get("content") or prompt.get("text") or "")
        case list() if all(isinstance(token, int) for token in prompt):
            return max(len(prompt), 1)
        case list():
            return sum(_tokens(part) for part in prompt)
        case _:
            raise RequestRefused(400, "BadRequestError", "prompt and messages are texts or lists")

"""The HTTP requests of a load: chats for vLLM, tensors of zeros for Triton."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import urllib3

from slicewright.load.load import Load

CHAT_PATH: Final = "/v1/chat/completions"
_METADATA_TIMEOUT_S: Final = 60
_DATATYPE_BYTES: Final = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
    # A string is its length in four bytes, followed here by no characters.
    "BYTES": 4,
}
"""Source: Open Inference Protocol, tensor data types; Triton's extension for binary tensor data."""


class NoModel(Exception):
    """The server does not describe the model. The message contains the server's answer."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The request that is sent repeatedly."""

    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    varied: bool = False
    """True if each request has its number at the start of its first message. No server can then
    answer from its prefix cache.
    """


def chat(load: Load) -> Request:
    body = load.body or {
        "model": load.model,
        "messages": [{"role": "user", "content": "tell a story about a river."}],
        "max_tokens": load.tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return Request(
        path=CHAT_PATH,
        headers={"Content-Type": "application/json", **authorization(load)},
        body=json.dumps(body).encode(),
        varied=load.body is None,
    )


def infer(load: Load) -> Request:
    """Returns a request, after asking the first server for its model's inputs. Raises NoModel."""
    path = f"/v2/models/{quote(load.model, safe='')}"
    if load.body is not None:
        headers = {"Content-Type": "application/json"}
        body = json.dumps(load.body).encode()
    else:
        text, tensors = zeros(_inputs(f"{load.targets[0].url}{path}", authorization(load)))
        headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(len(text)),
        }
        body = text + tensors
    return Request(path=f"{path}/infer", headers={**headers, **authorization(load)}, body=body)


def zeros(inputs: Sequence[Mapping[str, Any]]) -> tuple[bytes, bytes]:
    """Returns a request's JSON and its tensors' bytes, with 1 for every variable dimension."""
    described, total = [], 0
    for tensor in inputs:
        shape = [1 if size < 0 else size for size in tensor["shape"]]
        size_bytes = math.prod(shape) * _DATATYPE_BYTES[tensor["datatype"]]
        total += size_bytes
        described.append(
            {
                "name": tensor["name"],
                "datatype": tensor["datatype"],
                "shape": shape,
                "parameters": {"binary_data_size": size_bytes},
            }
        )
    return json.dumps({"inputs": described}).encode(), bytes(total)


def authorization(load: Load) -> dict[str, str]:
    return {"Authorization": f"Bearer {load.key}"} if load.key else {}


def _inputs(url: str, headers: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    try:
        with urllib3.PoolManager(retries=False, timeout=_METADATA_TIMEOUT_S) as pool:
            response = pool.request("GET", url, headers=dict(headers))
        if response.status != 200:
            detail = response.data.decode(errors="replace")[:300]
            raise NoModel(f"{url}: HTTP {response.status} {detail}")
        inputs: Sequence[Mapping[str, Any]] = json.loads(response.data)["inputs"]
        zeros(inputs)
    except urllib3.exceptions.HTTPError as e:
        raise NoModel(f"{url}: {e}") from None
    except (ValueError, KeyError, TypeError) as e:
        raise NoModel(
            f"{url}: the model's description has no inputs that can be filled with zeros ({e!r}); "
            "add --body FILE with a request of your own"
        ) from None
    return inputs

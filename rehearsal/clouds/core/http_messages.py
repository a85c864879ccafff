"""An HTTP request and its answer, between the server and what speaks one cloud's protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from slicewright.kubeapi import JsonObject

Call = Callable[[str, str, JsonObject, JsonObject], JsonObject]
"""service, method, parameters, body -> answer: `Cloud.call`. Raises CloudError."""


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    """As sent: percent-encoded, without the query."""
    query: str = ""
    """As sent, without the question mark."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Response:
    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Protocols(Protocol):
    """The protocols of one cloud: translates a request to a call, and its answer or error back."""

    def accepts(self, request: Request) -> bool:
        """Whether the request is for this cloud, by its path or its credentials."""

    def answer(self, request: Request) -> Response:
        """Never raises CloudError: a refusal is a response, too.

        Raises ConnectionLost where an injected fault breaks the connection.
        """

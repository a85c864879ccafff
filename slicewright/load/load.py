"""The requested load: the servers, the requests, their rate, and the duration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["chat", "infer"]
"""OpenAI's chat completions (vLLM), or the Open Inference Protocol, version 2 (Triton)."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One address. It has its own figures in the results."""

    name: str
    """The name for people: a replica, or the Service of all replicas."""
    url: str
    """The URL, without a path and without a slash at its end."""
    node: str | None = None
    """The replica's node. None: unknown."""
    partition: str | None = None
    """The MIG profile of the replica's device, or all possible ones. None: whole GPU, or
    unknown.
    """


@dataclass(frozen=True, kw_only=True)
class Load:
    workload: str
    api: Api
    targets: tuple[Target, ...]
    """Requests go to them in turn."""
    duration_s: int
    users: int | None
    """The number of users, who ask again as soon as they have an answer. None: see `rate`."""
    rate: int | None
    """Requests per second, whether or not earlier ones are answered."""
    model: str
    tokens: int
    """The maximum number of tokens in a chat's answer."""
    body: Mapping[str, Any] | None
    """The body that replaces slicewright's own request."""
    key: str | None = field(repr=False)
    """The key for the header Authorization."""

    @property
    def fresh_connections(self) -> bool:
        """True if each request has its own connection.

        A single address stands for many replicas, and the replica is chosen once per connection.
        With shared connections, replicas that start later would get no requests.
        """
        return len(self.targets) == 1

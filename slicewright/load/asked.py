"""The load to make: which servers get which requests, how often, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["chat", "infer"]
"""OpenAI's chat completions (vLLM), or the Open Inference Protocol, version 2 (Triton)."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One address. Its figures are kept apart from those of others."""

    name: str
    """For people: a replica, or the Service of all of them."""
    url: str
    """Without a path and without a slash at its end."""
    node: str | None = None
    """Of the replica; None: not known."""
    partition: str | None = None
    """MIG profile of the replica's device, or those that it may have; None: a whole GPU, or not
    known.
    """


@dataclass(frozen=True, kw_only=True)
class Load:
    workload: str
    api: Api
    targets: tuple[Target, ...]
    """Requests go to them in turn."""
    duration_s: int
    users: int | None
    """How many ask, each again as soon as it is answered. None: see `rate`."""
    rate: int | None
    """Requests a second, whether or not others are answered."""
    model: str
    tokens: int
    """Of an answer of a chat, at most."""
    body: Mapping[str, Any] | None
    """Sent in place of the request that slicewright makes."""
    key: str | None = field(repr=False)
    """For the header Authorization."""

    @property
    def fresh_connections(self) -> bool:
        """Whether each request has a connection of its own. Behind one address are many replicas,
        and which of them a connection reaches is decided once: those that come later would get
        nothing.
        """
        return len(self.targets) == 1

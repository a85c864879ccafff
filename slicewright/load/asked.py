"""What is asked of which servers, how often, and for how long: decided before k6 starts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Api = Literal["chat", "infer"]
"""OpenAI's chat completions (vLLM), or the Open Inference Protocol, version 2 (Triton)."""
_STATS: Final = ("avg", "med", "p(90)", "p(95)", "p(99)", "max", "count")
_TRENDS: Final = {"chat": ("latency", "first_token", "request_tokens"), "infer": ("latency",)}
_COUNTERS: Final = {"chat": ("answered", "failed", "tokens"), "infer": ("answered", "failed")}
"""Metrics of the scripts. `tokens` counts, `request_tokens` are tokens a second of one request."""
_MOST_USERS: Final = 10
"""For each request a second: those that may be under way at once, before k6 drops some."""
_GRACE_S: Final = 60
"""How long requests that are under way at the end may take."""


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
    """Sent in place of the request that the script makes."""
    key: str | None = field(repr=False)
    """For the header Authorization."""

    @property
    def fresh_connections(self) -> bool:
        """Whether each request has a connection of its own. Behind one address are many replicas,
        and which of them a connection reaches is decided once: those that come later would get
        nothing.
        """
        return len(self.targets) == 1


def as_json(load: Load) -> str:
    """What the scripts read. It has the key, so only this user may read the file."""
    return json.dumps(
        {
            "options": options(load),
            "targets": [{"tag": tag(i), "url": one.url} for i, one in enumerate(load.targets)],
            "model": load.model,
            "tokens": load.tokens,
            "body": load.body,
            "key": load.key,
        }
    )


def options(load: Load) -> dict[str, Any]:
    """k6's. Source: k6 docs, options, executors and thresholds."""
    scenarios = {"load": _scenario(load)}
    if load.api == "chat":
        # k6 hands a stream over when it has ended. A request for one token takes as long as the
        # first token of any other that is asked at that moment.
        scenarios["first_token"] = {
            "executor": "constant-vus",
            "vus": 1,
            "duration": f"{load.duration_s}s",
            "gracefulStop": f"{_GRACE_S}s",
            "exec": "firstToken",
        }
    return {
        "scenarios": scenarios,
        "noVUConnectionReuse": load.fresh_connections,
        "summaryTrendStats": list(_STATS),
        # A threshold without a condition makes k6 keep the figures of one tag apart.
        "thresholds": {
            f"{metric}{{target:{tag(i)}}}": []
            for metric in (*_TRENDS[load.api], *_COUNTERS[load.api])
            for i in range(len(load.targets))
        },
    }


def tag(index: int) -> str:
    """Of a target's figures in k6's summary; names of pods may have characters that it parses."""
    return f"t{index}"


def metrics(api: Api) -> Sequence[str]:
    return (*_TRENDS[api], *_COUNTERS[api])


def _scenario(load: Load) -> dict[str, Any]:
    common = {"duration": f"{load.duration_s}s", "gracefulStop": f"{_GRACE_S}s", "exec": "load_"}
    if load.rate is None:
        return {"executor": "constant-vus", "vus": load.users, **common}
    return {
        "executor": "constant-arrival-rate",
        "rate": load.rate,
        "timeUnit": "1s",
        "preAllocatedVUs": load.rate,
        "maxVUs": load.rate * _MOST_USERS,
        **common,
    }

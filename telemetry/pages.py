"""The content of the HTTP endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Pages(NamedTuple):
    """alive, ready: return None, or the reason why not."""

    alive: Callable[[], str | None]
    ready: Callable[[], str | None]
    metrics: Callable[[], str]

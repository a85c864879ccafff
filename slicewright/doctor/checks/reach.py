"""Checks whether a server accepts connections from here."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from slicewright.doctor.findings import Answer, NotAnswered

_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Reach:
    server: str
    """Host and port."""
    why_not: str | None
    """None: the server accepts connections."""


def may_ask(answer: Answer[Reach]) -> bool:
    """True if a question to the server would not just time out."""
    return isinstance(answer, Reach) and answer.why_not is None


def reach(url: str) -> Answer[Reach]:
    """url: https://HOST[:PORT]. The connection sends nothing."""
    parts = urlsplit(url)
    host, port = str(parts.hostname), parts.port or 443
    server = f"{host}:{port}"
    if getproxies().get("https") and not proxy_bypass(parts.netloc):
        return NotAnswered(why=f"connections to {server} go through a proxy")
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
    except OSError as e:
        return Reach(server=server, why_not=str(e))
    return Reach(server=server, why_not=None)

"""HTTP/1.1 over asyncio's streams, as far as a model server's clients speak it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

_MOST_HEAD: Final = 65536
_MOST_BODY: Final = 64 * 2**20


class NotHttp(Exception):
    """What came is not a request that can be answered."""


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    """Without the query."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes

    @property
    def keeps(self) -> bool:
        """Whether the connection stays for another request."""
        return self.headers.get("connection", "").lower() != "close"


async def read(reader: asyncio.StreamReader) -> Request | None:
    """The next request; None at the end of the connection. Raises NotHttp."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as e:
        if e.partial:
            raise NotHttp("the connection ended in a request") from None
        return None
    except (asyncio.LimitOverrunError, ConnectionError) as e:
        raise NotHttp(str(e)) from None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise NotHttp(f"not a request line: {first[:80]!r}")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    if "transfer-encoding" in headers:
        raise NotHttp("bodies in chunks are not read; send Content-Length")
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > _MOST_BODY:
        raise NotHttp(f"Content-Length {length[:20]!r} is not a length of at most {_MOST_BODY}")
    try:
        body = await reader.readexactly(int(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        raise NotHttp("the connection ended in a body") from None
    return Request(method=words[0], path=words[1].partition("?")[0], headers=headers, body=body)


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Writes answers to one connection. `extra`: headers of every answer."""

    writer: asyncio.StreamWriter
    extra: Mapping[str, str]

    async def whole(self, status: int, body: bytes, kind: str, *, keeps: bool = True) -> None:
        length = {"content-length": str(len(body)), **({} if keeps else {"connection": "close"})}
        self._head(status, {"content-type": kind, **length})
        self.writer.write(body)
        await self.writer.drain()

    async def json(self, status: int, body: Mapping[str, Any], *, keeps: bool = True) -> None:
        await self.whole(status, json.dumps(body).encode(), "application/json", keeps=keeps)

    async def begin_events(self) -> None:
        """A stream of server-sent events, in chunks."""
        kind = {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"}
        self._head(200, kind)
        await self.writer.drain()

    async def event(self, data: str) -> None:
        text = f"data: {data}\n\n".encode()
        self.writer.write(b"%x\r\n%s\r\n" % (len(text), text))
        await self.writer.drain()

    async def end_events(self) -> None:
        await self.event("[DONE]")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{name}: {value}" for name, value in {**self.extra, **headers}.items()),
        ]
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


LIMIT: Final = _MOST_HEAD
"""For asyncio.start_server."""

"""vLLM's paths over the engine: answers requests at the pace of the simulated device."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from slicewright.rehearsal.cluster.model_server import http_messages, openai_api
from slicewright.rehearsal.cluster.model_server.devices import Device
from slicewright.rehearsal.cluster.model_server.engine import Engine, Generation
from slicewright.rehearsal.cluster.model_server.flags import Flags
from slicewright.rehearsal.cluster.model_server.http_messages import Answering, NotHttp, Request
from slicewright.rehearsal.cluster.model_server.measurements import Measurements
from slicewright.rehearsal.cluster.model_server.openai_api import CompletionRequest, RequestRefused
from slicewright.rehearsal.cluster.model_server.turns import Turns

_STEP_S: Final = 0.01
"""Between two turns of the engine."""
SIMULATED: Final = "no model runs here: tokens are counted and paced, not computed"


@dataclass
class Serving:
    """One replica. `run` is its engine; `answer` serves one connection."""

    flags: Flags
    release: str
    used: Sequence[Device]
    engine: Engine
    measured: Measurements
    turns: Sequence[Turns] = ()
    """On each of the devices; empty where no other process uses them."""
    api_key: str | None = None
    """None: whoever reaches the server may ask."""
    created: int = field(default_factory=lambda: int(time.time()))
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)
    _answering: int = 0
    """Requests that are being answered."""

    async def run(self) -> None:
        """Advances the engine by its part of the time that has passed, for ever."""
        while True:
            async with self._moved:
                await self._moved.wait_for(lambda: not self.engine.idle)
            with contextlib.ExitStack() as computing:
                for turn in self.turns:
                    computing.enter_context(turn.computing())
                last = time.monotonic()
                while not self.engine.idle:
                    await asyncio.sleep(_STEP_S)
                    now = time.monotonic()
                    self.engine.advance(share_of_time(now - last, self.turns))
                    last = now
                    async with self._moved:
                        self._moved.notify_all()

    async def drained(self) -> None:
        """Returns when every request that was taken is answered."""
        async with self._moved:
            await self._moved.wait_for(lambda: self._answering == 0)
        for writer in list(self._connections):
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        extra = {
            "server": "uvicorn",
            "x-simulated": SIMULATED,
            "x-simulated-device": ",".join(device.uuid for device in self.used),
        }
        to = Answering(writer=writer, extra=extra)
        self._connections.add(writer)
        try:
            while (request := await http_messages.read(reader)) is not None:
                self._answering += 1
                try:
                    await self._serve(request, to)
                finally:
                    self._answering -= 1
                    async with self._moved:
                        self._moved.notify_all()
                if not request.keeps:
                    break
        except NotHttp as e:
            with contextlib.suppress(ConnectionError):
                await to.whole(400, f"{e}\n".encode(), "text/plain; charset=utf-8", keeps=False)
        except ConnectionError:
            pass  # the client has gone
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _serve(self, request: Request, to: Answering) -> None:
        if request.path.startswith("/v1") and not self._may(request):
            await to.json(401, {"error": "Unauthorized"})
            return
        match request.method, request.path:
            case "GET", "/health" | "/ping":
                await to.whole(200, b"", "text/plain; charset=utf-8")
            case "GET", "/version":
                await to.json(200, self._version())
            case "GET", "/metrics":
                text = self.measured.text(
                    running=len(self.engine.running),
                    waiting=len(self.engine.waiting),
                    held_tokens=self.engine.held_tokens,
                    tokens_per_second=self.engine.tokens_per_second,
                )
                await to.whole(200, text.encode(), "text/plain; version=0.0.4; charset=utf-8")
            case "GET", "/v1/models":
                names, most = self.flags.names, self.flags.max_model_len
                await to.json(200, openai_api.models(names, self.flags.model, most, self.created))
            case "POST", "/v1/completions" | "/v1/chat/completions":
                try:
                    completion = openai_api.read(
                        openai_api.KINDS[request.path],
                        request.body,
                        self.flags.names,
                        self.flags.max_model_len,
                    )
                except RequestRefused as e:
                    await to.json(e.status, e.body)
                    return
                await self._generate(completion, to)
            case _, path if path in (*openai_api.KINDS, "/health", "/metrics", "/v1/models"):
                await to.json(405, {"detail": "Method Not Allowed"})
            case _:
                await to.json(404, {"detail": "Not Found"})

    def _may(self, request: Request) -> bool:
        key = self.api_key
        header = request.headers.get("authorization", "")
        return key is None or hmac.compare_digest(header.encode(), f"Bearer {key}".encode())

    def _version(self) -> dict[str, object]:
        return {
            "version": self.release,
            "simulated": SIMULATED,
            "devices": [
                {
                    "uuid": device.uuid,
                    "name": device.name,
                    "multiprocessors": device.multiprocessors,
                }
                for device in self.used
            ],
            "simulated_tokens_per_second": self.engine.tokens_per_second,
        }

    async def _generate(self, completion: CompletionRequest, to: Answering) -> None:
        began = time.monotonic()
        first_s = 0.0
        generation = self.engine.submit(
            prompt_tokens=completion.prompt_tokens, answer_tokens=completion.answer_tokens
        )
        async with self._moved:
            self._moved.notify_all()
        prefix = "cmpl" if completion.kind == "text_completion" else "chatcmpl"
        identity, created = f"{prefix}-{uuid.uuid4().hex}", int(time.time())
        sent, reason = 0, "abort"
        try:
            if completion.stream:
                await to.begin_events()
            while not generation.done:
                await self._more(generation, sent)
                if sent == 0:
                    first_s = time.monotonic() - began
                    self.measured.first_token.observe(first_s)
                    self.measured.prompt_tokens += completion.prompt_tokens
                now = generation.generated
                self.measured.generation_tokens += now - sent
                if completion.stream:
                    if sent == 0 and completion.kind == "chat.completion":
                        role = openai_api.role_chunk(completion, identity, created)
                        await to.event(json.dumps(role))
                    part = openai_api.chunk(
                        completion, identity, created, tokens=now - sent, last=generation.done
                    )
                    await to.event(json.dumps(part))
                sent = now
            if not completion.stream:
                await to.json(200, openai_api.answer(completion, identity, created))
            else:
                if completion.usage:
                    ending = openai_api.last_usage(completion, identity, created)
                    await to.event(json.dumps(ending))
                await to.end_events()
            reason = completion.reason
        finally:
            self.engine.abort(generation)
            self.measured.finish(
                reason,
                prompt=completion.prompt_tokens,
                generated=sent,
                first_s=first_s,
                whole_s=time.monotonic() - began,
            )

    async def _more(self, generation: Generation, sent: int) -> None:
        """Returns when more than `sent` tokens are generated."""
        async with self._moved:
            await self._moved.wait_for(lambda: generation.generated > sent)


def share_of_time(seconds: float, turns: Sequence[Turns]) -> float:
    """Of a time in which this process and others compute on its devices, that of this one."""
    return seconds / max((turn.sharers() for turn in turns), default=1)

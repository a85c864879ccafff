"""The load engine, in its own process: Locust's users send requests to the servers.

Locust is based on gevent, which replaces much of the standard library in its process. The settings
come as JSON on stdin, which nobody else can read: they contain the API key. Each request's outcome
goes to stdout as it ends (outcomes.py).
"""

from __future__ import annotations

# The first import: it replaces sockets and locks, and earlier imports would keep the old ones.
import locust  # isort: skip

import base64
import json
import os
import signal
import ssl
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import gevent
from gevent.event import Event
from locust.contrib.fasthttp import FastHttpUser, FastResponse
from locust.env import Environment
from locust.exception import StopUser

from slicewright.load.arrivals import SteadyRate, WhenFree
from slicewright.load.chat_stream import ChatStream
from slicewright.load.outcomes import Ended, Line, Outcome, Progress, encode

_ANSWER_TIMEOUT_S: Final = 300.0
_GRACE_S: Final = 60.0
"""The time that requests may still take after the end of the run."""
_USERS_PER_RATE: Final = 10
"""The limit of concurrent requests per request a second. Above it, some are not sent."""
_MOST_USERS: Final = 10_000
_POLL_S: Final = 0.05


class _AnswerTimeout(Exception):
    """No complete answer came within the request's time limit."""


@dataclass
class Run:
    """The data that all users of this process share."""

    settings: Mapping[str, Any]
    write: Callable[[Line], None]
    arrivals: SteadyRate | WhenFree | None = None
    """None until all users exist."""
    ready: Event = field(default_factory=Event)
    interrupted: bool = False
    """True after Ctrl-C. Not an Event: gevent's wait with a timeout can miss a set() that comes at
    the same moment, and then neither returns nor times out.
    """
    under_way: int = 0
    sent: int = 0
    name: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    @property
    def users(self) -> int:
        rate = self.settings["rate"]
        users: int = self.settings["users"] or min(rate * _USERS_PER_RATE, _MOST_USERS)
        return users

    def interrupt(self) -> None:
        self.interrupted = True

    def wait_for_end(self, user_count: Callable[[], int]) -> None:
        """Returns after the last user has stopped, or soon after an interrupt."""
        while user_count() and not self.interrupted:
            gevent.sleep(_POLL_S)

    def begin(self) -> None:
        now_s, duration_s = time.perf_counter(), self.settings["duration_s"]
        rate = self.settings["rate"]
        self.arrivals = (
            WhenFree(duration_s=duration_s, began_s=now_s)
            if rate is None
            else SteadyRate(per_second=rate, duration_s=duration_s, began_s=now_s)
        )
        self.ready.set()

    def wait_for_turn(self) -> int:
        """Returns the number of the request that is due now. Raises StopUser after the last."""
        self.ready.wait()
        assert self.arrivals is not None
        due_s = self.arrivals.take(time.perf_counter())
        if due_s is not None:
            # The end of the run kills the users who sleep here.
            gevent.sleep(max(due_s - time.perf_counter(), 0))
        if due_s is None or self.interrupted:
            raise StopUser
        self.sent += 1
        return self.sent - 1

    def time_left_s(self) -> float:
        assert self.arrivals is not None
        last_s = self.arrivals.began_s + self.arrivals.duration_s + _GRACE_S
        return min(_ANSWER_TIMEOUT_S, last_s - time.perf_counter())

    def body(self, number: int) -> bytes:
        body = base64.b64decode(self.settings["body"])
        if not self.settings["varied"]:
            return body
        chat = json.loads(body)
        first = chat["messages"][0]
        first["content"] = f"{self.name} {number}: {first['content']}"
        return json.dumps(chat).encode()


class LoadUser(FastHttpUser):  # type: ignore[misc]
    """One user. The run must be set before the first user is created."""

    run_: ClassVar[Run]
    network_timeout = _ANSWER_TIMEOUT_S
    connection_timeout = 60.0
    max_redirects = 0
    # Locust trusts every certificate by default. These requests have the API key.
    insecure = False
    ssl_context_factory = staticmethod(ssl.create_default_context)

    @locust.task  # type: ignore[untyped-decorator]
    def send_request(self) -> None:
        run = self.run_
        number = run.wait_for_turn()
        target = number % len(run.settings["urls"])
        run.under_way += 1
        try:
            run.write(self._outcome(number, target))
        finally:
            run.under_way -= 1
            if run.settings["fresh_connections"]:
                self.client.client.close()

    def _outcome(self, number: int, target: int) -> Outcome:
        body = self.run_.body(number)
        began_s = time.perf_counter()
        limit_s = self.run_.time_left_s()
        stream: ChatStream | None = None
        failure, tokens = None, None
        try:
            with gevent.Timeout(limit_s, _AnswerTimeout):
                response = self._post(target, body)
                failure = _refusal(response)
                if failure is None and _is_stream(response):
                    stream = _read_stream(response)
                    tokens, failure = stream.tokens, _stream_failure(stream)
                elif failure is None:
                    tokens = _tokens(response.content)
        except _AnswerTimeout:
            failure = f"no complete answer within {limit_s:.0f} s"
        except Exception as e:  # noqa: BLE001 - whatever the client raises, this request failed
            failure = f"{type(e).__name__}: {e}"
        return Outcome(
            target=target,
            began_s=began_s,
            ended_s=time.perf_counter(),
            failure=failure,
            tokens=tokens,
            first_token_s=_since(began_s, stream),
            inter_token_s=None if stream is None else stream.inter_token_s,
            longest_gap_s=None if stream is None else stream.longest_gap_s,
        )

    def _post(self, target: int, body: bytes) -> FastResponse:
        settings = self.run_.settings
        return self.client.post(
            settings["urls"][target] + settings["path"],
            data=body,
            # Locust would ask for compressed answers, which arrive in large pieces.
            headers={"Accept-Encoding": "identity", **settings["headers"]},
            stream=True,
            catch_response=True,
        )


def _refusal(response: FastResponse) -> str | None:
    if response.status_code == 200:
        return None
    if response.error is not None and not response.status_code:
        return f"{type(response.error).__name__}: {response.error}"
    content = response.content or b""
    return f"HTTP {response.status_code}: {content.decode(errors='replace')}"


def _is_stream(response: FastResponse) -> bool:
    return str(response.headers.get("content-type", "")).startswith("text/event-stream")


def _read_stream(response: FastResponse) -> ChatStream:
    stream = ChatStream()
    while line := response.stream.readline(b"\n"):
        stream.feed(bytes(line), time.perf_counter())
    stream.end_event(time.perf_counter())
    return stream


def _stream_failure(stream: ChatStream) -> str | None:
    if stream.error is not None:
        return stream.error
    return None if stream.complete else "the stream ended before its answer was complete"


def _tokens(content: bytes | None) -> int | None:
    """Returns the token count of an answer that is not a stream."""
    try:
        tokens = json.loads(content or b"")["usage"]["completion_tokens"]
    except (ValueError, KeyError, TypeError):
        return None
    return tokens if isinstance(tokens, int) else None


def _since(began_s: float, stream: ChatStream | None) -> float | None:
    if stream is None or stream.first_token_s is None:
        return None
    return stream.first_token_s - began_s


def _report_progress(run: Run) -> None:
    """Writes the progress once a second."""
    while True:
        gevent.sleep(1)
        assert run.arrivals is not None
        seconds = time.perf_counter() - run.arrivals.began_s
        run.write(Progress(under_way=run.under_way, seconds=seconds))


def _line_writer(out: Any) -> Callable[[Line], None]:
    def write(line: Line) -> None:
        try:
            out.write(encode(line))
            out.flush()
        except OSError:
            # slicewright has ended without stopping this process.
            os._exit(1)

    return write


def main() -> int:
    # Output that libraries print must not get among the outcomes.
    out, sys.stdout = sys.stdout, sys.stderr
    run = Run(settings=json.load(sys.stdin), write=_line_writer(out))
    LoadUser.run_ = run
    LoadUser.host = run.settings["urls"][0]
    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, run.interrupt)
    environment = Environment(user_classes=[LoadUser])
    runner = environment.create_local_runner()
    environment.events.spawning_complete.add_listener(lambda **_: run.begin())
    runner.start(run.users, spawn_rate=run.users)
    run.ready.wait()
    reporter = gevent.spawn(_report_progress, run)
    run.wait_for_end(lambda: runner.user_count)
    reporter.kill()
    runner.quit()
    assert run.arrivals is not None
    if not run.interrupted:
        run.arrivals.skip_until(time.perf_counter())
    run.write(Ended(not_sent=run.arrivals.not_sent, interrupted=run.interrupted))
    return 0


if __name__ == "__main__":
    sys.exit(main())

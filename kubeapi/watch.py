"""List, then watch, with retries: what every reader of the API server needs."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from kubeapi.client import ApiError, JsonObject, Unreachable

_SHORT_S = 1.0

EventType = Literal["LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True)
class Event:
    """LISTED carries the whole collection in `items`, which replaces what was known.

    The others carry one `object`.
    """

    type: EventType
    object: JsonObject
    items: tuple[JsonObject, ...] = ()


class Reader(Protocol):
    """What list_and_watch needs of a client."""

    def get(self, path: str, **query: str) -> JsonObject: ...

    def stream(self, path: str, *, timeout_s: float, **query: str) -> Iterator[bytes]: ...


def list_and_watch(
    client: Reader,
    path: str,
    *,
    stop: threading.Event,
    window_s: float = 240.0,
    backoff_max_s: float = 30.0,
    on_error: Callable[[ApiError | Unreachable | ValueError], None] = lambda _: None,
    on_open: Callable[[], None] = lambda: None,
    **query: str,
) -> Iterator[Event]:
    """Yields events until `stop` is set. Does not raise: it retries, with full jitter.

    It lists again after 410 Gone. Each watch ends after `window_s` seconds, and a BOOKMARK is
    yielded, so that a caller can act on time. on_error: called with every error but 410 Gone.
    on_open: called when a watch has been accepted, however long nothing changes after it.
    """
    version: str | None = None
    failures = 0
    while not stop.is_set():
        try:
            if version is None:
                listed = client.get(path, **query)
                version = listed["metadata"]["resourceVersion"]
                yield Event("LISTED", {}, tuple(listed.get("items") or ()))
            watch = {
                **query,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
            }
            watch["timeoutSeconds"] = str(int(window_s))
            opened, silent = time.monotonic(), True
            lines = client.stream(path, timeout_s=window_s + 10, **watch)
            on_open()
            for line in lines:
                if stop.is_set():
                    return
                if not line.strip():
                    continue
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(int(event["object"].get("code", 500)), event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
                failures, silent = 0, False
                yield Event(event["type"], event["object"])
            # No tight loop where a proxy or a stopping server ends empty watches at once.
            failures = (
                failures + 1
                if silent and time.monotonic() - opened < min(_SHORT_S, window_s / 2)
                else 0
            )
            yield Event("BOOKMARK", {})
        except ApiError as e:
            if e.status == 410:
                version = None
                continue
            failures += 1
            on_error(e)
        except (Unreachable, ValueError) as e:
            failures += 1
            on_error(e)
        except (KeyError, TypeError, AttributeError) as e:
            # Not what the API server sends: a proxy, or a bug. What is known may be incomplete.
            version = None
            failures += 1
            on_error(ValueError(f"unexpected answer: {type(e).__name__}: {e}"))
        if failures:
            pause = random.uniform(0, min(backoff_max_s, 0.2 * 2**failures))  # noqa: S311 - jitter, not a secret
            if stop.wait(pause):
                return

"""List, then watch, with retries."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kubeapi.client import ApiError, JsonObject, Unreachable

_SHORT_S = 1.0
_PAGE = "500"
"""Objects per page, as in client-go. Source: k8s.io/client-go, tools/pager (defaultPageSize)."""
_LONGEST_RETRY_AFTER_S = 60.0
_TOO_LARGE = "Too large resource version"
"""Source: k8s.io/apiserver, pkg/storage/errors.go (NewTooLargeResourceVersionError)."""

EventType = Literal["LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True)
class Event:
    """A LISTED event has the whole collection in `items`, which replaces all earlier state, and the
    list's `metadata` in `object`. Every other event has a single `object`.
    """

    type: EventType
    object: JsonObject
    items: tuple[Any, ...] = ()
    """The results of `keep`."""


class Reader(Protocol):
    """The methods of a client that list_and_watch uses."""

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
    keep: Callable[[JsonObject], Any] = lambda raw: raw,
    **query: str,
) -> Iterator[Event]:
    """Yields events until `stop` is set. Does not raise: it retries, with full jitter, and not
    before the server's Retry-After.

    Lists are read in pages, and only the result of `keep` is stored for each listed object, so at
    most one page of raw objects is in memory. After 410 Gone it lists again. Each watch ends after
    `window_s` seconds, and a BOOKMARK is yielded, so that a caller can act on time. on_error is
    called with every error but 410 Gone. on_open is called when a watch has been accepted, even if
    no event follows.
    """
    version: str | None = None
    failures = gone = 0
    while not stop.is_set():
        minimum_s = 0.0
        try:
            if version is None:
                listed = list_all(client, path, keep=keep, **query)
                version = listed.object["metadata"]["resourceVersion"]
                yield listed
                del listed
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
                failures, gone, silent = 0, 0, False
                yield Event(event["type"], event["object"])
            # Avoids a tight loop if a proxy or a stopping server ends empty watches at once.
            failures = (
                failures + 1
                if silent and time.monotonic() - opened < min(_SHORT_S, window_s / 2)
                else 0
            )
            yield Event("BOOKMARK", {})
        except ApiError as e:
            if e.status == 410:
                version, gone = None, gone + 1
                if gone == 1:
                    continue
                failures += 1
            else:
                if _TOO_LARGE in e.message:
                    # The API server was restored, or is behind the previous server.
                    version = None
                failures += 1
                on_error(e)
            minimum_s = min(e.retry_after_s or 0.0, _LONGEST_RETRY_AFTER_S)
        except (Unreachable, ValueError) as e:
            failures += 1
            on_error(e)
        except (KeyError, TypeError, AttributeError) as e:
            # The API server never sends this: a proxy or a bug. Earlier state may be incomplete.
            version = None
            failures += 1
            on_error(ValueError(f"unexpected answer: {type(e).__name__}: {e}"))
        if failures:
            # Jitter, not a secret.
            pause = random.uniform(0, min(backoff_max_s, 0.2 * 2**failures))  # noqa: S311
            if stop.wait(max(pause, minimum_s)):
                return


def list_all(
    client: Reader,
    path: str,
    *,
    keep: Callable[[JsonObject], Any] = lambda raw: raw,
    **query: str,
) -> Event:
    """The LISTED event of all pages, which share a version. Raises the errors of `Reader.get`."""
    items: list[Any] = []
    page = client.get(path, **query, limit=_PAGE)
    while True:
        items += map(keep, page.get("items") or ())
        metadata: JsonObject = page["metadata"]
        token = metadata.get("continue")
        if not token:
            return Event("LISTED", {"metadata": metadata}, tuple(items))
        page = client.get(path, **{**query, "limit": _PAGE, "continue": token})

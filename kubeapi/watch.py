"""List, then watch, with retries: what every reader of the API server needs."""

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
"""Objects of a page, as client-go's. Source: k8s.io/client-go, tools/pager (defaultPageSize)."""
_LONGEST_RETRY_AFTER_S = 60.0
_TOO_LARGE = "Too large resource version"
"""Source: k8s.io/apiserver, pkg/storage/errors.go (NewTooLargeResourceVersionError)."""

EventType = Literal["LISTED", "ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True)
class Event:
    """LISTED carries the whole collection in `items`, which replaces what was known, and in
    `object` the list's `metadata`. The others carry one `object`.
    """

    type: EventType
    object: JsonObject
    items: tuple[Any, ...] = ()
    """As `keep` made them."""


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
    keep: Callable[[JsonObject], Any] = lambda raw: raw,
    **query: str,
) -> Iterator[Event]:
    """Yields events until `stop` is set. Does not raise: it retries, with full jitter, and not
    before the server's Retry-After.

    Lists are read in pages, and of each object of a list what `keep` makes of it is kept: no more
    than a page of raw ones is in memory at a time. It lists again after 410 Gone. Each watch ends
    after `window_s` seconds, and a BOOKMARK is yielded, so that a caller can act on time. on_error:
    called with every error but 410 Gone. on_open: called when a watch has been accepted, however
    long nothing changes after it.
    """
    version: str | None = None
    failures = gone = 0
    while not stop.is_set():
        least = 0.0
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
            # No tight loop where a proxy or a stopping server ends empty watches at once.
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
                    # Of an API server that has been restored, or is behind the one before.
                    version = None
                failures += 1
                on_error(e)
            least = min(e.retry_after_s or 0.0, _LONGEST_RETRY_AFTER_S)
        except (Unreachable, ValueError) as e:
            failures += 1
            on_error(e)
        except (KeyError, TypeError, AttributeError) as e:
            # Not what the API server sends: a proxy, or a bug. What is known may be incomplete.
            version = None
            failures += 1
            on_error(ValueError(f"unexpected answer: {type(e).__name__}: {e}"))
        if failures:
            # Jitter, not a secret.
            pause = random.uniform(0, min(backoff_max_s, 0.2 * 2**failures))  # noqa: S311
            if stop.wait(max(pause, least)):
                return


def list_all(
    client: Reader,
    path: str,
    *,
    keep: Callable[[JsonObject], Any] = lambda raw: raw,
    **query: str,
) -> Event:
    """LISTED, from all pages of one list, which are of one version. Raises as `Reader.get` does."""
    kept: list[Any] = []
    page = client.get(path, **query, limit=_PAGE)
    while True:
        kept += map(keep, page.get("items") or ())
        metadata: JsonObject = page["metadata"]
        token = metadata.get("continue")
        if not token:
            return Event("LISTED", {"metadata": metadata}, tuple(kept))
        page = client.get(path, **{**query, "limit": _PAGE, "continue": token})

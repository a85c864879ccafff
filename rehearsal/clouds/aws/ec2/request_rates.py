"""How often EC2 lets an account call each of its operations in a region: one token bucket for each.

Source: EC2 developer guide, "Request throttling for the Amazon EC2 API" (request token bucket sizes
and refill rates). EKS, IAM and Elastic Load Balancing publish no figures and are not limited here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import throttled


@dataclass(frozen=True)
class Bucket:
    size: float
    """Requests that are served at once."""
    refill: float
    """Requests a second after that."""


# Compared with that page on 2026-11-22: these; the other two are unverified.
READ = Bucket(100, 20)
READ_ALL = Bucket(50, 10)
"""Without filter, ids or a page size."""
CHANGE = Bucket(50, 5)
_NARROWING = ("Filters", "MaxResults")


class RequestRates:
    """Threads may share it. A restart of the clouds fills all buckets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[tuple[str, str, Bucket], tuple[float, float]] = {}
        """Tokens, and when that was."""

    def take(self, region: str, operation: str, body: JsonObject) -> None:
        """Counts a request. Raises CloudError RequestLimitExceeded where none is left."""
        bucket = bucket_of(operation, body)
        key = (region, operation, bucket)
        now = self._clock()
        with self._lock:
            tokens, since = self._tokens.get(key, (bucket.size, now))
            tokens = min(bucket.size, tokens + (now - since) * bucket.refill)
            served = tokens >= 1
            self._tokens[key] = (tokens - served, now)
        if not served:
            raise throttled("ec2")


def bucket_of(operation: str, body: JsonObject) -> Bucket:
    if not operation.startswith("Describe"):
        return CHANGE
    narrowed = any(body.get(n) for n in _NARROWING) or any(
        value for name, value in body.items() if name.endswith(("Id", "Ids", "Names"))
    )
    return READ if narrowed else READ_ALL

"""Calls that the official provider's transport sends again by itself.

Source: hashicorp/terraform-provider-google: transport/retry_transport.go (for 90 s, with pauses of
0.5, 1, 1.5, 2.5, 4, … s), transport/error_retry_predicates.go (defaultErrorRetryPredicates).
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import Calls

_CODES = frozenset({429, 500, 502, 503})
"""503 is also what the client makes of a connection that broke."""
_REASONS = frozenset({"OPERATION_IN_PROGRESS", "RESOURCE_NOT_READY"})


@dataclass(frozen=True)
class Retrying:
    """The same calls; a cancelled run waits for none."""

    calls: Calls
    cancelled: threading.Event
    pause_s: float
    """The first one."""
    for_s: float = 90.0

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """Raises CloudError, the last one where it was no use, and CloudUnreachable."""
        until = time.monotonic() + self.for_s
        pause_s, before_s = self.pause_s, self.pause_s
        while True:
            try:
                return self.calls.call(service, method, params, body)
            except CloudError as e:
                again = e.code in _CODES or e.reason in _REASONS
                if not again or time.monotonic() + pause_s > until or self.cancelled.wait(pause_s):
                    raise
                pause_s, before_s = pause_s + before_s, pause_s

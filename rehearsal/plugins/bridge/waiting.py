"""Waiting for an operation of the simulated cloud to finish."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import Session
from slicewright.rehearsal.plugins.engine.plugin import ProviderError

T = TypeVar("T")
_OUTAGE_S = 15.0
"""How long the cloud may fail to answer before the wait fails."""


def wait_until(session: Session, awaited: str, poll: Callable[[], T | None]) -> T:
    """The first result of `poll` that is not None.

    Raises ProviderError at the operation's timeout, or when the user cancels.
    """
    deadline = time.monotonic() + session.timeout_s
    answered_at = time.monotonic()
    pause = 0.02
    while True:
        try:
            result = poll()
            answered_at = time.monotonic()
        except (CloudUnreachable, CloudError) as e:
            # The operation runs in the cloud, so a service that restarts or is overloaded for a
            # moment does not end the wait.
            transient = isinstance(e, CloudUnreachable) or e.code == 429 or e.code >= 500
            if not transient or time.monotonic() - answered_at > _OUTAGE_S:
                raise
            result = None
        if result is not None:
            return result
        if session.cancelled():
            raise ProviderError(
                f"cancelled while waiting for {awaited}, which continues in the cloud; run "
                "`pulumi refresh` when it has finished"
            )
        if time.monotonic() > deadline:
            raise ProviderError(
                f"timeout after {session.timeout_s:.0f} s while waiting for {awaited}"
            )
        time.sleep(pause)
        pause = min(pause * 1.3, 1.0)

"""Waiting for something in the simulated cloud to come to rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rehearsal.clouds.core.client import CloudUnreachable
from rehearsal.clouds.core.errors import CloudError
from rehearsal.plugins.bridge.resources import Session
from rehearsal.plugins.engine.plugin import ProviderError

T = TypeVar("T")
_SILENCE_S = 15.0


def wait_until(session: Session, what: str, poll: Callable[[], T | None]) -> T:
    """The first answer of `poll` that is not None. Raises ProviderError at the operation's timeout,
    or when the user cancels.
    """
    deadline = time.monotonic() + session.timeout_s
    heard = time.monotonic()
    pause = 0.02
    while True:
        try:
            found = poll()
            heard = time.monotonic()
        except (CloudUnreachable, CloudError) as e:
            # The work goes on without us: a service that restarts, or has too much to do for a
            # moment, is asked again.
            passing = isinstance(e, CloudUnreachable) or e.code == 429 or e.code >= 500
            if not passing or time.monotonic() - heard > _SILENCE_S:
                raise
            found = None
        if found is not None:
            return found
        if session.cancelled():
            raise ProviderError(
                f"cancelled while waiting for {what}; it goes on in the cloud, pulumi "
                "refresh will see it"
            )
        if time.monotonic() > deadline:
            raise ProviderError(f"timeout after {session.timeout_s:.0f} s while waiting for {what}")
        time.sleep(pause)
        pause = min(pause * 1.3, 1.0)

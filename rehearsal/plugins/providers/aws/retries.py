"""Errors that the official provider retries by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import Session

T = TypeVar("T")
_PAUSE_S = 0.1


def retried_while(
    session: Session,
    timeout_s: float,
    transient: Callable[[CloudError], bool],
    step: Callable[[], T],
) -> T:
    """The step's answer; errors that `transient` accepts are retried until the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return step()
        except CloudError as e:
            if not transient(e) or time.monotonic() > deadline or session.cancelled():
                raise
        time.sleep(_PAUSE_S)


def once_free(session: Session, step: Callable[[], T]) -> T:
    """The step's answer, once nothing depends any more on what it removes.

    Source: hashicorp/terraform-provider-aws, internal/service/ec2: deletion of subnets, VPCs and
    internet gateways retries DependencyViolation until the timeout.
    """
    return retried_while(
        session, session.timeout_s, lambda e: e.reason == "DependencyViolation", step
    )

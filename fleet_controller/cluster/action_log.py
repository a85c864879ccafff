"""Log lines for actions that were carried out."""

from __future__ import annotations

from slicewright.fleet_controller.objects.action import LoggedAction
from slicewright.telemetry import log


def log_action(action: LoggedAction) -> None:
    """Logs the action, and the actions that the same request has carried out."""
    for done in (action, *action.included):
        log.info(done.log_message, **done.log_fields)

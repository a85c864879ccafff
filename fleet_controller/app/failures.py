"""The meaning of failed requests: an object has changed, or the server is overloaded. Pure."""

from __future__ import annotations

from slicewright.fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    EndUndo,
    RemoveStartupTaint,
)
from slicewright.fleet_controller.membership.release import ReleaseNode
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from slicewright.fleet_controller.rollout.change_actions import EvictPod
from slicewright.fleet_controller.rollout.drain import is_refused_by_budget
from slicewright.kubeapi import ApiError

_JSON_PATCHES = (
    RemoveStartupTaint,
    AddStartupTaint,
    ReleaseNode,
    QuarantineNode,
    EndQuarantine,
    EndUndo,
)


def is_overtaken(action: Action, error: ApiError) -> bool:
    """True if an action failed because its object has changed since the decision."""
    # A JSON patch whose `test` fails is answered with 422. For other requests 422 is a bug here.
    return error.status in (404, 409) or (error.status == 422 and isinstance(action, _JSON_PATCHES))


def is_overloaded(error: ApiError) -> bool:
    """True if the API server wants to be left alone altogether.

    False if it only says when to retry a disruption budget. Source: k8s.io/kubernetes,
    pkg/registry/core/pod/storage/eviction.go.
    """
    return (
        error.status in (429, 503)
        and bool(error.retry_after_s)
        and not is_refused_by_budget(error.body)
    )


def is_refused(action: Action, error: ApiError) -> bool:
    """True if an eviction was refused, as by a disruption budget: an ordinary answer."""
    if is_overloaded(error):
        return False
    # The restart of an operand that a budget protects counts as a try, too.
    restart = isinstance(action, RestartOperand) and error.status == 429
    return restart or isinstance(action, EvictPod)

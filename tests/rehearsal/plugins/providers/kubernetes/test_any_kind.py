"""With PULUMI_K8S_AWAIT_ALL an object of any kind is ready when kstatus calls it Current."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from slicewright.rehearsal.plugins.providers.kubernetes.readiness import AnyKind
from slicewright.rehearsal.plugins.providers.kubernetes.related_objects import RelatedObjects

_NOTHING = cast(RelatedObjects, None)
_STATUSES = (None, "True", "False", "Unknown")


def _objects() -> list[dict[str, Any]]:
    """Of all kinds of states; not deleted ones, for which there is no wait."""
    made = []
    for observed, ready, reconciling, stalled in itertools.product(
        (None, -1, 2), _STATUSES, _STATUSES, _STATUSES
    ):
        found = (("Ready", ready), ("Reconciling", reconciling), ("Stalled", stalled))
        conditions = [
            {"type": kind, "status": status, "reason": "Why", "message": f"{kind} it is"}
            for kind, status in found
            if status is not None
        ]
        status: dict[str, Any] = {"conditions": conditions} if conditions else {}
        if observed is not None:
            status["observedGeneration"] = observed
        made.append(
            {
                "apiVersion": "slicewright.io/v1alpha1",
                "kind": "GPUPool",
                "metadata": {"name": "p", "generation": 2},
                "status": status,
            }
        )
    return made


def test_the_rehearsals_rule_agrees_with_kstatus(
    kstatus: Callable[[Sequence[Mapping[str, Any]]], list[str]],
) -> None:
    objects = _objects()
    judged = kstatus(objects)
    assert {"Current", "InProgress", "Failed"} == set(judged)
    rule = AnyKind()
    for live, wanted in zip(objects, judged, strict=True):
        assert rule.judge(live, _NOTHING).done == (wanted == "Current"), live["status"]

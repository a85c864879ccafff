"""A write whose answer is lost may have been carried out, though no watch has shown it yet."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import names
from slicewright.kubeapi import Unreachable
from tests.fleet_controller.api_edge import NODES, POOLS, ApiEdge, Object
from tests.fleet_controller.cluster.test_requests import Fleet


class LosesAnswers(ApiEdge):
    """Carries out cordons, and their answers are lost."""

    def patch(self, path: str, body: Any, *, kind: str = "merge") -> Object:
        answer = super().patch(path, body, kind=kind)
        if names.CHANGE_ANNOTATION in str(body):
            raise Unreachable("the connection was closed")
        return answer


@pytest.fixture
def fleet() -> Fleet:
    """Two nodes in service, whose watch is silent from now on."""
    fleet = Fleet(pools=1, of_a_pool=2)
    fleet.passes()
    fleet.mig_manager_says("success")
    fleet.agents_report()
    fleet.written()
    return fleet


def _lose_the_answer_to_a_cordon(fleet: Fleet) -> None:
    fleet.edge.__class__ = LosesAnswers
    fleet.edge.change(POOLS, "p0", {"metadata": {"generation": 2}, "spec": {"migConfig": "new"}})
    fleet.cluster.pools.put(fleet.edge.objects[POOLS]["p0"])
    # It is out anyway, so that its change costs nothing. The answer to its condition shows it.
    fleet.edge.change(NODES, "p0-1", {"spec": {"unschedulable": True}})
    fleet.loop.turn()
    assert fleet.loop.progress.error == "node p0-0: the connection was closed"
    fleet.now += 1.0


def _changing(fleet: Fleet) -> list[str]:
    return [
        name
        for name, node in fleet.edge.objects[NODES].items()
        if names.CHANGE_ANNOTATION in node["metadata"].get("annotations", {})
    ]


def test_no_further_node_is_changed_before_it_is_known(fleet: Fleet) -> None:
    _lose_the_answer_to_a_cordon(fleet)
    fleet.loop.turn()
    assert _changing(fleet) == ["p0-0"]


def test_while_it_cannot_be_found_out_nothing_is_done(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lose_the_answer_to_a_cordon(fleet)
    before = dict(fleet.edge.requests)

    def silent(path: str, **query: str) -> Object:
        raise Unreachable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(fleet.edge, "get", silent)
        fleet.loop.turn()
        assert fleet.loop.progress.error == "cannot read the cluster: no answer"
        assert fleet.edge.requests == before
    fleet.loop.turn()
    assert fleet.loop.progress.error is None
    assert _changing(fleet) == ["p0-0"]

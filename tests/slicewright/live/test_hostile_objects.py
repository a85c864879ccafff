"""One object of a cluster that is not as it must be: it is named, and the others are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.commands.rollout import request_rollout
from slicewright.commands.status import exit_code
from slicewright.drift.silicon import silicon_drift
from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED
from slicewright.fleet_controller.objects.bounds import seconds
from slicewright.infra import plan
from slicewright.kubeapi import Unreachable
from slicewright.live import shapes
from slicewright.live.annotation_change import VERBS, Refused, Verb
from slicewright.live.coming import affected, coming
from slicewright.live.fleet import fleet_of
from slicewright.live.looking import CannotLook
from slicewright.live.output.fleet_json import as_json
from slicewright.live.output.text import lines, log_lines
from slicewright.live.reading import read
from slicewright.live.views import Fleet
from slicewright.preview.escaping import text
from slicewright.preview.living import section
from tests.nasty import obeyed
from tests.odd_values import nested, replaced
from tests.properties import examples
from tests.slicewright.live.hostile import (
    BUDGETS,
    CHANGE_ANNOTATION,
    DEPLOYMENT,
    KINDS,
    NODES,
    NOW,
    PODS,
    POOLS,
    REPORTS,
    ROLLOUT_ANNOTATION,
    Server,
    odd_objects,
)

STACKS = Path(__file__).resolve().parents[3] / "stacks"


def _fleet(server: Server) -> Fleet:
    return fleet_of(server.found(), None, NOW)


def _shown(fleet: Fleet) -> str:
    shown = lines(fleet, where="here", now=NOW, width=100, every_node=True)
    return "\n".join(
        [*(line.plain for line in shown), *log_lines(None, fleet), *log_lines(fleet, fleet)]
    )


def _access(server: Server) -> Any:
    context = SimpleNamespace(name="c", server="https://c")
    return SimpleNamespace(client=lambda: server, context=context, refused=lambda: None)


def test_as_they_must_be_all_are_read() -> None:
    """Else the properties below would hold of a fleet that nobody can read."""
    found = Server().found()
    assert found.unread_objects == ()
    assert [pool.name for pool in found.pools] == ["p", "q"]
    assert {name: len(pods) for name, pods in found.pods.items()} == {"p0": 2, "q0": 1}
    assert exit_code(_fleet(Server())) == NOT_VERIFIED


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_no_odd_object_ends_a_command_or_reaches_a_terminal(data: st.DataObject) -> None:
    server = Server()
    data.draw(odd_objects(server))
    fleet = _fleet(server)
    said = _shown(fleet)
    assert not obeyed(said.replace("\n", ""))
    assert len(said) < 60_000
    machine = json.dumps(as_json(fleet, context="c", server="s", now=NOW))
    assert len(machine) < 120_000
    assert (exit_code(fleet) == CANNOT_RUN) == bool(fleet.unread)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_previews_and_drift_survive_it_as_well(data: st.DataObject) -> None:
    server = Server()
    data.draw(odd_objects(server))
    stack = plan.read_file(STACKS / "Pulumi.eks-a100.yaml")
    (first,) = stack.pools
    planned = [replace(first, name="p"), replace(first, name="q")]
    found = read(cast("Any", server), pods_of=lambda *known: affected(planned, *known))
    told = section(coming(planned, found, NOW), found.unread, found.unread_objects)
    assert not obeyed(told.replace("\n", ""))
    assert all(text(one.name) in told for one in found.unread_objects)
    silicon_drift(found, stack, "eks-a100", NOW)


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), st.sampled_from(VERBS))
def test_a_rollout_request_is_sent_or_refused_with_a_message(
    data: st.DataObject, verb: Verb
) -> None:
    server = Server()
    data.draw(odd_objects(server))
    try:
        said = request_rollout(_access(server), "p", verb).messages
    except (Refused, CannotLook) as e:
        said = (str(e),)
    assert not obeyed("".join(said))
    assert len("".join(said)) < 4_000


@pytest.mark.parametrize(
    ("path", "way", "value", "named"),
    [
        (POOLS, ("spec", "selector"), None, "GPUPool p cannot be read: spec.selector is missing"),
        (POOLS, ("spec", "layoutHash"), 7, "GPUPool p cannot be read: spec.layoutHash must be"),
        (NODES, ("metadata", "labels"), ["x"], "Node p0 cannot be read: metadata.labels must be"),
        (
            NODES,
            ("metadata", "creationTimestamp"),
            "9999-12-31T23:59:59-23:59",
            "Node p0 cannot be read: metadata.creationTimestamp must be a time",
        ),
        (
            REPORTS,
            ("report", "time"),
            "the day before",
            "GPUNodeReport p0 cannot be read: report.time must be a time such as 2026-11-27T",
        ),
        (REPORTS, ("report",), None, "GPUNodeReport p0 cannot be read: report is missing"),
        (PODS, ("metadata", "uid"), {}, "Pod ai/a cannot be read: metadata.uid must be text"),
        (
            BUDGETS,
            ("status", "disruptionsAllowed"),
            "1",
            "PodDisruptionBudget ai/infer cannot be read: status.disruptionsAllowed must be a",
        ),
    ],
)
def test_a_malformed_object_is_named_with_the_reason_and_exits_with_3(
    path: str, way: tuple[str, ...], value: Any, named: str
) -> None:
    server = Server()
    whole = server.items[path][0]
    server.items[path][0] = replaced(whole, way, value)
    fleet = _fleet(server)
    assert f"unread: {named}" in _shown(fleet)
    assert exit_code(fleet) == CANNOT_RUN
    assert "pool q" in _shown(fleet)
    (unread,) = as_json(fleet, context="c", server="s", now=NOW)["unread"]
    assert unread["kind"] == KINDS[path]
    assert f"{unread['kind']} {unread['name']} cannot be read: {unread['why']}".startswith(named)


@pytest.mark.parametrize("odd", [None, 7, "x", [], nested(9), {}, {"metadata": None}])
def test_an_object_without_a_name_is_named_by_its_position(odd: Any) -> None:
    for path, kind in KINDS.items():
        server = Server()
        server.items[path].insert(0, odd)
        found = server.found()
        (unread,) = found.unread_objects
        assert (unread.kind, unread.name) == (kind, "number 1 of their list, which has no name")
        assert len(found.pools) == 2


def test_an_unreadable_pool_is_not_missing_and_not_changed() -> None:
    server = Server()
    server.items[POOLS][0]["spec"]["expectedNodes"] = {"min": 1}
    fleet = fleet_of(server.found(), {"p", "q"}, NOW)
    assert [pool.name for pool in fleet.pools] == ["q"]
    assert exit_code(fleet) == CANNOT_RUN
    for verb in VERBS:
        with pytest.raises(CannotLook, match=r"GPUPool p cannot be read: spec\.expectedNodes\.max"):
            request_rollout(_access(server), "p", verb)
    assert server.patched == []
    done = request_rollout(_access(server), "q", "pause")
    assert "GPUPool p cannot be read: spec.expectedNodes.max is missing" in done.messages
    assert len(server.patched) == 1


@pytest.mark.parametrize(
    "note",
    ["x", "[" * 100_000, "{}", '{"nodeUid":"p0","phase":"Melting"}', "\ud800"],
)
def test_a_note_that_means_nothing_is_named_and_the_node_is_shown(note: str) -> None:
    server = Server()
    server.items[NODES][0]["metadata"]["annotations"][CHANGE_ANNOTATION] = note
    fleet = _fleet(server)
    assert "node p0" in _shown(fleet)
    assert f"Node p0 cannot be read: its annotation {CHANGE_ANNOTATION} is not" in _shown(fleet)
    server = Server()
    server.items[NODES][0]["metadata"]["annotations"][CHANGE_ANNOTATION] = '{"nodeUid":"earlier"}'
    assert not _fleet(server).unread, "a note of the node that had the name before is none of this"


def test_an_annotation_of_a_rollout_that_means_nothing_is_shown_short() -> None:
    server = Server()
    server.items[POOLS][0]["metadata"]["annotations"][ROLLOUT_ANNOTATION] = "x" * 200_000
    with pytest.raises(Refused, match="which is invalid") as refused:
        request_rollout(_access(server), "p", "pause")
    assert len(str(refused.value)) < 400


def test_many_odd_objects_are_counted_in_text_and_all_named_for_machines() -> None:
    server = Server()
    server.items[REPORTS] = [{"metadata": {"name": f"r{n}"}} for n in range(50)]
    fleet = _fleet(server)
    assert "unread: 40 more objects cannot be read" in _shown(fleet)
    assert len(as_json(fleet, context="c", server="s", now=NOW)["unread"]) == 50


def test_an_odd_deployment_of_the_controller_is_named() -> None:
    server = Server()
    server.deployment = {"status": {"availableReplicas": "two"}}
    found = server.found()
    assert found.controller is None
    (unread,) = found.unread_objects
    assert unread.name == "slicewright-system/fleet-controller"
    assert DEPLOYMENT.endswith("fleet-controller")


@pytest.mark.parametrize(
    "answer", [{"items": {}}, {"items": "x"}, {"items": [], "metadata": []}, {"metadata": 7}]
)
def test_an_answer_that_is_no_list_is_no_answer(answer: Any) -> None:
    server = SimpleNamespace(get=lambda path, **query: answer)
    with pytest.raises(Unreachable, match="is not a list of objects"):
        read(cast("Any", server), pods_of=lambda *known: ())


def test_a_list_that_never_ends_is_left() -> None:
    server = SimpleNamespace(get=lambda *_, **query: {"items": [], "metadata": {"continue": "x"}})
    with pytest.raises(Unreachable, match="without end"):
        read(cast("Any", server), pods_of=lambda *known: ())


@pytest.mark.parametrize(
    ("timestamp", "fits"),
    [
        ("", False),
        ("1969-12-31T23:59:59Z", False),
        ("1970-01-01T00:00:01Z", True),
        ("2099-12-31T23:59:59Z", True),
        ("2100-01-01T00:00:00Z", False),
    ],
)
def test_times_have_the_bounds_of_the_fleet_controller(timestamp: str, fits: bool) -> None:
    """What it reads and acts on is shown; the year of a clock that was never set, too."""
    if fits:
        shapes.moment(timestamp, "report.time")
        assert seconds(timestamp) > 0
        return
    with pytest.raises(shapes.Misfit, match="of the years 1970 to 2099"):
        shapes.moment(timestamp, "report.time")


@pytest.mark.parametrize("key", ["since", "started"])
def test_a_change_without_a_time_is_not_as_the_controller_writes_it(key: str) -> None:
    server = Server()
    place = ("metadata", "annotations", CHANGE_ANNOTATION, key)
    server.items[NODES][0] = replaced(server.items[NODES][0], place, "")
    (unread,) = server.found().unread_objects
    assert "is not as the fleet controller writes it" in unread.why

"""A change of a layout is undone without another stack file, and made again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.gpu_pool.rollout_request import RolloutRequest, read_rollout_request
from slicewright.apis.names import DESIRED_ANNOTATION, MOST_REMEMBERED, REPORTS_AFTER_ANNOTATION
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.fleet_controller.cluster.execute import execute
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.decision.actions import (
    Action,
    ClearReportsAfter,
    EmitEvent,
    RemoveStartupTaint,
    SetDesiredState,
    SetMigConfig,
)
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.membership.release import ReleaseNode
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.known_layouts import (
    LONGEST_DESIRED,
    KnownLayout,
    read_desired_annotation,
    read_layout,
    remembered,
    target_of_undo,
    verified_layouts,
)
from slicewright.fleet_controller.objects.layout_change import Change, change_of
from slicewright.fleet_controller.objects.node import Joined, read_node
from slicewright.fleet_controller.objects.pool import obeying, read_pool
from slicewright.fleet_controller.pools.status import UNDONE
from slicewright.fleet_controller.rollout.change_actions import ApplyLayout, FinishChange
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout_world import START, World, known

UNDO = RolloutRequest(undoes="new").dump()


def world(count: int = 3, **policy: Any) -> World:
    """So many nodes in service, verified with `old`, of which `new` is wanted now."""
    pool = build_pool(
        name="p",
        uid="pool",
        created=START,
        selector={"slicewright.io/pool": "p"},
        layout_hash="",
        mig_config="old",
        policy=RolloutPolicy(**policy),
    )
    made = World(pool, disruptions=99)
    for i in range(count):
        made.make_node(f"n{i}")
    made.passes()
    made.wants("new")
    return made


def minutes(of: World, count: int = 1) -> None:
    for _ in range(count):
        of.now += 60
        of.pods_end()
        for name in of.nodes:
            of.mig_manager_works(name)
            of.agent_reports(name)
        of.passes()


def condition(of: World, kind: str) -> tuple[str, str]:
    (found,) = (c for c in of.pool.status["conditions"] if c["type"] == kind)
    return found["status"], found["reason"]


def message(of: World, kind: str = "Verified") -> str:
    (found,) = (c for c in of.pool.status["conditions"] if c["type"] == kind)
    return str(found["message"])


def layouts(of: World) -> dict[str, str]:
    return dict(of.cut)


def test_in_the_middle_of_a_rollout_its_nodes_go_back_and_no_other_is_touched() -> None:
    of = world()
    while layouts(of)["n0"] == "old":
        minutes(of)
    assert set(layouts(of).values()) == {"old", "new"}
    of.asks(UNDO)
    untouched = [name for name, cut in of.cut.items() if cut == "old" and not of.nodes[name].change]
    assert untouched
    for _ in range(12):
        minutes(of)
        assert not any(of.nodes[name].held or of.nodes[name].change for name in untouched)
    assert set(layouts(of).values()) == {"old"}
    assert not any(n.held or n.unschedulable or n.change for n in of.nodes.values())
    assert condition(of, "Verified") == ("False", UNDONE)
    assert condition(of, "Settled") == ("True", UNDONE)
    assert condition(of, "Progressing")[0] == "False"
    assert condition(of, "Degraded")[0] == "False"
    assert "The stack file still declares new" in message(of)
    assert "slicewright rollout resume p" in message(of)
    assert of.pool.status["layout"] == "old"


def test_a_rollout_that_has_ended_is_undone_under_its_policy() -> None:
    of = world()
    minutes(of, 20)
    assert condition(of, "Verified")[0] == "True"
    of.asks(UNDO)
    for _ in range(20):
        minutes(of)
        assert sum(bool(node.change) for node in of.nodes.values()) <= 1
    assert set(layouts(of).values()) == {"old"}
    assert condition(of, "Verified") == ("False", UNDONE)


def test_undo_of_a_rollout_that_has_not_begun_changes_no_node() -> None:
    of = world()
    of.asks(UNDO)
    seen = []
    for _ in range(5):
        of.now += 60
        for name in of.nodes:
            of.agent_reports(name)
        seen += of.passes().actions
    assert not any(isinstance(action, ApplyLayout) for action in seen)
    assert {a.node for a in seen if isinstance(a, SetDesiredState)} == set(of.nodes)
    assert not any(node.unschedulable or node.held for node in of.nodes.values())
    assert condition(of, "Verified") == ("False", UNDONE)


def test_a_drained_node_goes_back_into_service_as_it_is() -> None:
    of = world(1)
    of.passes()
    assert of.nodes["n0"].unschedulable
    of.asks(UNDO)
    minutes(of, 3)
    assert not of.nodes["n0"].unschedulable
    assert of.nodes["n0"].labels[CONFIG] == "old"
    assert condition(of, "Settled") == ("True", UNDONE)


def test_resume_changes_forward_again() -> None:
    of = world()
    minutes(of, 5)
    of.asks(UNDO)
    minutes(of, 20)
    of.asks("")
    minutes(of, 20)
    assert set(layouts(of).values()) == {"new"}
    assert condition(of, "Verified")[0] == "True"
    assert not any(node.desired_state_annotation for node in of.nodes.values()), (
        "they go by their file again"
    )


def test_undo_ends_when_the_stack_file_declares_the_old_layout() -> None:
    of = world()
    minutes(of, 20)
    of.asks(UNDO)
    minutes(of, 20)
    of.wants("old")
    minutes(of, 3)
    assert set(layouts(of).values()) == {"old"}
    assert condition(of, "Verified")[0] == "True"
    assert not any(node.desired_state_annotation for node in of.nodes.values())


@pytest.mark.parametrize("suspended", ["", "paused"])
def test_one_that_has_ended_does_not_undo_the_next_try_of_the_same_layout(suspended: str) -> None:
    """Undone, the old layout in the stack file, and when the cause is mended the new one again."""
    of = world()
    minutes(of, 20)
    of.asks(UNDO)
    minutes(of, 20)
    of.asks(RolloutRequest(undoes="new", suspended=suspended).dump())
    of.wants("old")
    of.passes()
    assert of.asked == suspended, "what else is asked stays"
    of.asks("")
    minutes(of, 3)
    of.wants("new")
    minutes(of, 20)
    assert set(layouts(of).values()) == {"new"}
    assert condition(of, "Verified")[0] == "True"


def test_undo_ends_when_the_stack_file_declares_a_third_layout() -> None:
    of = world()
    of.asks(UNDO)
    minutes(of, 3)
    of.wants("other")
    minutes(of, 20)
    assert set(layouts(of).values()) == {"other"}
    assert condition(of, "Verified")[0] == "True"


def test_a_failed_canary_is_taken_back() -> None:
    of = world(3)
    of.wants("bad")
    minutes(of, 8)
    assert condition(of, "Degraded")[0] == "True"
    of.asks("undo:bad")
    minutes(of, 6)
    assert set(layouts(of).values()) == {"old"}
    assert condition(of, "Verified") == ("False", UNDONE)
    assert condition(of, "Degraded")[0] == "False"


def test_undo_goes_back_to_the_last_verified_layout() -> None:
    of = world(1)
    of.wants("bad")
    minutes(of, 6)
    of.wants("other")
    of.asks("undo:other")
    minutes(of, 6)
    assert layouts(of) == {"n0": "old"}


def test_a_node_that_joins_gets_the_earlier_layout_at_once() -> None:
    of = world(2)
    of.asks(UNDO)
    minutes(of, 3)
    of.make_node("late", in_service=False)
    minutes(of, 5)
    assert of.cut["late"] == "old"
    assert not of.nodes["late"].held
    assert condition(of, "Verified") == ("False", UNDONE)


def test_an_undo_can_be_paused_and_resumed() -> None:
    of = world(3)
    minutes(of, 20)
    of.asks(RolloutRequest(undoes="new", suspended="paused").dump())
    minutes(of, 5)
    assert set(layouts(of).values()) == {"new"}
    assert condition(of, "Verified") == ("False", "RolloutPaused")
    assert "slicewright rollout resume p" in message(of)
    of.asks(UNDO)
    minutes(of, 20)
    assert set(layouts(of).values()) == {"old"}


def test_on_the_way_back_the_status_says_so() -> None:
    of = world(3)
    minutes(of, 20)
    of.asks(UNDO)
    minutes(of, 2)
    assert condition(of, "Progressing") == ("True", "RollingOut")
    assert condition(of, "Settled")[0] == "False"
    assert "have layout old, to which the change to new is undone" in message(of)


def test_one_that_cannot_be_pauses_the_rollout_and_says_why() -> None:
    of = world(2)
    of.pool = replace(of.pool, status={**of.pool.status, "provenLayouts": []})
    of.asks(UNDO)
    events = [a for a in of.passes().actions if isinstance(a, EmitEvent)]
    assert [a.reason for a in events] == ["UndoNotPossible"]
    assert "verified with no layout other than new" in events[0].message
    minutes(of, 3)
    assert set(layouts(of).values()) == {"old"}
    assert condition(of, "Verified") == ("False", "RolloutPaused")


@pytest.mark.parametrize(
    ("written", "at"),
    [("2027-01-15T08:00:00Z", START), (None, 0.0), ("", 0.0), ("soon", 0.0)],
)
def test_what_cannot_be_read_makes_no_report_outdated(written: str | None, at: float) -> None:
    notes = {} if written is None else {REPORTS_AFTER_ANNOTATION: written}
    node = read_node({"metadata": {"name": "n", "uid": "u", "annotations": notes}})
    assert node.reports_after == at


class TestWhatIsWritten:
    """On the Node, for its agent."""

    def written(self, action: Action) -> dict[str, Any]:
        patches = []

        class Api:
            def patch(self, path: str, patch: dict[str, Any], *, kind: str) -> dict[str, Any]:
                assert (path, kind) == ("/api/v1/nodes/n0", "merge")
                patches.append(patch)
                return {}

        class Nodes:
            def put(self, node: dict[str, Any]) -> None: ...

        cluster = SimpleNamespace(client=Api(), nodes=Nodes())
        execute(cast(Cluster, cluster), action)
        (patch,) = patches
        found: dict[str, Any] = patch["metadata"]
        return found

    @pytest.mark.parametrize("fresh", [False, True])
    def test_with_the_label_in_one_patch(self, fresh: bool) -> None:
        told = {"desired_state_annotation": "{}", "reports_after": START}
        change = Change(
            node_uid="u", target="old", phase="Applying", since=START, started=START, cordoned=True
        )
        action: Action = (
            SetMigConfig(node="n0", version="7", value="old", **told)  # type: ignore[arg-type]
            if fresh
            else ApplyLayout(node="n0", version="7", change=change, **told)  # type: ignore[arg-type]
        )
        found = self.written(action)
        assert found["resourceVersion"] == "7"
        assert found["labels"] == {CONFIG: "old", STATE: None}
        assert found["annotations"].items() >= {
            (DESIRED_ANNOTATION, "{}"),
            (REPORTS_AFTER_ANNOTATION, stamp(START)),
        }

    def test_the_desired_state_of_an_undo_is_removed_with_the_label_of_the_declared_layout(
        self,
    ) -> None:
        found = self.written(SetMigConfig(node="n0", version="7", value="new"))
        assert found["annotations"] == {DESIRED_ANNOTATION: None, REPORTS_AFTER_ANNOTATION: None}

    @pytest.mark.parametrize("verified_at", [None, START])
    def test_reports_of_every_time_count_again_when_a_change_has_ended_well(
        self, verified_at: float | None
    ) -> None:
        action = FinishChange(node="n0", version="7", uncordon=False, verified_at=verified_at)
        found = self.written(action)
        assert found["resourceVersion"] == "7"
        removed = (REPORTS_AFTER_ANNOTATION, None) in found["annotations"].items()
        assert removed is (verified_at is not None)

    def test_the_note_of_a_verified_node_is_removed_only_if_it_has_not_changed(self) -> None:
        found = self.written(ClearReportsAfter(node="n0", version="7"))
        notes = {REPORTS_AFTER_ANNOTATION: None}
        assert found == {"resourceVersion": "7", "annotations": notes}

    @pytest.mark.parametrize(("told", "value"), [("{}", "{}"), ("", None)])
    def test_alone_where_the_node_has_its_label_already(self, told: str, value: str | None) -> None:
        found = self.written(SetDesiredState(node="n0", desired_state_annotation=told))
        assert found == {"annotations": {DESIRED_ANNOTATION: value}}


class TestStaleReports:
    """A match that is of before the change, and back, proves nothing."""

    def back_and_not_yet_cut(self) -> World:
        """mig-manager has read `new`, and makes it though the label says `old` again; since the
        match with `old` of before all this, the agent has been silent.
        """
        of = world(1)
        of.asks(UNDO)
        minutes(of, 2)
        of.asks("")
        while of.nodes["n0"].labels[CONFIG] == "old":
            of.passes()
        of.mig_manager_takes_up("n0")
        of.asks(UNDO)
        while of.nodes["n0"].labels[CONFIG] == "new":
            of.passes()
        of.mig_manager_works("n0")
        of.mig_manager_works("n0")
        assert of.nodes["n0"].labels[CONFIG] == "old"
        assert of.nodes["n0"].labels[STATE] == "success", "of the layout that it had read"
        assert of.cut["n0"] == "new"
        assert of.reports["n0"].verdict == "Match"
        assert of.reports["n0"].layout_hash == of.pool.layout_hash
        return of

    def test_it_releases_nothing(self) -> None:
        of = self.back_and_not_yet_cut()
        of.now += 30
        for _ in range(4):
            decision = of.passes()
            assert not any(isinstance(action, RemoveStartupTaint) for action in decision.actions)
        said = of.nodes["n0"].condition
        assert said is not None
        assert (said.status, said.reason) == ("Unknown", "ReportFromEarlierLayout")
        assert change_of(of.nodes["n0"]) is not None

    def test_a_later_one_counts(self) -> None:
        of = self.back_and_not_yet_cut()
        minutes(of, 4)
        assert of.cut["n0"] == "old"
        assert condition(of, "Verified") == ("False", UNDONE)
        assert of.nodes["n0"].reports_after == 0, "the note has served"

    def test_one_with_the_file_of_the_declared_layout_is_of_another_layout(self) -> None:
        of = world(1)
        of.asks(UNDO)
        of.agent_reports("n0")  # it has not been told yet
        of.passes()
        said = of.nodes["n0"].condition
        assert said is not None
        assert (said.status, said.reason) == ("Unknown", "ReportOfAnotherLayout")
        assert not of.nodes["n0"].held, "it is in service, and nothing was found wrong"


def test_a_node_that_leaves_its_pool_loses_the_desired_state_for_its_agent() -> None:
    node = replace(
        world(1).nodes["n0"],
        joined=Joined(pool="p", labels={}),
        labels={},
        desired_state_annotation="{}",
        reports_after=START,
        condition=None,
    )
    pool = replace(world(1).pool, brings={})
    released = decide([pool], [node], {}, {}, {}, START).actions
    (action,) = (a for a in released if isinstance(a, ReleaseNode))
    assert {DESIRED_ANNOTATION, REPORTS_AFTER_ANNOTATION} <= set(action.annotations)


class TestWhatIsAsked:
    @pytest.mark.parametrize(
        ("text", "meaning"),
        [
            ("", RolloutRequest()),
            ("paused", RolloutRequest(suspended="paused")),
            ("aborted", RolloutRequest(suspended="aborted")),
            ("undo:all-1g.5gb", RolloutRequest(undoes="all-1g.5gb")),
            ("undo:all-1g.5gb,paused", RolloutRequest(undoes="all-1g.5gb", suspended="paused")),
        ],
    )
    def test_it_is_read_and_written(self, text: str, meaning: RolloutRequest) -> None:
        assert read_rollout_request(text) == meaning
        assert meaning.dump() == text

    @pytest.mark.parametrize(
        "text", ["undo", "undo:", "pause", "paused,paused", "undo:a,b", "undo:a,", "paused,undo:a"]
    )
    def test_anything_else_means_nothing(self, text: str) -> None:
        assert read_rollout_request(text) is None


class TestWhatIsRemembered:
    def test_the_last_verified_layouts_each_once(self) -> None:
        status: dict[str, Any] = {}
        for name in ("a", "b", "c", "b", "d"):
            status = {"provenLayouts": remembered(known(name), status, verified=True)}
        assert [one.mig_config for one in verified_layouts(status)] == ["d", "b", "c"]
        assert len(status["provenLayouts"]) == MOST_REMEMBERED

    def test_one_that_is_not_verified_is_not_remembered(self) -> None:
        status = {"provenLayouts": remembered(known("a"), {}, verified=True)}
        assert remembered(known("b"), status, verified=False) == status["provenLayouts"]

    def test_a_pool_without_nodes_has_proven_nothing(self) -> None:
        of = world(0)
        of.pool = replace(of.pool, fewest=0, status={})
        of.passes()
        assert condition(of, "Verified")[0] == "True"
        assert "provenLayouts" not in of.pool.status

    def test_a_text_that_is_not_the_one_that_was_hashed_is_not_believed(self) -> None:
        (entry,) = remembered(known("a"), {}, verified=True)
        forged = {**entry, "desiredState": known("b").desired}
        assert read_layout(entry) == known("a")
        assert read_layout(forged) is None
        assert verified_layouts({"provenLayouts": [forged]}) == ()

    @pytest.mark.parametrize("missing", ["migConfig", "layoutHash", "desiredState"])
    def test_what_is_incomplete_is_not_believed(self, missing: str) -> None:
        (entry,) = remembered(known("a"), {}, verified=True)
        assert read_layout({k: v for k, v in entry.items() if k != missing}) is None

    def test_pool_of_an_older_program_has_no_layout_to_remember(self) -> None:
        older = KnownLayout(mig_config="a", layout_hash="a" * 64, desired="")
        assert remembered(older, {}, verified=True) == []

    def test_pool_without_a_layout_is_not_remembered(self) -> None:
        assert remembered(None, {}, verified=True) == []

    @pytest.mark.parametrize("name", ["", 7])
    def test_what_has_no_name_is_no_layout(self, name: object) -> None:
        (entry,) = remembered(known("a"), {}, verified=True)
        assert read_layout({**entry, "migConfig": name}) is None


class TestTheTarget:
    STATUS: dict[str, Any] = {  # noqa: RUF012
        "provenLayouts": remembered(
            known("b"),
            {"provenLayouts": remembered(known("a"), {}, verified=True)},
            verified=True,
        )
    }

    def test_it_is_the_last_that_is_not_declared(self) -> None:
        assert target_of_undo(known("c"), self.STATUS) == known("b")
        assert target_of_undo(known("b"), self.STATUS) == known("a")

    def test_native_pools_have_none(self) -> None:
        assert "another layout needs new nodes" in str(target_of_undo(None, {}))

    def test_with_one_known_layout_there_is_none(self) -> None:
        status = {"provenLayouts": remembered(known("a"), {}, verified=True)}
        assert "verified with no layout other than a" in str(target_of_undo(known("a"), status))

    def test_undo_is_refused_with_the_keys_that_changed_besides_the_partitions(self) -> None:
        shared = replace(known("c"), desired='{"pool": "p", "gpus": "c", "sharing": [1]}')
        why = str(target_of_undo(shared, self.STATUS))
        assert "has changed more than the partitions (sharing)" in why

    @pytest.mark.parametrize("key", ["gpus", "resources", "labels", "minimum_driver"])
    def test_what_follows_from_the_partitions_may_differ(self, key: str) -> None:
        declared = replace(known("c"), desired=json.dumps({"pool": "p", "gpus": "b", key: "new"}))
        assert target_of_undo(declared, self.STATUS) == known("b")

    def test_what_has_changed_is_named_in_the_order_of_the_alphabet(self) -> None:
        keys = ("sharing", "cdi", "timeout", "agent", "mode", "health")
        declared = replace(
            known("c"), desired=json.dumps({"pool": "p", "gpus": "c", **dict.fromkeys(keys, 1)})
        )
        why = str(target_of_undo(declared, self.STATUS))
        assert f"({', '.join(sorted(keys))})" in why

    def test_undo_is_refused_if_the_declared_state_is_missing(self) -> None:
        why = str(target_of_undo(replace(known("c"), desired=""), self.STATUS))
        assert "has changed more than the partitions (pool)" in why


def test_what_a_pool_asks_for_is_read_from_its_annotation_and_status() -> None:
    now, then = known("new"), known("old")
    raw = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "annotations": {"slicewright.io/rollout": "undo:new"},
        },
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "layoutHash": now.layout_hash,
            "desiredState": now.desired,
            "migConfig": "new",
            "expectedNodes": {"min": 1},
        },
        "status": {"provenLayouts": remembered(then, {}, verified=True)},
    }
    pool = read_pool(raw)
    assert pool.undone
    assert (pool.mig_config, pool.layout_hash, pool.desired_state_annotation) == (
        "old",
        then.layout_hash,
        then.desired,
    )
    assert pool.declared == now
    as_declared = obeying(pool, "")
    assert not as_declared.undone
    assert (as_declared.mig_config, as_declared.layout_hash) == ("new", now.layout_hash)
    assert as_declared.desired_state_annotation == ""


def test_an_undo_of_a_native_pool_says_that_it_cannot_be() -> None:
    raw = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "annotations": {"slicewright.io/rollout": "undo:3g.20gb"},
        },
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "layoutHash": "a" * 64,
            "expectedNodes": {"min": 1},
        },
    }
    pool = read_pool(raw)
    assert "another layout needs new nodes" in pool.no_undo
    assert not pool.undone


class TestLongDesiredStates:
    @pytest.mark.parametrize("told", ["", "{}", "x" * LONGEST_DESIRED])
    def test_one_as_long_as_a_pools_is_read_as_it_is(self, told: str) -> None:
        assert read_desired_annotation(told) == told

    def test_a_longer_one_is_bounded_and_stays_different(self) -> None:
        long = read_desired_annotation("x" * 200_000)
        assert len(long) < 80
        assert long != read_desired_annotation("x" * 199_999 + "\ud800")
        assert read_desired_annotation(None) == ""

    def test_one_on_a_node_is_bounded_where_it_is_read(self) -> None:
        notes = {DESIRED_ANNOTATION: "x" * 200_000}
        raw = {"metadata": {"name": "n0", "uid": "u", "annotations": notes}, "status": {}}
        assert 0 < len(read_node(raw).desired_state_annotation) < 80

    @pytest.mark.parametrize(("more", "readable"), [(0, True), (1, False)])
    def test_one_in_the_status_of_a_pool_is_not_known(self, more: int, readable: bool) -> None:
        """Else it would be written to its nodes, and read there as another, for ever."""
        text = '{"a":"' + "x" * (LONGEST_DESIRED - 8 + more) + '"}'
        digest = hashlib.sha256(text.encode()).hexdigest()
        raw = {"migConfig": "old", "layoutHash": digest, "desiredState": text}
        assert (read_layout(raw) is not None) is readable

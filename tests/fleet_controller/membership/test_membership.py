"""Existing nodes: which pool they join, and what they are brought."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.names import JOINED_ANNOTATION, POOL_LABEL
from slicewright.fleet_controller.decision.actions import SetNodeCondition
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.membership.membership import JoinNode, joining, memberships
from slicewright.fleet_controller.objects.node import BroughtLabel, Joined, Node, read_node
from slicewright.fleet_controller.objects.pool import Pool
from tests.fleet_controller.builders import build_pool
from tests.properties import examples

POOL = build_pool(name="p", created=0.0, fewest=0, mig_config=None)
NODE = read_node({"metadata": {"name": "n", "uid": "u"}})
PLUGIN = "nvidia.com/device-plugin.config"


@pytest.fixture
def existing(pool: Pool) -> Pool:
    return replace(pool, selector={"rack": "7"}, brings={POOL_LABEL: pool.name, PLUGIN: "halves"})


@pytest.fixture
def found(node: Node) -> Node:
    """A node that nobody has prepared."""
    return replace(node, labels={"rack": "7"}, taint_keys=())


def done(node: Node, action: JoinNode) -> Node:
    """The node after the action."""
    labels = {**node.labels, **action.labels}
    return replace(
        node,
        labels={key: value for key, value in labels.items() if value is not None},
        joined=action.joined,
    )


def joined(node: Node, pool: Pool) -> Node:
    action = joining(node, pool)
    assert action is not None
    return done(node, action)


def test_a_selected_node_gets_the_labels_of_its_pool(existing: Pool, found: Node) -> None:
    (action,) = [
        a for a in decide([existing], [found], {}, {}, {}, 0.0).actions if isinstance(a, JoinNode)
    ]
    assert action == JoinNode(
        node="n1",
        version="100",
        labels={POOL_LABEL: "halves", PLUGIN: "halves"},
        joined=Joined(
            pool="halves",
            labels={
                POOL_LABEL: BroughtLabel(value="halves", before=None),
                PLUGIN: BroughtLabel(value="halves", before=None),
            },
        ),
    )


def test_nothing_else_is_done_to_a_node_before_it_is_noted_there(
    existing: Pool, found: Node
) -> None:
    """Nor does it keep the others waiting; one that is noted gets what it lacks at once."""
    noted = joined(replace(found, name="n2", uid="u2"), existing)
    changed = replace(noted, labels={**noted.labels, PLUGIN: "mine"})
    done = decide([existing], [found, changed], {}, {}, {}, 0.0).actions
    of_nodes = [(type(a), a.node) for a in done if isinstance(a, JoinNode | SetNodeCondition)]
    assert of_nodes == [(JoinNode, "n1"), (JoinNode, "n2"), (SetNodeCondition, "n2")]


def test_a_node_that_has_its_labels_is_left_alone(existing: Pool, found: Node) -> None:
    assert joining(joined(found, existing), existing) is None


def test_a_node_that_is_not_selected_gets_nothing(existing: Pool, found: Node) -> None:
    other = replace(found, labels={"rack": "8"})
    assert not [
        a for a in decide([existing], [other], {}, {}, {}, 0.0).actions if isinstance(a, JoinNode)
    ]


def test_nodes_of_a_cloud_pool_bring_their_own_labels(pool: Pool, node: Node) -> None:
    assert joining(node, pool) is None


def test_a_label_that_was_there_is_not_noted_as_brought(existing: Pool, found: Node) -> None:
    mine = replace(found, labels={"rack": "7", POOL_LABEL: "halves", PLUGIN: "other"})
    action = joining(mine, existing)
    assert action is not None
    assert action.labels == {PLUGIN: "halves"}
    assert action.joined.labels == {PLUGIN: BroughtLabel(value="halves", before="other")}


def test_a_node_without_any_missing_label_is_noted_as_joined(existing: Pool, found: Node) -> None:
    mine = replace(found, labels={"rack": "7", POOL_LABEL: "halves", PLUGIN: "halves"})
    action = joining(mine, existing)
    assert action is not None
    assert (action.labels, action.joined.labels) == ({}, {})


def test_a_label_changed_by_hand_is_set_again_and_its_first_value_kept(
    existing: Pool, found: Node
) -> None:
    before = joined(replace(found, labels={"rack": "7", PLUGIN: "other"}), existing)
    action = joining(replace(before, labels={**before.labels, PLUGIN: "mine"}), existing)
    assert action is not None
    assert action.labels == {PLUGIN: "halves"}
    assert action.joined == before.joined


def test_a_label_that_the_pool_no_longer_brings_gets_its_first_value_back(
    existing: Pool, found: Node
) -> None:
    before = joined(replace(found, labels={"rack": "7", PLUGIN: "other"}), existing)
    action = joining(before, replace(existing, brings={POOL_LABEL: "halves"}))
    assert action is not None
    assert action.labels == {PLUGIN: "other"}
    assert set(action.joined.labels) == {POOL_LABEL}


def test_a_label_that_somebody_has_changed_since_is_not_taken_back(
    existing: Pool, found: Node
) -> None:
    before = joined(found, existing)
    changed = replace(before, labels={**before.labels, PLUGIN: "theirs"})
    action = joining(changed, replace(existing, brings={POOL_LABEL: "halves"}))
    assert action is not None
    assert action.labels == {}


def test_a_pool_that_comes_later_takes_no_node_from_another(existing: Pool, found: Node) -> None:
    first = replace(existing, name="aaa", uid="u", brings={POOL_LABEL: "aaa"})
    member = joined(found, existing)
    assert [
        (p.name, [n.name for n in nodes]) for p, nodes in memberships([existing, first], [member])
    ] == [
        ("aaa", []),
        ("halves", ["n1"]),
    ]


def test_a_node_that_its_pool_no_longer_selects_joins_another(existing: Pool, found: Node) -> None:
    other = replace(
        existing, name="rack8", uid="u", selector={"rack": "8"}, brings={POOL_LABEL: "rack8"}
    )
    member = joined(found, existing)
    moved = replace(member, labels={**member.labels, "rack": "8"})
    ((_, left), (_, got)) = memberships([existing, other], [moved])
    assert (left, [n.name for n in got]) == ([], ["n1"])
    action = joining(moved, other)
    assert action is not None
    assert action.labels == {POOL_LABEL: "rack8", PLUGIN: None}


_pools = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(
        st.dictionaries(
            st.sampled_from([POOL_LABEL, "rack"]), st.sampled_from("abc7"), min_size=1, max_size=2
        ),
        st.booleans(),
    ),
)
_labels = st.dictionaries(st.sampled_from([POOL_LABEL, "rack"]), st.sampled_from("abc7"))


@settings(max_examples=examples(300))
@given(pools=_pools, labels=_labels)
def test_a_node_is_in_the_pool_of_its_label_if_that_selects_it_else_in_the_first_that_does(
    pools: dict[str, tuple[dict[str, str], bool]], labels: dict[str, str]
) -> None:
    made = [
        replace(POOL, name=name, selector=selector, leaving=leaving)
        for name, (selector, leaving) in pools.items()
    ]
    node = replace(NODE, labels=labels)
    able = sorted(pool.name for pool in made if not pool.leaving and pool.selects(node))
    named = labels.get(POOL_LABEL)
    wanted = [named] if named in able else able[:1]
    assert [pool.name for pool, nodes in memberships(made, [node]) if nodes] == wanted


def test_a_pool_that_is_being_deleted_has_no_nodes_and_is_not_listed(
    existing: Pool, found: Node
) -> None:
    going = replace(existing, name="aaa", uid="u", leaving=True)
    assert memberships([going, existing], [found]) == [(existing, [found])]
    assert memberships([going], [found]) == []


def test_nodes_are_listed_by_name_without_those_that_are_being_deleted(
    existing: Pool, found: Node
) -> None:
    first, last = (replace(found, name=name, uid=name) for name in ("a", "z"))
    gone = replace(found, name="b", uid="b", leaving=True)
    assert memberships([existing], [last, gone, first]) == [(existing, [first, last])]


def test_a_node_of_no_pool_blocks_nothing(existing: Pool, found: Node) -> None:
    foreign = replace(found, name="a", uid="a", labels={"rack": "8"})
    assert memberships([existing], [foreign, found]) == [(existing, [found])]


def raw(annotations: Mapping[str, str]) -> dict[str, object]:
    return {"metadata": {"name": "n1", "uid": "u", "annotations": annotations}}


def test_written_membership_annotation_is_read_back(existing: Pool, found: Node) -> None:
    note = joined(replace(found, labels={"rack": "7", PLUGIN: "other"}), existing).joined
    assert note is not None
    assert read_node(raw({JOINED_ANNOTATION: note.dump()})).joined == note


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"pool":"a","labels":[]}', '{"pool":"a","labels":{"k":1}}', "[" * 9999],
)
def test_an_unreadable_note_hides_no_node(text: str) -> None:
    node = read_node(raw({JOINED_ANNOTATION: text}))
    assert (node.name, node.joined) == ("n1", None)


def test_a_forged_note_sets_no_layout(existing: Pool, found: Node) -> None:
    """Whoever may annotate a node before it joins must not get past the guard of this label."""
    label = "nvidia.com/mig.config"
    note = json.dumps(
        {"pool": "halves", "labels": {label: {"value": "x", "before": "all-7g.80gb"}}}
    )
    forged = read_node(raw({JOINED_ANNOTATION: note})).joined
    action = joining(replace(found, labels={"rack": "7", label: "x"}, joined=forged), existing)
    assert action is not None
    assert label not in action.labels

"""How existing nodes leave a pool: what is taken back, in which order, and what it waits for."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.apis import names
from slicewright.apis.label_keys import may_be_brought
from slicewright.apis.names import (
    GPU_PODS_ANNOTATION,
    JOINED_ANNOTATION,
    POOL_LABEL,
    RELEASE_FINALIZER,
    STARTUP_TAINT_KEY,
    VERIFIED_BOOT_ANNOTATION,
)
from slicewright.fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    EmitEvent,
    SetMigConfig,
)
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.decision.inspection import to_inspect
from slicewright.fleet_controller.membership.membership import JoinNode, joining, keys_of
from slicewright.fleet_controller.membership.release import (
    ClearNodeCondition,
    ReleaseNode,
    RemoveFinalizer,
)
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import BroughtLabel, Joined, Node, read_node
from slicewright.fleet_controller.objects.pool import Pool
from tests.fleet_controller.builders import build_node, build_pool
from tests.fleet_controller.kubernetes_objects import bare

PLUGIN = "nvidia.com/device-plugin.config"
MIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"


@pytest.fixture
def existing(pool: Pool) -> Pool:
    return replace(
        pool,
        selector={"rack": "7"},
        brings={POOL_LABEL: pool.name, PLUGIN: "halves"},
        version="50",
        finalizers=("other/one", RELEASE_FINALIZER),
    )


@pytest.fixture
def member(node: Node) -> Node:
    """Verified, with everything that a member has been brought."""
    return replace(
        node,
        labels={"rack": "7", POOL_LABEL: "halves", PLUGIN: "halves"},
        verified_boot="b1",
        taint_keys=("mine", STARTUP_TAINT_KEY),
        condition=Condition(status="True", reason="R", message="", changed=1, written=1),
        joined=Joined(
            pool="halves",
            labels={
                POOL_LABEL: BroughtLabel(value="halves", before=None),
                PLUGIN: BroughtLabel(value="halves", before="theirs"),
            },
        ),
    )


def deleted(pool: Pool) -> Pool:
    return replace(pool, leaving=True)


def disabling(pool: Pool) -> Pool:
    return replace(deleted(pool), disables_mig=True, mig_config="all-3g.40gb")


def labelled(node: Node, **labels: str) -> Node:
    names = {"config": MIG, "state": STATE}
    return replace(node, labels={**node.labels, **{names[k]: v for k, v in labels.items()}})


def actions(
    pools: Iterable[Pool], node: Node, pods: tuple[str, ...] | None = ()
) -> tuple[Action, ...]:
    known = {} if pods is None else {node.name: tuple(map(bare, pods))}
    return decide(list(pools), [node], {}, known, {}, 0.0).actions


def test_first_the_condition_goes_and_then_the_rest(existing: Pool, member: Node) -> None:
    pool = deleted(existing)
    assert actions([pool], member) == (ClearNodeCondition(node="n1"),)
    assert actions([pool], replace(member, condition=None)) == (
        ReleaseNode(
            node="n1",
            version="100",
            labels={POOL_LABEL: None, PLUGIN: "theirs"},
            annotations=(VERIFIED_BOOT_ANNOTATION, JOINED_ANNOTATION),
            taints=(1,),
        ),
    )


def test_the_note_on_pods_with_gpus_goes_too(existing: Pool, member: Node) -> None:
    noted = replace(member, condition=None, gpu_pods="2")
    (release,) = actions([deleted(existing)], noted)
    assert isinstance(release, ReleaseNode)
    assert GPU_PODS_ANNOTATION in release.annotations


def test_every_annotation_of_the_controller_is_removed(existing: Pool, member: Node) -> None:
    """A rollout's is on its pool, and a layout change ends before the node leaves."""
    elsewhere = {names.ROLLOUT_ANNOTATION, names.CHANGE_ANNOTATION}
    written = {
        annotation for name, annotation in vars(names).items() if name.endswith("_ANNOTATION")
    }
    noted = replace(
        member,
        condition=None,
        verified_boot="b1",
        verified_layout="all-3g.40gb",
        gpu_pods="2",
        pod_proof="k1",
        stuck="{}",
        desired_state_annotation="{}",
        reports_after=1.0,
        scheduler_start=1.0,
        changed_at=1.0,
    )
    (release,) = actions([deleted(existing)], noted)
    assert isinstance(release, ReleaseNode)
    assert set(release.annotations) == written - elsewhere


def test_the_pool_goes_when_its_nodes_have_left(existing: Pool, member: Node) -> None:
    left = replace(member, joined=None, condition=None)
    assert actions([deleted(existing)], left) == (
        RemoveFinalizer(pool="halves", version="50", finalizers=("other/one",)),
    )


def test_a_pool_that_is_not_being_deleted_is_not_let_go(existing: Pool) -> None:
    decision = decide([existing], [], {}, {}, {}, 0.0)
    assert not [a for a in decision.actions if isinstance(a, RemoveFinalizer)]


def test_a_finalizer_of_others_is_left_alone(existing: Pool) -> None:
    theirs = replace(deleted(existing), finalizers=("other/one",))
    assert decide([theirs], [], {}, {}, {}, 0.0).actions == ()


def test_a_node_that_is_no_longer_selected_is_released_from_a_living_pool(
    existing: Pool, member: Node
) -> None:
    moved = replace(member, labels={**member.labels, "rack": "8"}, condition=None)
    assert [a for a in actions([existing], moved) if isinstance(a, ReleaseNode)]


def test_a_node_whose_pool_has_gone_without_waiting_is_released(member: Node) -> None:
    assert [type(a) for a in actions([], replace(member, condition=None))] == [ReleaseNode]


def test_a_node_that_joins_another_pool_is_not_released(existing: Pool, member: Node) -> None:
    other = replace(existing, name="next", uid="u", brings={POOL_LABEL: "next"})
    done = actions([deleted(existing), other], member)
    assert not [a for a in done if isinstance(a, ReleaseNode | ClearNodeCondition)]
    (join,) = [a for a in done if isinstance(a, JoinNode)]
    assert join.labels == {POOL_LABEL: "next", PLUGIN: "theirs"}


def test_the_nodes_of_a_cloud_pool_keep_everything(pool: Pool, node: Node) -> None:
    """They are deleted with their pool; released, they would take pods before that."""
    assert actions([], node) == ()
    assert actions([deleted(pool)], node) == ()


def test_a_node_that_is_being_deleted_is_not_waited_for(existing: Pool, member: Node) -> None:
    gone = replace(member, leaving=True)
    assert [type(a) for a in actions([deleted(existing)], gone)] == [RemoveFinalizer]


def test_the_layout_stays_by_default_with_its_label(existing: Pool, member: Node) -> None:
    pool = replace(deleted(existing), mig_config="all-3g.40gb")
    cut = replace(labelled(member, config="all-3g.40gb", state="success"), condition=None)
    (release,) = actions([pool], cut)
    assert isinstance(release, ReleaseNode)
    assert not {MIG, STATE} & set(release.labels)


def test_before_mig_is_disabled_the_node_is_held(existing: Pool, member: Node) -> None:
    cut = labelled(replace(member, taint_keys=()), config="all-3g.40gb", state="success")
    (hold,) = actions([disabling(existing)], cut)
    assert isinstance(hold, AddStartupTaint)


def test_mig_is_disabled_on_a_held_node_without_gpu_pods(existing: Pool, member: Node) -> None:
    cut = labelled(member, config="all-3g.40gb", state="success")
    assert actions([disabling(existing)], cut) == (
        SetMigConfig(node="n1", version="100", value="all-disabled"),
    )


@pytest.mark.parametrize(
    ("pods", "said"), [(("a/p", "a/q"), "still running: a/p, a/q"), (None, "not known yet")]
)
def test_release_warns_while_pods_keep_mig_from_being_disabled(
    existing: Pool, member: Node, pods: tuple[str, ...] | None, said: str
) -> None:
    cut = labelled(member, config="all-3g.40gb", state="success")
    (event,) = actions([disabling(existing)], cut, pods)
    assert isinstance(event, EmitEvent)
    assert (event.pool, event.reason) == ("halves", "ReleaseHeldByPods")
    assert said in event.message


def test_first_three_of_many_pods_are_named(existing: Pool, member: Node) -> None:
    cut = labelled(member, config="all-3g.40gb", state="success")
    (event,) = actions([disabling(existing)], cut, ("a/4", "a/2", "a/1", "a/3"))
    assert isinstance(event, EmitEvent)
    assert event.message.endswith("still running: a/1, a/2, a/3")


def test_pods_of_a_departing_node_are_inspected_only_if_mig_is_disabled(
    existing: Pool, member: Node
) -> None:
    cut = labelled(member, config="all-3g.40gb", state="success")
    assert to_inspect([disabling(existing)], [cut], 1_800_000_000.0) == ("n1",)
    assert to_inspect([deleted(existing)], [cut], 1_800_000_000.0) == ()
    assert (
        to_inspect(
            [disabling(existing)], [labelled(member, config="all-disabled")], 1_800_000_000.0
        )
        == ()
    )
    busy = labelled(member, config="all-3g.40gb", state="pending")
    assert to_inspect([disabling(existing)], [busy], 1_800_000_000.0) == ()


def test_they_are_asked_for_by_each_nodes_own_pool(existing: Pool, member: Node) -> None:
    keeps = replace(deleted(existing), name="keeps", uid="k")
    cut = labelled(member, config="all-3g.40gb", state="success")
    nodes = [
        replace(cut, name=f"in-{pool}", uid=pool, joined=Joined(pool=pool, labels={}))
        for pool in ("keeps", "halves", "long-gone")
    ]
    assert to_inspect([keeps, disabling(existing)], nodes, 1_800_000_000.0) == ("in-halves",)


@pytest.mark.parametrize(
    ("config", "state"),
    [
        ("all-3g.40gb", "pending"),
        ("all-3g.40gb", "rebooting"),
        ("all-disabled", "pending"),
        ("all-disabled", "failed"),
        ("all-disabled", None),
    ],
)
def test_a_node_waits_until_mig_manager_has_disabled_mig(
    existing: Pool, member: Node, config: str, state: str | None
) -> None:
    busy = labelled(member, config=config, **({"state": state} if state else {}))
    (event,) = actions([disabling(existing)], busy)
    assert isinstance(event, EmitEvent)
    assert event.reason == "ReleaseWaitsForMigManager"
    assert f"nvidia.com/mig.config.state is {state or 'absent'}. If" in event.message
    command = shlex.split(event.message.partition("let the layout stay: ")[2])
    assert command[:4] == ["kubectl", "patch", "gpupool", "halves"]
    assert json.loads(command[-1]) == {"spec": {"existingNodes": {"migLayoutOnRelease": "Keep"}}}


def test_when_mig_is_disabled_the_node_is_released(existing: Pool, member: Node) -> None:
    done = replace(labelled(member, config="all-disabled", state="success"), condition=None)
    assert [type(a) for a in actions([disabling(existing)], done)] == [ReleaseNode]


def test_mig_is_not_disabled_in_a_pool_without_mig_manager(existing: Pool, member: Node) -> None:
    pool = replace(disabling(existing), mig_config=None)
    done = replace(member, condition=None)
    assert [type(a) for a in actions([pool], done)] == [ReleaseNode]
    theirs = labelled(done, config="all-1g.10gb", state="success")
    assert [type(a) for a in actions([pool], theirs)] == [ReleaseNode]


def test_on_a_node_that_never_got_a_layout_nothing_is_disabled(
    existing: Pool, member: Node
) -> None:
    bare = replace(member, condition=None)
    assert [type(a) for a in actions([disabling(existing)], bare)] == [ReleaseNode]
    assert to_inspect([disabling(existing)], [bare], 1_800_000_000.0) == ()


def test_nodes_leave_and_pools_go_by_name(existing: Pool, member: Node) -> None:
    ready = replace(member, condition=None)
    nodes = [replace(ready, name=name, uid=name) for name in ("z", "a")]
    left = decide([deleted(existing)], nodes, {}, {}, {}, 0.0).actions
    assert [a.node for a in left if isinstance(a, ReleaseNode)] == ["a", "z"]
    pools = [replace(deleted(existing), name=name, uid=name) for name in ("z", "a")]
    gone = decide(pools, [], {}, {}, {}, 0.0).actions
    assert [a.pool for a in gone if isinstance(a, RemoveFinalizer)] == ["a", "z"]


labels = st.dictionaries(st.sampled_from([POOL_LABEL, PLUGIN, "a", "b"]), st.sampled_from("xy"))


@given(before=labels, brings=labels, then=labels)
def test_after_joining_and_leaving_the_labels_are_as_before(
    before: dict[str, str], brings: dict[str, str], then: dict[str, str]
) -> None:
    """Also where the pool brings something else meanwhile: its status remembers the keys."""
    has = dict(before)
    joined = None
    pool = _pool({})
    for brought in (brings, then):
        pool = replace(pool, brings=brought, status={"broughtLabels": list(keys_of(pool))})
        action = joining(_node(has, joined), pool)
        if action:
            joined = action.joined
            has = _applied(has, action.labels)
        assert brought.items() <= has.items()
    left = actions([deleted(pool)], _node(has, joined))
    (release,) = [a for a in left if isinstance(a, ReleaseNode)]
    assert _applied(has, release.labels) == before


FORGED = Joined(
    pool="halves",
    labels={
        "tenant": BroughtLabel(value="a", before="b"),
        POOL_LABEL: BroughtLabel(value="halves", before=None),
    },
)
"""What somebody has written who may annotate nodes."""


@pytest.mark.parametrize("named", ["halves", "long-gone"])
def test_a_forged_note_sets_no_label_that_no_pool_brings(
    existing: Pool, node: Node, named: str
) -> None:
    forged = replace(
        node,
        labels={"tenant": "a", POOL_LABEL: "halves"},
        joined=replace(FORGED, pool=named),
    )
    for pools in ([], [existing], [deleted(existing)]):
        done = [a for a in actions(pools, forged) if isinstance(a, ReleaseNode | JoinNode)]
        assert all("tenant" not in action.labels for action in done)
        assert done, "the note itself goes, and so does the pool's own label"


def test_what_a_pool_has_brought_earlier_is_given_back(existing: Pool, node: Node) -> None:
    """Also by another pool: a node is released when it is in none."""
    noted = replace(node, labels={"tenant": "a"}, joined=replace(FORGED, pool="next"))
    brought = replace(existing, name="next", status={"broughtLabels": ["tenant"]})
    (release,) = [a for a in actions([existing, brought], noted) if isinstance(a, ReleaseNode)]
    assert release.labels == {"tenant": "b"}


@pytest.mark.parametrize(
    "key",
    [
        "node-restriction.kubernetes.io/tenant",
        "kubernetes.io/hostname",
        "topology.k8s.io/zone",
        "k8s.io/x",
        MIG,
        STATE,
    ],
)
def test_no_note_and_no_pool_makes_a_label_of_kubernetes_be_given_back(
    existing: Pool, node: Node, key: str
) -> None:
    note = Joined(pool="halves", labels={key: BroughtLabel(value="a", before="b")}).dump()
    raw = {"metadata": {"name": "n1", "uid": "u", "annotations": {JOINED_ANNOTATION: note}}}
    read = read_node(raw).joined
    assert read is not None
    noted = replace(node, labels={key: "a"}, joined=Joined(pool="halves", labels=read.labels))
    brought = replace(existing, status={"broughtLabels": [key]})
    for pool in (brought, replace(brought, brings={key: "a"})):
        (release,) = [a for a in actions([deleted(pool)], noted) if isinstance(a, ReleaseNode)]
        assert release.labels == {}


@pytest.mark.parametrize("key", ["mykubernetes.io/a", "kubernetes.io.example.com/a", "k8s.io"])
def test_other_domains_are_not_those_of_kubernetes(key: str) -> None:
    assert may_be_brought(key)


def _applied(labels: dict[str, str], changes: object) -> dict[str, str]:
    assert isinstance(changes, dict)
    return {k: v for k, v in {**labels, **changes}.items() if v is not None}


def _node(has: dict[str, str], joined: Joined | None) -> Node:
    return build_node(name="n1", uid="u1", created=0.0, labels=has, joined=joined)


def _pool(brings: dict[str, str]) -> Pool:
    return build_pool(
        name="p",
        created=0.0,
        selector={"rack": "7"},
        layout_hash="a" * 64,
        fewest=0,
        mig_config=None,
        brings=brings,
    )

"""What an agent says of a node that keeps its earlier layout until its turn in a rollout."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import MATCH
from slicewright.fleet_controller.objects.layout_change import Change
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.observed import Observation
from slicewright.node_agent.verdict import layout_change
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.node_agent.verdict.verify import verify

OLD, NEW = "all-1g.10gb", "all-balanced"


@pytest.fixture
def wanted(desired: Desired) -> Desired:
    return replace(desired, partitioner="mig-manager")


@pytest.fixture
def wrong(wanted: Desired, right: Observation, held: NodeState) -> Verdict:
    """GPU 0 has a part of another layout."""
    first, *others = right.gpus
    devices = tuple(
        replace(d, name=d.name.replace("3g.40gb", "1g.10gb"), compute_slices=1, gpu_slices=1)
        for d in first.devices
    )
    found = replace(right, gpus=(replace(first, devices=devices), *others))
    verdict = verify(wanted, found, held)
    assert verdict.reason == "WrongLayout"
    assert "delete its nvidia-mig-manager pod" in verdict.message
    return verdict


@pytest.fixture
def held() -> NodeState:
    """Proven with the old layout, and in service."""
    resources = {"nvidia.com/gpu": 4}
    return NodeState(
        name="n1",
        uid="u1",
        boot_id="b1",
        capacity=resources,
        allocatable=resources,
        mig_state="success",
        mig_config=OLD,
        verified_layout=OLD,
    )


def in_phase(node: NodeState, phase: str, *, uid: str = "u1") -> NodeState:
    change = Change(
        node_uid=uid,
        target=NEW,
        phase=phase,  # type: ignore[arg-type]
        since=1.0,
        started=1.0,
        cordoned=True,
    )
    return replace(node, layout_change=change.dump())


def test_while_its_pods_leave_the_node_waits_and_needs_no_repair(
    wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    for phase in ("Draining", "Paused"):
        said = layout_change.or_pending(wrong, wanted, in_phase(held, phase), "")
        assert (said.verdict, said.reason) == ("Mismatch", "LayoutChangePending")
        assert said.message.startswith("GPU 0 wanted 3g.40gb x2, found 1g.10gb x2: ")
        assert "`slicewright status` says what it waits for" in said.message
        assert "mig-manager pod" not in said.message
        assert not [check for check in said.checks if check.reason == "WrongLayout"]


def test_other_problem_of_a_waiting_node_keeps_its_reason(
    wanted: Desired, right: Observation, held: NodeState, wrong: Verdict
) -> None:
    none = replace(held, capacity={}, allocatable={})
    gpus = (replace(right.gpus[0], devices=()), *right.gpus[1:])
    both = verify(wanted, replace(right, gpus=gpus), none)
    assert [c.reason for c in both.checks if c.reason != MATCH] == [
        "NotPartitioned",
        "ResourcesNotAdvertised",
    ]
    said = layout_change.or_pending(both, wanted, in_phase(none, "Draining"), "")
    assert [(c.reason, c.where, c.observed) for c in said.checks] == [
        ("LayoutChangePending" if c.reason == "NotPartitioned" else c.reason, c.where, c.observed)
        for c in both.checks
    ]
    assert said.message == (
        "GPU 0 wanted 3g.40gb x2, found MIG on without any partition: the node's layout "
        "change waits for other nodes, for its pods to leave, or for a paused rollout; "
        "`slicewright status` says what it waits for."
    )
    assert said.instances == both.instances


def test_a_pending_verdict_fits_into_a_report_and_is_plain_text(
    wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    found = "1g.10gb\x1b[2J" + 1000 * "x"
    long = replace(wrong, checks=tuple(replace(c, observed=found) for c in wrong.checks))
    said = layout_change.or_pending(long, wanted, in_phase(held, "Draining"), "")
    assert (said.reason, len(said.message)) == ("LayoutChangePending", 700)
    assert "1g.10gb\\x1b[2Jx" in said.message


def test_so_does_one_whose_turn_has_not_come(
    wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    assert layout_change.or_pending(wrong, wanted, held, NEW).reason == "LayoutChangePending"


@pytest.mark.parametrize("phase", ["Applying", "Failed"])
def test_difference_after_the_new_layout_is_set_keeps_its_reason(
    phase: str, wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    """A wrongly partitioned canary must stop the rollout."""
    node = in_phase(replace(held, mig_config=NEW), phase)
    assert layout_change.or_pending(wrong, wanted, node, NEW) is wrong


@pytest.mark.parametrize(
    "node",
    [
        {"mig_config": NEW, "verified_layout": NEW},
        # Never proven: it is being set up.
        {"verified_layout": ""},
        {"mig_config": "", "verified_layout": ""},
        # Somebody has changed the label.
        {"mig_config": "all-7g.80gb"},
        # After an undo the agent does not know the name of what it must find.
        {"assigned": "{}"},
        {"layout_change": "nonsense"},
        {"layout_change": json.dumps(["Draining"])},
    ],
    ids=str,
)
def test_a_node_at_rest_has_the_wrong_layout(
    node: dict[str, str], wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    mig_config = OLD if "layout_change" in node else NEW
    assert layout_change.or_pending(wrong, wanted, replace(held, **node), mig_config) is wrong  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", ["Upgrading", "Failed"])
def test_a_change_that_has_begun_has_no_turn_to_wait_for(
    phase: str, wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    assert layout_change.or_pending(wrong, wanted, in_phase(held, phase), NEW) is wrong


def test_node_waits_for_no_change_if_the_pools_layout_is_unknown(
    wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    assert layout_change.or_pending(wrong, wanted, held, "") is wrong


def test_only_mig_managers_pools_have_pending_layout_changes(
    wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    gke = replace(wanted, partitioner="gke")
    assert layout_change.or_pending(wrong, gke, in_phase(held, "Draining"), NEW) is wrong


def test_the_note_of_an_earlier_node_of_the_name_counts_for_nothing(
    wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    node = in_phase(held, "Draining", uid="u0")
    assert layout_change.or_pending(wrong, wanted, node, OLD) is wrong
    assert layout_change.or_pending(wrong, wanted, node, NEW).reason == "LayoutChangePending"


@pytest.mark.parametrize("note", ["nonsense", "null", "[]", "{}", '{"nodeUid": "u1"}'])
def test_a_note_that_cannot_be_read_is_none(
    note: str, wrong: Verdict, wanted: Desired, held: NodeState
) -> None:
    node = replace(held, layout_change=note)
    assert layout_change.or_pending(wrong, wanted, node, NEW).reason == "LayoutChangePending"


def test_broken_gpu_is_reported_during_a_layout_change(
    wanted: Desired, right: Observation, held: NodeState
) -> None:
    first, *_ = right.gpus
    one = verify(wanted, replace(right, gpus=(first,)), held)
    assert one.reason == "WrongGpuCount"
    assert layout_change.or_pending(one, wanted, in_phase(held, "Draining"), NEW) is one

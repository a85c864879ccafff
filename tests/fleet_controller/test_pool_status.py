"""What the conditions of a GPUPool say while its layout changes, and when the change stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest

from fleet_controller.assess import Assessment
from fleet_controller.members import Member, member_of
from fleet_controller.pool_status import pool_status
from fleet_controller.rollout import Rollout, how_far
from fleet_controller.state import Node, Pool

NOW = 1_800_000_000.0
POOL = Pool(
    name="p",
    uid="u",
    generation=1,
    created=NOW,
    selector={},
    layout_hash="h",
    fewest=1,
    mig_config="new",
    status={},
)
NODE = Node(
    name="n",
    uid="u",
    version="1",
    created=NOW,
    boot_id="b",
    verified_boot="b",
    ready=True,
    labels={},
    taint_keys=(),
    condition=None,
    leaving=False,
)
ROLLING = Rollout(wanted="new", changing=("n0",), waiting=("n1",))
Status = Literal["True", "False", "Unknown"]


def member(name: str, status: Status = "True", *, settling: bool = False) -> Member:
    return Member(
        node=replace(NODE, name=name),
        assessment=Assessment(status=status, reason=f"Reason{name}", message=f"message of {name}"),
        settling=settling,
        changed=NOW,
        warns=False,
        stuck=False,
    )


def conditions(
    rollout: Rollout, members: Sequence[Member] = (member("n0"), member("n1"))
) -> dict[str, tuple[str, str, str]]:
    """Type -> status, reason, message."""
    status = pool_status(POOL, members, rollout, NOW)
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


def far(rollout: Rollout, members: int = 2) -> str:
    return how_far(rollout, POOL, members)


def test_a_rollout_that_goes_on_is_progress_and_not_yet_proof() -> None:
    found = conditions(ROLLING, (member("n0", "Unknown", settling=True), member("n1")))
    assert found["Verified"] == ("False", "RollingOut", far(ROLLING))
    assert found["Progressing"] == ("True", "RollingOut", far(ROLLING))
    assert found["Degraded"] == ("False", "AsWanted", "no node has failed")
    assert found["Settled"][:2] == ("False", "RollingOut")


def test_a_node_that_is_wrong_is_told_before_the_rollout_is() -> None:
    found = conditions(ROLLING, (member("n0", "Unknown"), member("n1", "False")))
    assert found["Verified"][:2] == ("False", "NodesFailing")
    assert "n1 Reasonn1: message of n1" in found["Verified"][2]
    assert found["Degraded"][:2] == ("True", "NodesFailing")


@pytest.mark.parametrize("stopped", ["failed", "full"])
def test_a_rollout_that_stopped_by_itself_is_no_progress(stopped: str) -> None:
    rollout = replace(ROLLING, stopped=stopped)
    assert conditions(rollout)["Progressing"] == ("False", "RolloutStopped", far(rollout))


@pytest.mark.parametrize(
    ("stopped", "reason"), [("paused", "RolloutPaused"), ("aborted", "RolloutAborted")]
)
def test_a_rollout_that_people_stopped_settles_unproven(stopped: str, reason: str) -> None:
    rollout = replace(ROLLING, stopped=stopped)
    found = conditions(rollout)
    assert found["Verified"] == ("False", reason, far(rollout))
    assert found["Progressing"] == ("False", reason, far(rollout))
    assert found["Settled"] == ("True", reason, far(rollout))


def test_it_has_not_settled_while_a_layout_is_being_made() -> None:
    rollout = replace(ROLLING, stopped="paused", applying=True)
    assert conditions(rollout)["Settled"] == ("False", "RolloutPaused", far(rollout))


def test_verified_nodes_that_are_out_block_a_rollout_that_is_full() -> None:
    rollout = replace(ROLLING, stopped="full", blocking=("n0", "n1"))
    assert conditions(rollout)["Degraded"] == ("True", "RolloutBlocked", far(rollout))


def test_a_node_that_is_being_set_up_blocks_nothing_for_good() -> None:
    rollout = replace(ROLLING, stopped="full", blocking=("n0", "n1"))
    found = conditions(rollout, (member("n0", "Unknown", settling=True), member("n1")))
    assert found["Degraded"] == ("False", "AsWanted", "no node has failed")


def test_a_rollout_that_stopped_for_failed_nodes_is_not_called_blocked() -> None:
    rollout = replace(ROLLING, stopped="failed", failed=("n0",))
    assert conditions(rollout)["Degraded"] == ("False", "AsWanted", "no node has failed")


def test_a_node_in_a_planned_change_is_being_set_up_and_warned_of_by_nobody() -> None:
    planned = Assessment(status="Unknown", reason="Draining", message="m", planned=True)
    deadlines: list[float] = []
    found = member_of(NODE, planned, NOW + 9000, deadlines)
    assert (found.settling, found.warns, found.stuck, deadlines) == (True, False, False, [])

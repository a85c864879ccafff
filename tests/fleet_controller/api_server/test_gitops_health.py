"""What Argo CD, by the check in `gitops/`, and Flux, by kstatus, make of a GPUPool that the
controller writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.apis import names
from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.fleet_controller.decision.actions import SetPoolStatus
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.pools.members import DAMPING_S, GRACE_S
from slicewright.fleet_controller.pools.status import TOO_FEW_LIMIT_S
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout_world import World
from tests.gitops.lua_health import health

GITOPS = Path(__file__).resolve().parents[3] / "gitops"
NOW = 1_800_000_000.0


def argo(pool: dict[str, Any]) -> str:
    """The health status that Argo CD shows."""
    return health("slicewright.io_GPUPool", pool)


@pytest.fixture
def flux(kstatus: Callable[[Sequence[Mapping[str, Any]]], list[str]]) -> Callable[[Any], str]:
    """`Current`, `Failed` or `InProgress`."""
    gate, _ = yaml.safe_load_all((GITOPS / "flux" / "models.yaml").read_text())
    (check,) = gate["spec"]["healthChecks"]
    assert (check["apiVersion"], check["kind"]) == (names.API_VERSION, names.POOL_KIND)

    def judged(pool: dict[str, Any]) -> str:
        (found,) = kstatus([pool])
        return found

    return judged


def written(
    pool: Pool, nodes: Sequence[Node], reports: Sequence[Report], *, now: float = NOW
) -> dict[str, Any]:
    """The GPUPool as it is in the cluster after the controller has looked."""
    decision = decide([pool], nodes, {r.name: r for r in reports}, {}, {}, now)
    status = dict(pool.status)
    for action in decision.actions:
        if isinstance(action, SetPoolStatus):
            status = dict(action.status)
    return _object(pool.generation, status)


def _object(generation: int, status: dict[str, Any] | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": "halves", "generation": generation},
    }
    # As the API server stores a pool that the controller has not looked at.
    return {**made, "status": status or {"observedGeneration": names.NOT_OBSERVED}}


@pytest.fixture
def wrong(report: Report) -> Report:
    return replace(report, verdict="Mismatch", reason="WrongLayout", message="GPU 3 …")


def test_a_pool_is_healthy_when_it_is_verified(
    node: Node, pool: Pool, report: Report, flux: Any
) -> None:
    found = written(pool, [node], [report])
    assert (argo(found), flux(found)) == ("Healthy", "Current")


def test_a_pool_without_its_nodes_is_waited_for_and_fails_in_the_end(pool: Pool, flux: Any) -> None:
    found = written(pool, [], [])
    assert (argo(found), flux(found)) == ("Progressing", "InProgress")
    known = replace(pool, status=found["status"])
    later = written(known, [], [], now=NOW + TOO_FEW_LIMIT_S - 1)
    assert (argo(later), flux(later)) == ("Progressing", "InProgress")
    later = written(known, [], [], now=NOW + TOO_FEW_LIMIT_S)
    assert (argo(later), flux(later)) == ("Degraded", "Failed")


def test_a_layout_that_stays_wrong_is_a_failure(
    node: Node, pool: Pool, wrong: Report, flux: Any
) -> None:
    since = NOW - DAMPING_S - 60
    said = Condition(
        status="False", reason=wrong.reason, message=wrong.message, changed=since, written=since
    )
    seen = written(pool, [replace(node, condition=said)], [wrong])
    assert (argo(seen), flux(seen)) == ("Degraded", "Failed")


def test_a_finding_that_may_pass_is_not_yet_a_failure(
    node: Node, pool: Pool, wrong: Report, flux: Any
) -> None:
    """Reports come from mid-change, too."""
    said = Condition(
        status="False", reason=wrong.reason, message=wrong.message, changed=NOW, written=NOW
    )
    seen = written(pool, [replace(node, condition=said)], [wrong], now=NOW + DAMPING_S - 1)
    assert flux(seen) == "InProgress"


def test_a_node_that_is_silent_for_too_long_is_a_failure(node: Node, pool: Pool, flux: Any) -> None:
    young = written(pool, [node], [])
    assert (argo(young), flux(young)) == ("Progressing", "InProgress")
    late = written(pool, [replace(node, created=NOW - GRACE_S)], [])
    assert (argo(late), flux(late)) == ("Degraded", "Failed")


def test_a_node_that_joins_a_verified_pool_changes_nothing(
    node: Node, pool: Pool, report: Report, flux: Any
) -> None:
    known = replace(pool, status=written(pool, [node], [report])["status"])
    young = replace(node, name="n2", uid="u2")
    found = written(known, [node, young], [report])
    assert (argo(found), flux(found)) == ("Healthy", "Current")


def test_a_wrong_node_that_the_pool_tolerates_is_no_failure(
    node: Node, pool: Pool, report: Report, wrong: Report, flux: Any
) -> None:
    since = NOW - DAMPING_S - 60
    said = Condition(
        status="False", reason=wrong.reason, message=wrong.message, changed=since, written=since
    )
    tolerant = replace(pool, policy=RolloutPolicy(max_unverified=1))
    nodes = [node, replace(node, name="n2", uid="u2", condition=said)]
    found = written(tolerant, nodes, [report, replace(wrong, name="n2", owner_uid="u2")])
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Degraded"] == "True"
    assert (argo(found), flux(found)) == ("Healthy", "Current")


def test_what_was_verified_before_a_change_is_not_healthy_after_it(
    node: Node, pool: Pool, report: Report, flux: Any
) -> None:
    found = written(pool, [node], [report])
    found["metadata"]["generation"] += 1
    assert (argo(found), flux(found)) == ("Progressing", "InProgress")


def test_a_pool_that_the_controller_has_not_seen_is_waited_for(flux: Any) -> None:
    new = _object(1, None)
    assert (argo(new), flux(new)) == ("Progressing", "InProgress")


@pytest.fixture
def rolled() -> World:
    """A pool whose layout changes from `old` to `new`, with nothing done yet."""
    made = build_pool(
        name="p",
        uid="pool",
        selector={"slicewright.io/pool": "p"},
        layout_hash="",
        mig_config="old",
    )
    world = World(made)
    world.make_node("n0")
    world.passes()
    world.wants("new")
    return world


def test_a_rollout_that_goes_on_is_waited_for(rolled: World, flux: Any) -> None:
    rolled.passes()
    seen = _object(rolled.pool.generation, dict(rolled.pool.status))
    assert (argo(seen), flux(seen)) == ("Progressing", "InProgress")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("undo:new", "RolloutUndone"),
        ("paused", "RolloutPaused"),
        ("aborted", "RolloutAborted"),
    ],
)
def test_a_rollout_that_somebody_stopped_or_undid_is_suspended(
    asked: str, reason: str, rolled: World, flux: Any
) -> None:
    """Nothing goes on, nothing has failed, and it is not as the repository declares it: whoever
    waits for it waits in vain.
    """
    rolled.asks(asked)
    for _ in range(3):
        rolled.agent_reports("n0")
        rolled.passes()
    seen = _object(rolled.pool.generation, dict(rolled.pool.status))
    (verified,) = (c for c in seen["status"]["conditions"] if c["type"] == "Verified")
    assert verified["reason"] == reason
    assert (argo(seen), flux(seen)) == ("Suspended", "Failed")

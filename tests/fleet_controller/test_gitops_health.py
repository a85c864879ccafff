"""What Argo CD and Flux make of a GPUPool that the controller writes, by the checks in `gitops/`.

Their own interpreters are gopher-lua and cel-go: the checks keep to what Lua 5.1 and CEL define.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cel
import pytest
import yaml
from lupa import lua51

from fleet_controller.actions import SetPoolStatus
from fleet_controller.decide import decide
from fleet_controller.members import DAMPING_S
from fleet_controller.rollout_policy import RolloutPolicy
from fleet_controller.state import Condition, Node, Pool, Report
from tests.fleet_controller.rollout_world import World

GITOPS = Path(__file__).resolve().parents[2] / "gitops"
NOW = 1_800_000_000.0


def argo(pool: dict[str, Any]) -> str:
    """The health status that Argo CD shows."""
    config = yaml.safe_load((GITOPS / "argocd" / "argocd-cm.yaml").read_text())["data"]
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = _table(lua, pool)
    answer = lua.execute(config["resource.customizations.health.slicewright.io_GPUPool"])
    assert answer["message"]
    return str(answer["status"])


def flux(pool: dict[str, Any]) -> str:
    """`Current`, `Failed` or `InProgress`, in which order Flux asks."""
    gate, _ = yaml.safe_load_all((GITOPS / "flux" / "models.yaml").read_text())
    (check,) = gate["spec"]["healthCheckExprs"]
    assert (check["apiVersion"], check["kind"]) == (pool["apiVersion"], pool["kind"])
    for outcome in ("failed", "current"):
        try:
            holds = cel.evaluate(check[outcome], pool)
        except (ValueError, RuntimeError, KeyError):
            continue  # a field that is not there yet: Flux waits
        assert holds in (True, False)
        if holds:
            return outcome.capitalize()
    return "InProgress"


def _table(lua: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return lua.table_from({key: _table(lua, one) for key, one in value.items()})
    if isinstance(value, list):
        return lua.table_from([_table(lua, one) for one in value])
    return value


def written(
    pool: Pool, nodes: Sequence[Node], reports: Sequence[Report], *, now: float = NOW
) -> dict[str, Any]:
    """The GPUPool as it is in the cluster after the controller has looked."""
    decision = decide([pool], nodes, {r.name: r for r in reports}, {}, {}, now)
    (status,) = [dict(a.status) for a in decision.actions if isinstance(a, SetPoolStatus)]
    return _object(pool.generation, status)


def _object(generation: int, status: dict[str, Any] | None) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": "halves", "generation": generation},
    }
    return made if status is None else {**made, "status": status}


@pytest.fixture
def wrong(report: Report) -> Report:
    return replace(report, verdict="Mismatch", reason="WrongLayout", message="GPU 3 …")


def test_a_pool_is_healthy_when_it_is_verified(node: Node, pool: Pool, report: Report) -> None:
    found = written(pool, [node], [report])
    assert (argo(found), flux(found)) == ("Healthy", "Current")


def test_a_pool_without_its_nodes_is_waited_for(pool: Pool) -> None:
    found = written(pool, [], [])
    assert (argo(found), flux(found)) == ("Progressing", "InProgress")


def test_a_layout_that_stays_wrong_is_a_failure(node: Node, pool: Pool, wrong: Report) -> None:
    since = NOW - DAMPING_S - 60
    said = Condition(
        status="False", reason=wrong.reason, message=wrong.message, changed=since, written=since
    )
    seen = written(pool, [replace(node, condition=said)], [wrong])
    assert (argo(seen), flux(seen)) == ("Degraded", "Failed")


def test_a_wrong_node_that_the_pool_tolerates_is_no_failure(
    node: Node, pool: Pool, report: Report, wrong: Report
) -> None:
    since = NOW - DAMPING_S - 60
    said = Condition(
        status="False", reason=wrong.reason, message=wrong.message, changed=since, written=since
    )
    tolerant = replace(pool, policy=RolloutPolicy(tolerate_unproven=1))
    nodes = [node, replace(node, name="n2", uid="u2", condition=said)]
    found = written(tolerant, nodes, [report, replace(wrong, name="n2", owner_uid="u2")])
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Degraded"] == "True"
    assert (argo(found), flux(found)) == ("Healthy", "Current")


def test_what_was_verified_before_a_change_is_not_healthy_after_it(
    node: Node, pool: Pool, report: Report
) -> None:
    found = written(pool, [node], [report])
    found["metadata"]["generation"] += 1
    assert (argo(found), flux(found)) == ("Progressing", "InProgress")


def test_a_pool_that_nobody_has_looked_at_is_waited_for() -> None:
    assert (argo(_object(1, None)), flux(_object(1, None))) == ("Progressing", "InProgress")


def test_a_rollout_that_somebody_undid_is_shown_as_suspended() -> None:
    """Nothing goes on, nothing has failed, and it is not as the repository declares it."""
    made = Pool(
        name="p",
        uid="pool",
        generation=1,
        created=NOW,
        selector={"slicewright.io/pool": "p"},
        layout_hash="",
        fewest=1,
        mig_config="old",
        status={},
    )
    world = World(made)
    world.make_node("n0")
    world.passes()
    world.wants("new")
    world.asks("undo:new")
    for _ in range(3):
        world.agent_reports("n0")
        world.passes()
    seen = _object(world.pool.generation, dict(world.pool.status))
    (verified,) = (c for c in seen["status"]["conditions"] if c["type"] == "Verified")
    assert verified["reason"] == "RolloutUndone"
    assert (argo(seen), flux(seen)) == ("Suspended", "InProgress")


def test_a_rollout_that_somebody_paused_is_shown_as_suspended(
    node: Node, pool: Pool, report: Report
) -> None:
    found = written(pool, [node], [report])
    for condition in found["status"]["conditions"]:
        condition["status"] = "False"
    assert (argo(found), flux(found)) == ("Suspended", "InProgress")

"""The change of one node's layout or driver: a state machine, one step each pass. Pure.

    in service → cordoned, its pods leave → held, driver replaced → label set → verified → in
    service again

| phase     | observation                                         | next      | action             |
|-----------|-----------------------------------------------------|-----------|--------------------|
| any       | the pool wants neither a layout nor a driver        | ended     | uncordon           |
| any       | verified                                            | ended     | uncordon           |
| any       | other target; the driver may have been removed      | Upgrading | note               |
| any       | other target; the node has its layout and driver    | Applying  | note               |
| any       | other target                                        | Draining  | note               |
| any       | rollout aborted; the earlier state is still there   | ended     | uncordon           |
| Draining  | the node has its layout and driver                  | Applying  | note               |
| Draining  | rollout paused or aborted                           | Paused    | note               |
| Draining  | somebody has uncordoned the node                    | Draining  | cordon             |
| Draining  | pods run                                            | Draining  | evict them         |
| Draining  | pods run at the time limit                          | Failed    | note               |
| Draining  | no pods run; the node is not held                   | Draining  | add startup taint  |
| Draining  | no pods run; another driver is loaded               | Upgrading | note               |
| Draining  | no pods run; another layout                         | Applying  | set label          |
| Paused    | the node has its layout and driver                  | Applying  | note               |
| Paused    | rollout resumed                                     | Draining  | note               |
| Upgrading | the pod with the new driver appears                 | Upgrading | note its UID       |
| Upgrading | driver loaded; the node has its layout              | Applying  | note               |
| Upgrading | driver loaded; another layout                       | Draining  | note               |
| Upgrading | driver loaded; mig-manager is older than the driver | Upgrading | evict mig-manager  |
| Upgrading | earlier driver; uncordoned, or pods use GPUs        | Draining  | note               |
| Upgrading | earlier driver; the node is not held                | Upgrading | add startup taint  |
| Upgrading | earlier driver                                      | Upgrading | evict driver pod   |
| Upgrading | time limit                                          | Failed    | note               |
| Applying  | somebody has set another layout, or loaded a driver | Draining  | note               |
| Applying  | a problem lasts, or time limit                      | Failed    | note               |
| Failed    | no pods run; the layout or driver has to change     | Draining  | note               |

A node that needs both gets its driver first: mig-manager is away while that is replaced.

Every step is decided from the node, the note on it (`layout_change`) and its pods, no matter which
controller took the step before. A node that is verified is put back into service in any phase, so
that an undo needs no rule of its own.
"""

from __future__ import annotations

from dataclasses import replace

from slicewright.fleet_controller.nodes.assess import OF_THE_LAYOUT
from slicewright.fleet_controller.nodes.watchdog import relabelled
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.layout_change import Change, Phase
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.applying import advance_applying
from slicewright.fleet_controller.rollout.change_actions import CordonNode, FinishChange
from slicewright.fleet_controller.rollout.drain import drain
from slicewright.fleet_controller.rollout.draining import advance_draining, advance_paused
from slicewright.fleet_controller.rollout.pool_target import (
    describe_target,
    has_layout,
    has_until_its_turn,
    lacks_driver,
)
from slicewright.fleet_controller.rollout.turn import (
    DRAIN_POLL_S,
    Observation,
    Turn,
    move,
    note,
    planned,
    upgrade,
)
from slicewright.fleet_controller.rollout.upgrading import NOT_UPGRADED, advance_upgrading


def start_change(node: Node, target: str, now: float, *, driver: str = "") -> CordonNode:
    """Returns the first step."""
    change = Change(
        node_uid=node.uid,
        target=target,
        driver=driver,
        phase="Draining",
        since=now,
        started=now,
        cordoned=not node.unschedulable,
    )
    return CordonNode(node=node.name, version=node.version, change=change)


def finish_change(node: Node, change: Change, *, verified_at: float | None = None) -> FinishChange:
    return FinishChange(
        node=node.name,
        version=node.version,
        uncordon=change.cordoned and node.unschedulable,
        verified_at=verified_at,
    )


def advance(observed: Observation) -> Turn:
    """Returns the next step of a change that has begun."""
    node, pool, change = observed.node, observed.pool, observed.change
    if pool.mig_config is None and pool.driver is None:
        return Turn(actions=(finish_change(node, change),))
    observed = _doubt_driver(observed)
    if observed.base.status == "True":
        return _finish_verified(observed)
    if _has_other_target(change, pool):
        return _retarget(observed)
    if pool.suspended == "aborted" and _may_go_back(observed):
        assessment = assess_waiting(node, pool, observed.base)
        return Turn(actions=(finish_change(node, change),), assessment=assessment)
    match change.phase:
        case "Draining":
            return advance_draining(observed)
        case "Paused":
            return advance_paused(observed)
        case "Upgrading":
            return advance_upgrading(observed)
        case "Applying":
            return advance_applying(observed)
        case "Failed":
            return _advance_failed(observed)


def assess_waiting(node: Node, pool: Pool, base: Assessment) -> Assessment:
    """Returns the assessment of a node whose turn has not come. Its own problems come first."""
    # A node that waits for another driver only is compared with the layout that it should have.
    if base.reason not in OF_THE_LAYOUT or (base.mismatch and has_layout(node, pool)):
        return base
    if relabelled(node, pool):
        return replace(
            base,
            status="Unknown",
            reason="MigConfigChanged",
            message=f"someone has changed the label nvidia.com/mig.config from {pool.mig_config}, "
            f"with which the node was verified, to {node.mig_config or 'none'}; it is set back "
            "when the node's pods have left, as in any change of its layout. Take the right to "
            "change it from others (docs/reference/integrity.md)",
            settles=False,
        )
    message = (
        f"{has_until_its_turn(node, pool, base)}; kubectl get gpupool {pool.name} shows the "
        "progress"
    )
    return planned(base, "WaitsForItsTurn", message)


def _has_other_target(change: Change, pool: Pool) -> bool:
    """True if the pool wants something else by now, its old layout for example."""
    return (change.target, change.driver) != (pool.mig_config or "", pool.driver or "")


def _may_lack_driver(change: Change, pool: Pool) -> bool:
    """True if the driver that the node had before may have been removed."""
    failed = change.reason == NOT_UPGRADED and _has_other_target(change, pool)
    return change.phase == "Upgrading" or failed


def _doubt_driver(observed: Observation) -> Observation:
    """Returns the observation without a verification that may be about the earlier driver."""
    change, base = observed.change, observed.base
    if base.status != "True" or not _may_lack_driver(change, observed.pool):
        return observed
    if not _has_other_target(change, observed.pool) and change.driver_pod is None:
        return observed
    message = f"driver {base.driver} was reported before its pod was to be replaced"
    doubted = replace(base, status="Unknown", reason="DriverUpgrade", message=message, settles=True)
    return replace(observed, base=doubted)


def _finish_verified(observed: Observation) -> Turn:
    finish = finish_change(observed.node, observed.change, verified_at=observed.now)
    message = f"{describe_target(observed.pool)} is verified; the node goes back into service"
    return Turn(actions=(finish,), assessment=planned(observed.base, "InChange", message))


def _retarget(observed: Observation) -> Turn:
    """Begins the change to the pool's present layout and driver."""
    node, pool, base = observed.node, observed.pool, observed.base
    change = replace(
        observed.change,
        target=pool.mig_config or "",
        driver=pool.driver or "",
        since=observed.now,
        reason="",
        message="",
    )
    assessment = replace(base, planned=True)
    if _may_lack_driver(observed.change, pool):
        unknown_pod = replace(change, driver_pod="" if pool.driver else None)
        return Turn(actions=(upgrade(node, unknown_pod, base),), assessment=assessment)
    has_both = observed.has_layout and observed.has_driver
    phase: Phase = "Applying" if has_both else "Draining"
    return Turn(actions=(note(node, replace(change, phase=phase)),), assessment=assessment)


def _may_go_back(observed: Observation) -> bool:
    """True if the node may go back into service with an earlier layout or driver.

    It may not if its driver may have been removed.
    """
    change, pool = observed.change, observed.pool
    if change.phase == "Upgrading":
        return False
    if change.phase == "Failed" and not observed.base.driver and pool.driver:
        return False
    return not observed.has_layout or not observed.has_driver


def _advance_failed(observed: Observation) -> Turn:
    """Leaves the node cordoned, and starts over when its pods have left."""
    change, pool, base = observed.change, observed.pool, observed.base
    assessment = Assessment(
        status="False", reason=change.reason or "ChangeFailed", message=change.message
    )
    wait = Turn(assessment=assessment, deadlines=(observed.now + 10 * DRAIN_POLL_S,))
    if change.reason == NOT_UPGRADED and not observed.has_driver:
        # The driver may still come late, and then the layout may have to be changed.
        return wait
    if observed.has_layout and not lacks_driver(pool, base, observed.pods):
        return wait
    if observed.pods is None or pool.suspended:
        return wait
    if drain(observed.pods, pool.policy.drain, {}, observed.now).must_leave:
        return wait
    return Turn(actions=(move(observed, "Draining"),), assessment=assessment)

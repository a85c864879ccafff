"""Log lines for actions that were carried out."""

from __future__ import annotations

from fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    ClearReportsAfter,
    EmitEvent,
    EndUndo,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
)
from fleet_controller.membership.membership import JoinNode
from fleet_controller.membership.release import ClearNodeCondition, ReleaseNode, RemoveFinalizer
from fleet_controller.nodes.watchdog import RestartOperand
from fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
    UpgradeDriver,
)
from telemetry import log


def tell(action: Action) -> None:
    match action:
        case SetNodeCondition(node=node, status=status, reason=reason, message=message):
            log.info("node condition", node=node, status=status, reason=reason, message=message)
            if action.layout:
                tell(action.layout)
            if action.boot:
                tell(action.boot)
        case RemoveStartupTaint(node=node):
            log.info("node released", node=node)
        case AddStartupTaint(node=node, why=why):
            log.info("node held", node=node, why=why)
        case RecordBoot(node=node, boot_id=boot_id, layout=layout):
            log.info("node verified in this boot", node=node, boot_id=boot_id, layout=layout)
        case ClearReportsAfter(node=node):
            log.info("reports of every time count again", node=node)
        case SetMigConfig(node=node, value=value):
            log.info("layout requested", node=node, mig_config=value)
        case SetDesiredState(node=node, desired_state_annotation=told):
            log.info("agent reads its layout", node=node, of="annotation" if told else "its file")
        case CordonNode(node=node, change=change):
            driver = {"for_driver": change.driver} if change.driver else {}
            log.info("node cordoned", node=node, for_layout=change.target, **driver)
        case NoteChange(node=node, change=change):
            log.info("layout change", node=node, phase=change.phase, reason=change.reason)
        case EvictPod(node=node, namespace=namespace, pod=pod):
            log.info("pod evicted", node=node, pod=f"{namespace}/{pod}")
        case UpgradeDriver(node=node, change=change):
            log.info("driver is replaced", node=node, driver=change.driver)
        case ApplyLayout(node=node, change=change):
            log.info("layout requested", node=node, mig_config=change.target)
        case FinishChange(node=node, uncordon=uncordon):
            log.info("layout change ended", node=node, uncordoned=uncordon)
        case RestartOperand(node=node, stuck=stuck, restart=restart, labels=changed):
            log.info(
                "node is no longer stuck" if stuck is None else "node is stuck",
                node=node,
                trouble=stuck.trouble if stuck else "",
                tries=stuck.tries if stuck else 0,
                restarted=restart.path if restart else "",
                labels=dict(changed),
            )
        case QuarantineNode(node=node, why=why):
            log.info("node quarantined: its pods end", node=node, why=why)
        case EndQuarantine(node=node):
            log.info("quarantine ended", node=node)
        case JoinNode(node=node, labels=labels):
            log.info("node labelled for its pool", node=node, labels=dict(labels))
        case ClearNodeCondition(node=node):
            log.info("node condition removed", node=node)
        case ReleaseNode(node=node, labels=labels):
            log.info("node left its pool", node=node, labels=dict(labels))
        case RemoveFinalizer(pool=pool):
            log.info("pool let go", pool=pool)
        case EndUndo(pool=pool, old_request=asked):
            log.info("undo has ended", pool=pool, asked=asked)
        case SetPoolStatus(pool=pool, status=status):
            verified, nodes = status["conditions"][0], status["nodes"]
            proven = f"{nodes['verified']} of {nodes['total']}"
            log.info(
                "pool status",
                pool=pool,
                verified=verified["status"],
                reason=verified["reason"],
                proven=proven,
            )
        case EmitEvent(pool=pool, reason=reason, message=message):
            log.info("warning event", pool=pool, reason=reason, message=message)
        case RetractEvent(name=name):
            log.info("warning deleted", event=name)

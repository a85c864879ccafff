"""The reasons that the controller itself gives, for people. Plain data.

The agent's reasons, and the reasons of a layout change, are tables of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apis.reasons.troubles import MOST_TRIES, TROUBLES


@dataclass(frozen=True, kw_only=True)
class Reason:
    code: str
    status: str
    """The condition's status."""
    meaning: str
    remedy: str
    of_layout: bool = False
    """True if a healthy node that still has an earlier layout or driver of its pool gets this."""


_NOTHING: Final = "nothing; it passes"
_AGENTS_LOG: Final = "the log of the node's node-agent pod, or `kubectl describe` of it"
_TRIED: Final = f"tried up to {MOST_TRIES} times: its pod is recreated"

OF_A_NODE: Final = (
    Reason(
        code="NoReport",
        status="Unknown",
        meaning="the node's agent has never reported; the message says what its pod waits for, "
        "where the cluster knows",
        remedy="`kubectl -n slicewright-system get pods -o wide -l "
        "app.kubernetes.io/name=node-agent`. No pod on the node: `kubectl -n slicewright-system "
        "describe daemonset node-agent-POOL`. A pod that waits: `kubectl describe` says for what "
        "(an image, or the runtime class `nvidia`, which the GPU operator makes). A pod that runs: "
        "read its log",
    ),
    Reason(
        code="ReportTooOld",
        status="Unknown",
        meaning="the agent has been silent for 15 minutes; it reports at least every six",
        remedy=f"{_AGENTS_LOG}; is the node Ready, and can it reach the API server?",
    ),
    Reason(
        code="ReportOfAnotherNode",
        status="Unknown",
        meaning="the report is of an earlier node of the same name",
        remedy=_NOTHING,
    ),
    Reason(
        code="ReportOfAnotherLayout",
        status="Unknown",
        of_layout=True,
        meaning="the agent compared the node with a layout that the pool no longer wants",
        remedy="nothing; if it lasts, `kubectl -n slicewright-system rollout status "
        "daemonset/node-agent-POOL`",
    ),
    Reason(
        code="ReportFromEarlierBoot",
        status="Unknown",
        meaning="the node has booted since the report",
        remedy=_NOTHING,
    ),
    Reason(
        code="ReportFromEarlierLayout",
        status="Unknown",
        of_layout=True,
        meaning="the node has had another layout since the report, and was given this one again",
        remedy="nothing; its agent reports again within a minute or two",
    ),
    Reason(
        code="ReportTimeImplausible",
        status="Unknown",
        meaning="the time of the report is more than a minute in the future",
        remedy="set the node's clock",
    ),
    Reason(
        code="ReportUnreadable",
        status="Unknown",
        meaning="the report has a verdict that this controller does not know",
        remedy="run `pulumi up`, so that agent and controller are of one release",
    ),
    Reason(
        code="NoReason",
        status="False or Unknown",
        meaning="the report gives no reason",
        remedy="run `pulumi up`, so that agent and controller are of one release",
    ),
    Reason(
        code="NodeNotReady",
        status="Unknown",
        meaning="the partitions matched, but the node is not Ready: it may be rebooting",
        remedy="see the node's condition Ready",
    ),
    Reason(
        code="MigConfigNotSet",
        status="Unknown",
        of_layout=True,
        meaning="the label nvidia.com/mig.config is not yet what the pool wants",
        remedy=_NOTHING,
    ),
    Reason(
        code="MigConfigChanged",
        status="Unknown",
        meaning="someone else has changed the label nvidia.com/mig.config of a verified node",
        remedy="nothing: the node is held, drained and set back under the pool's rollout policy; "
        "[take the right](integrity.md) to change it from others",
    ),
    Reason(
        code="MigManagerBusy",
        status="Unknown",
        meaning="mig-manager changes the partitions",
        remedy=_NOTHING,
    ),
    Reason(
        code="MigManagerFailed",
        status="False",
        meaning="the partitions match, but mig-manager says `failed`",
        remedy=f"none at first: its restart is {_TRIED}; then its log",
    ),
    Reason(
        code="OperandsPaused",
        status="Unknown, then False",
        meaning="mig-manager has paused operands, and after "
        f"{TROUBLES['OperandsPaused'].after_s / 60:.0f} minutes has forgotten to resume them",
        remedy="none at first: mig-manager's pod is recreated, then the operands are resumed; "
        f"then {TROUBLES['OperandsPaused'].remedy}",
    ),
    *(
        Reason(
            code=trouble.reason,
            status="Unknown, then False" if trouble.restart else "False",
            meaning=f"for {trouble.after_s / 60:.0f} minutes {trouble.meaning}",
            remedy=f"none at first: a restart of mig-manager is {_TRIED}; then {trouble.remedy}"
            if trouble.restart
            else trouble.remedy,
        )
        for trouble in TROUBLES.values()
        if trouble.reason and trouble.reason != "OperandsPaused"
    ),
)

OF_LAYOUT: Final = frozenset(reason.code for reason in OF_A_NODE if reason.of_layout)

OF_A_DEPARTING_NODE: Final = (
    Reason(
        code="ReleaseHeldByPods",
        status="",
        meaning="MIG is to be disabled on an existing node that leaves its pool, and pods use its "
        "GPUs",
        remedy="end the pods that the message names",
    ),
    Reason(
        code="ReleaseWaitsForMigManager",
        status="",
        meaning="MIG is being disabled on an existing node that leaves its pool",
        remedy="nothing; if it lasts, the message says how to let the layout stay",
    ),
)

OF_A_POOL: Final = (
    Reason(
        code="AllNodesProven",
        status="Verified True",
        meaning="every node matches; those that are still joining are held, and the message names "
        "them",
        remedy="",
    ),
    Reason(
        code="EnoughNodesProven",
        status="Verified True",
        meaning="some nodes do not match, but no more than `rolloutPolicy` allows; they are held, "
        "and named in `failingNodes`",
        remedy="as for `NodesFailing`, in your own time",
    ),
    Reason(
        code="NoNodes",
        status="Verified True",
        meaning="the pool has no node and needs none",
        remedy="",
    ),
    Reason(
        code="TooFewNodes",
        status="Verified False, Settled False; after 30 minutes Progressing False, Degraded True",
        meaning="fewer nodes exist than the pool's minimum. `pulumi up` fails with it after its "
        "wait",
        remedy="see why no node joins: quota, stock and events of the node pool in the cloud "
        "(`slicewright doctor` asks for quota and stock); in an existing cluster the labels in "
        "`select`. Then `kubectl wait gpupool POOL --for=condition=Verified --timeout=1h`, and "
        "`pulumi up`. **A node that you deleted with kubectl** comes back only where its instance "
        "registers again: delete the *instance* in the cloud instead, and the node pool makes "
        "another ([day two](../how-to/day-two.md#a-lost-or-broken-node))",
    ),
    Reason(
        code="NodesFailing",
        status="Verified False, Degraded True, Settled True",
        meaning="nodes are wrong by themselves. Settled stays False while others may yet be proven "
        "and `rolloutPolicy` allows these",
        remedy="the message names the first two, `status.failingNodes` twenty",
    ),
    Reason(
        code="NodesNotProven",
        status="Verified False",
        meaning="no node is known to be wrong, but some are not known to be right",
        remedy="the message names the first two",
    ),
    Reason(
        code="NodesBeingSetUp",
        status="Progressing True",
        meaning="nodes are not verified, and within their five minutes",
        remedy=_NOTHING,
    ),
    Reason(
        code="WaitingForNodes",
        status="Progressing True",
        meaning="fewer nodes exist than the pool's minimum",
        remedy="see why none joins, as for `TooFewNodes`",
    ),
    Reason(
        code="Settled",
        status="Progressing False",
        meaning="no node is being set up or changed",
        remedy="",
    ),
    Reason(
        code="AsWanted",
        status="Degraded False",
        meaning="no node is wrong that is not being set up or changed",
        remedy="",
    ),
    Reason(
        code="NothingToWaitFor",
        status="Reconciling False",
        meaning="the pool is verified, or stalled; otherwise Reconciling has the reason of "
        "Progressing, or else of Verified",
        remedy="",
    ),
    Reason(
        code="NotStalled",
        status="Stalled False",
        meaning="the pool is verified, or may yet be; otherwise Stalled has the reason of Settled, "
        "or else of Degraded",
        remedy="",
    ),
    Reason(
        code="NotYetVerified",
        status="(event)",
        meaning="progress that a waiting `pulumi up` shows every ten seconds, less often where "
        "many pools wait",
        remedy="",
    ),
)

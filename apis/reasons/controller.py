"""The reasons that the controller itself gives, for people. Plain data.

The agent's reasons, and the reasons of a layout change, are tables of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slicewright.apis.reasons.troubles import MOST_TRIES, TROUBLES


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
_AGENTS_LOG: Final = "read the log of the node's node-agent pod, or its `kubectl describe`"
_PROOF_PODS: Final = (
    "`kubectl -n slicewright-system describe pods -l app.kubernetes.io/name=pod-proof`"
)
_RESTARTS: Final = f"mig-manager's pod is recreated up to {MOST_TRIES} times"

OF_A_NODE: Final = (
    Reason(
        code="NoReport",
        status="Unknown",
        meaning="the node's agent has never reported; the message says what its pod waits for, "
        "if the cluster knows",
        remedy="`kubectl -n slicewright-system get pods -o wide -l "
        "app.kubernetes.io/name=node-agent`. No pod on the node: `kubectl -n slicewright-system "
        "describe daemonset node-agent-POOL`. A pod that waits: `kubectl describe` says for what "
        "(an image, or the runtime class `nvidia`, which the GPU operator creates). A pod that "
        "runs: read its log",
    ),
    Reason(
        code="ReportTooOld",
        status="Unknown",
        meaning="the agent has been silent for 15 minutes; it reports at least every six",
        remedy=f"{_AGENTS_LOG}; check that the node is Ready and can reach the API server",
    ),
    Reason(
        code="ReportOfAnotherNode",
        status="Unknown",
        meaning="the report is about an earlier node with the same name",
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
        code="BootedWithOtherLayout",
        status="True",
        meaning="the node has the partitions that it was booted with, and the pool has another "
        "layout: while the cloud replaces the nodes, each is compared with its own",
        remedy="nothing: the node group or Karpenter replaces it. If it stays, look at the update "
        "of the node group (`aws eks list-updates`), or at the NodeClaim's condition Drifted",
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
        meaning="the node had another layout after the report, and has got this layout back",
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
        meaning="this controller does not know the report's verdict",
        remedy="run `pulumi up`, so that agent and controller have the same version",
    ),
    Reason(
        code="NoReason",
        status="False or Unknown",
        meaning="the report gives no reason",
        remedy="run `pulumi up`, so that agent and controller have the same version",
    ),
    Reason(
        code="NodeNotReady",
        status="Unknown",
        meaning="the partitions matched, but the node is not Ready: it may be rebooting",
        remedy="see the node's condition Ready",
    ),
    Reason(
        code="ComputeNotProven",
        status="Unknown",
        meaning="the partitions match, and the report of the held node has no proof that a program "
        "computes on each of them (`verification.compute`)",
        remedy="nothing at first: the agent computes within a minute, or gives the reason why it "
        "cannot. If it lasts, the node's agent is of an older version: `kubectl -n "
        "slicewright-system rollout status daemonset/node-agent-POOL`",
    ),
    Reason(
        code="PodProofUnderWay",
        status="Unknown",
        meaning="the partitions match, and the pod that proves the node (`verification.pod`) has "
        "not computed yet",
        remedy=_NOTHING,
    ),
    Reason(
        code="PodNotScheduled",
        status="False",
        meaning="the scheduler has not placed the pod that proves the node for two minutes: the "
        "node lacks a resource that the pool should offer, or has a taint or a policy that keeps "
        "tenants away",
        remedy=f"read the scheduler's message; {_PROOF_PODS}. A pod of another tenant that holds "
        "the last device has to end",
    ),
    Reason(
        code="PodNotServed",
        status="False",
        meaning="the kubelet has refused the pod that proves the node, or its time was over before "
        "it had run: the device plugin has given it no device, or its image was not pulled",
        remedy=f"restart the node's device plugin pod; {_PROOF_PODS}. It is tried again after five "
        "minutes",
    ),
    Reason(
        code="WrongDeviceAllotted",
        status="False",
        meaning="the device plugin has given the pod that proves the node another device than the "
        "pod requested",
        remedy="restart the node's device plugin pod; if it lasts, compare the plugin's MIG "
        "strategy with the pool. It is tried again after five minutes",
    ),
    Reason(
        code="PodDoesNotCompute",
        status="False",
        meaning="the device of the pod that proves the node does not compute, though the agent's "
        "own program did: the way of a pod to CUDA is broken",
        remedy=f"read the pod's log for the CUDA error; {_PROOF_PODS}. It is tried again after "
        "five minutes",
    ),
    Reason(
        code="PodProofUntried",
        status="False",
        meaning="the pod that proves the node has ended without trying its device: a library of "
        "the driver or the program itself is missing in its container",
        remedy=f"read the pod's log; {_PROOF_PODS}. It is tried again after five minutes",
    ),
    Reason(
        code="MigConfigNotSet",
        status="Unknown",
        of_layout=True,
        meaning="the label nvidia.com/mig.config does not have the pool's layout yet",
        remedy=_NOTHING,
    ),
    Reason(
        code="MigConfigChanged",
        status="Unknown",
        meaning="someone other than the controller has changed the label nvidia.com/mig.config "
        "of a verified node",
        remedy="nothing: the node is held, drained and changed back under the pool's rollout "
        "policy; [remove the right](integrity.md) to change the label from others",
    ),
    Reason(
        code="MigManagerBusy",
        status="Unknown",
        meaning="mig-manager is changing the partitions",
        remedy=_NOTHING,
    ),
    Reason(
        code="MigManagerFailed",
        status="False",
        meaning="the partitions match, but mig-manager's state is `failed`",
        remedy=f"none at first: {_RESTARTS}; then read its log",
    ),
    Reason(
        code="OperandsPaused",
        status="Unknown, then False",
        meaning="mig-manager has paused operands, and has not resumed them after "
        f"{TROUBLES['OperandsPaused'].after_s / 60:.0f} minutes",
        remedy="none at first: mig-manager's pod is recreated, then the operands are resumed; "
        f"then {TROUBLES['OperandsPaused'].remedy}",
    ),
    Reason(
        code="ValidatorFailing",
        status="Unknown, then False",
        meaning="the node's partitions match, and it is not released, because "
        f"{TROUBLES['ValidatorFails'].meaning}",
        remedy=TROUBLES["ValidatorFails"].remedy,
    ),
    *(
        Reason(
            code=trouble.reason,
            status="Unknown, then False" if trouble.restart else "False",
            meaning=f"for {trouble.after_s / 60:.0f} minutes {trouble.meaning}",
            remedy=f"none at first: {_RESTARTS}; then {trouble.remedy}"
            if trouble.restart
            else trouble.remedy,
        )
        for trouble in TROUBLES.values()
        if trouble.reason not in ("", "OperandsPaused", "ValidatorFailing")
    ),
)

OF_LAYOUT: Final = frozenset(reason.code for reason in OF_A_NODE if reason.of_layout)

OF_A_DEPARTING_NODE: Final = (
    Reason(
        code="ReleaseHeldByPods",
        status="",
        meaning="MIG must be disabled on an existing node that leaves its pool, but pods use its "
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

OF_SHARES: Final = (
    Reason(
        code="PodWithoutShare",
        status="",
        meaning="a pod that requests shares of a GPU is bound to the node, and the engine's "
        "scheduler has allocated none. Volcano's does that after its start, until each node "
        "changes; the controller changes the nodes ten seconds after each start",
        remedy="none if the pod was evicted: it is placed again. Otherwise the message says why "
        "it stays: delete it yourself, or change the pool's `drain`",
    ),
    Reason(
        code="CardOvercommitted",
        status="",
        meaning="the shares of the pods on a card add up to more memory or compute than the "
        "engine has registered, or are of a card that the node does not have",
        remedy="delete one of the card's pods; with Volcano look for pods that are older than the "
        "admission policy `slicewright-shares` and share in several containers",
    ),
    Reason(
        code="NodeLockStuck",
        status="",
        meaning="HAMi's device plugin has not released the node's lock for a minute, so no other "
        "pod gets a card there until the lock is five minutes old",
        remedy="read the log of the node's hami-device-plugin pod",
    ),
)

OF_A_POOL: Final = (
    Reason(
        code="AllNodesProven",
        status="Verified True",
        meaning="every node matches; the message names nodes that are still joining, which are "
        "held",
        remedy="",
    ),
    Reason(
        code="EnoughNodesProven",
        status="Verified True",
        meaning="some nodes do not match, but no more than `rolloutPolicy` allows; they are "
        "held, and `failingNodes` names them",
        remedy="as for `NodesFailing`, but without urgency",
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
        meaning="fewer nodes exist than the pool's minimum. `pulumi up` waits, then fails with "
        "this reason",
        remedy="find out why no node joins: check quota, stock and events of the node pool in the "
        "cloud (`slicewright doctor` checks quota and stock); in an existing cluster check the "
        "labels in `select`. Then run "
        "`kubectl wait gpupool POOL --for=condition=Verified --timeout=1h`, and `pulumi up`. "
        "**A node that you deleted with kubectl** comes back only if its instance registers "
        "again: delete the *instance* in the cloud instead, and the node pool creates another "
        "([day two](../how-to/day-two.md#a-lost-or-broken-node))",
    ),
    Reason(
        code="NodesFailing",
        status="Verified False, Degraded True, Settled True",
        meaning="some nodes do not match, and need a repair. Settled stays False while other "
        "nodes may still be verified and `rolloutPolicy` allows the failing nodes",
        remedy="the message names the first two nodes, `status.failingNodes` the first twenty",
    ),
    Reason(
        code="NodesNotProven",
        status="Verified False",
        meaning="no node is known to be wrong, but some are not verified",
        remedy="the message names the first two nodes",
    ),
    Reason(
        code="NodesBeingReplaced",
        status="Verified False, Progressing True",
        meaning="some nodes have booted with another layout than the pool's "
        "(`partition: {mode: boot}`), and are to be replaced",
        remedy="nothing while the node group is updated, or while Karpenter replaces nodes; "
        "`BootedWithOtherLayout` on a node says where to look",
    ),
    Reason(
        code="NodesBeingSetUp",
        status="Progressing True",
        meaning="some nodes are not verified yet, and still have time: five minutes",
        remedy=_NOTHING,
    ),
    Reason(
        code="WaitingForNodes",
        status="Progressing True",
        meaning="fewer nodes exist than the pool's minimum",
        remedy="find out why no node joins, as for `TooFewNodes`",
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
        meaning="every node is healthy, or is being set up or changed",
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
        meaning="the pool is verified, or may still be verified; otherwise Stalled has the "
        "reason of Settled, or else of Degraded",
        remedy="",
    ),
    Reason(
        code="NotYetVerified",
        status="(event)",
        meaning="progress that a waiting `pulumi up` shows every ten seconds, every minute while "
        "the cause stays the same, and less often if many pools wait",
        remedy="",
    ),
)

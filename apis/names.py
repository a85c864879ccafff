"""The names of the project's Kubernetes API.

Its custom resources are in `custom_resources`, RBAC rules in `rights`, and the admission policies
in `admission`. All of them are plain data on the standard library, because infra creates these
objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Manifest = dict[str, Any]

GROUP: Final = "slicewright.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

REPORT_KIND: Final = "GPUNodeReport"
REPORT_PLURAL: Final = "gpunodereports"
POOL_KIND: Final = "GPUPool"
POOL_PLURAL: Final = "gpupools"

NAMESPACE: Final = "slicewright-system"
AGENT_SERVICE_ACCOUNT: Final = "node-agent"
CONTROLLER_SERVICE_ACCOUNT: Final = "fleet-controller"
AGENT_PORT: Final = 9470
CONTROLLER_PORT: Final = 9471
CONTROLLER_LEASE: Final = "fleet-controller"
"""Name of the Lease in NAMESPACE. Of the controller's replicas, only its holder acts."""
ATTRIBUTION_PORT: Final = 9472

POOL_LABEL: Final = "slicewright.io/pool"
NODE_CONDITION: Final = "slicewright.io/GPUPartitionsReady"
STARTUP_TAINT_KEY: Final = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
"""Cluster autoscalers ignore taints with this prefix when they simulate a new node. GKE's ignores
no others. EKS allows keys of 63 characters (taintKey in botocore's model of EKS), and the prefix
takes 47 of them.
"""
STARTUP_TAINT: Final[Mapping[str, str]] = {
    "key": STARTUP_TAINT_KEY,
    "value": "unverified",
    "effect": "NoSchedule",
}

QUARANTINE_EFFECT: Final = "NoExecute"
"""Second effect of the startup taint, on a node whose pods are to end."""

NOTE_PREFIX: Final = f"{GROUP}/"
"""Prefix of the annotations that hold the controller's notes on a Node. Nobody else may write one
(`slicewright.apis.admission.node_policy`).
"""
VERIFIED_BOOT_ANNOTATION: Final = "slicewright.io/verified-boot"
"""Boot ID under which the controller last found the node verified. In another boot it is not
verified: MIG partitions do not survive a reboot, but the Node and its missing taint do.
"""

VERIFIED_LAYOUT_ANNOTATION: Final = "slicewright.io/verified-layout"
"""Value of the label MIG_CONFIG_LABEL when the node was last found verified. If the pool still
wants it and the label differs, somebody else has changed the label.
"""
STUCK_ANNOTATION: Final = "slicewright.io/stuck"
"""Marks a node that is stuck (`slicewright.fleet_controller.objects.stuck.Stuck`)."""

JOINED_ANNOTATION: Final = "slicewright.io/joined"
"""Set on a node that exists without its pool. It holds the labels that the controller has set for
the pool, and their earlier values (`slicewright.fleet_controller.membership.membership.Joined`).
"""
RELEASE_FINALIZER: Final = "slicewright.io/release-nodes"
"""Set on a pool of existing nodes. It stays until the controller has released them."""

ROLLOUT_ANNOTATION: Final = "slicewright.io/rollout"
"""Users set it on a pool: `paused`, `aborted` or `undo:LAYOUT`, see
`slicewright.apis.gpu_pool.rollout_request`.
"""
DESIRED_ANNOTATION: Final = "slicewright.io/desired-state"
"""Set on a node whose layout differs from its pool's stack file, as after an undo. Its agent
verifies this state instead of its file's.
"""
REPORTS_AFTER_ANNOTATION: Final = "slicewright.io/reports-after"
"""Set on a node whose layout was set while there was a report of a match with that very layout:
only later reports count. The value is that report's time, so it comes from the node's own clock.
The annotation is removed when the node is verified.
"""
SCHEDULER_START_ANNOTATION: Final = "slicewright.io/scheduler-start"
"""Set on a node whose GPUs an engine shares. Volcano's scheduler knows no card of a node when it
starts, until the node changes: so the controller writes the time of each start here.
"""
CHANGE_ANNOTATION: Final = "slicewright.io/layout-change"
"""Set on a node whose layout is being changed
(`slicewright.fleet_controller.objects.layout_change.Change`).
"""
CHANGED_ANNOTATION: Final = "slicewright.io/changed-at"
"""Time when the last change of the node's layout or driver ended well."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
BUSY_STATES = ("pending", "rebooting")
"""Values of nvidia.com/mig.config.state while mig-manager changes the partitions."""
DEFAULT_MIG_CONFIG: Final = "all-disabled"
"""The only layout that the GPU operator sets on its own, on a node that has none. Source:
NVIDIA/gpu-operator, node labelling (migConfigDisabledValue).
"""
DEPLOY_LABEL_PREFIX: Final = "nvidia.com/gpu.deploy."
CLUSTER_POLICY_API: Final = "nvidia.com/v1"
CLUSTER_POLICY_PLURAL: Final = "clusterpolicies"

VERIFIED: Final = "Verified"
PROGRESSING: Final = "Progressing"
DEGRADED: Final = "Degraded"
SETTLED: Final = "Settled"
"""Verified, or wrong in a way that does not pass without help. `pulumi up` waits for it."""
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
"""These three belong to kstatus, for Flux and everything else that asks it. A pool is Current when
it is Verified, Failed when it needs somebody, and InProgress in between.

Source: kubernetes-sigs/cli-utils, pkg/kstatus/README.md.
"""
NOT_OBSERVED: Final = -1
"""observedGeneration of a pool that the controller has not looked at. Without one, kstatus takes an
object that has no conditions yet for Current.
"""

EVENTS_NAMESPACE: Final = "default"
"""The API server accepts events about cluster-scoped objects in this namespace only."""
MAX_FAILING_NODES: Final = 20
"""Number of nodes that a pool's status names, each with a Warning Event."""
LONGEST_DESIRED: Final = 64 * 1024
"""Longest desired state in characters, by the schema of a GPUPool."""
MOST_REMEMBERED: Final = 3
"""Number of layouts that a pool's status remembers. An undo can go back to these."""

AGENT_PRIORITY_CLASS: Final = "system-node-critical"
"""A full node makes room for the agent, and the kubelet never evicts it under pressure. Source:
k8s.io/kubernetes v1.36.2, pkg/kubelet/eviction/eviction_manager.go (IsCriticalPod).
"""
CONTROLLER_PRIORITY_CLASS: Final = "system-cluster-critical"

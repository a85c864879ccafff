"""The names of the project's Kubernetes API.

Its custom resources are in `custom_resources`, RBAC rules in `rights`, and the admission policies
in `admission_policies`: plain data and standard library only, because infra creates these objects.
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
"""Of the controller's replicas the one acts that holds this Lease in NAMESPACE."""
ATTRIBUTION_PORT: Final = 9472

POOL_LABEL: Final = "slicewright.io/pool"
NODE_CONDITION: Final = "slicewright.io/GPUPartitionsReady"
STARTUP_TAINT_KEY: Final = "startup-taint.cluster-autoscaler.kubernetes.io/slicewright"
"""Cluster autoscalers ignore taints with this prefix when they simulate a new node; GKE's ignores
no others. EKS allows keys of 63 characters (taintKey in botocore's model of EKS), of which the
prefix takes 47.
"""
STARTUP_TAINT: Final[Mapping[str, str]] = {
    "key": STARTUP_TAINT_KEY,
    "value": "unverified",
    "effect": "NoSchedule",
}

QUARANTINE_EFFECT: Final = "NoExecute"
"""Effect of the startup taint, besides its own, on a node whose pods are to end."""

NOTE_PREFIX: Final = f"{GROUP}/"
"""Of the annotations in which the controller keeps what it knows of a Node: nobody else writes one
(`admission_policies.node_policy`).
"""
VERIFIED_BOOT_ANNOTATION: Final = "slicewright.io/verified-boot"
"""Boot ID of the boot in which the controller last found the node verified. In another boot it is
not verified: MIG partitions do not survive a reboot, but the Node and its missing taint do.
"""

VERIFIED_LAYOUT_ANNOTATION: Final = "slicewright.io/verified-layout"
"""The value of the label MIG_CONFIG_LABEL with which the node was last found verified. Where the
pool still wants it and the label says something else, somebody else has changed the label.
"""
STUCK_ANNOTATION: Final = "slicewright.io/stuck"
"""On a node that is stuck (`fleet_controller.objects.stuck.Stuck`)."""

JOINED_ANNOTATION: Final = "slicewright.io/joined"
"""On a node that exists without its pool: which labels the controller has set for the pool, and
what they were before (`fleet_controller.membership.membership.Joined`).
"""
RELEASE_FINALIZER: Final = "slicewright.io/release-nodes"
"""On a pool of existing nodes: it stays until the controller has released them."""

ROLLOUT_ANNOTATION: Final = "slicewright.io/rollout"
"""On a pool: `paused`, `aborted` or `undo:LAYOUT`, set by people, see
`apis.gpu_pool.rollout_request`.
"""
DESIRED_ANNOTATION: Final = "slicewright.io/desired-state"
"""On a node whose layout is not the one that its pool's stack file declares, as after an undo: what
its agent must find there, in place of the agent's file.
"""
REPORTS_AFTER_ANNOTATION: Final = "slicewright.io/reports-after"
"""On a node whose layout was set while there was a report of a match with that very layout: only
later reports count. The time is that report's, so of the node's own clock. It is removed when the
node is verified.
"""
CHANGE_ANNOTATION: Final = "slicewright.io/layout-change"
"""On a node whose layout is being changed (`fleet_controller.objects.layout_change.Change`)."""
CHANGED_ANNOTATION: Final = "slicewright.io/changed-at"
"""On a node: when the last change of its layout or driver has ended well."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
BUSY_STATES = ("pending", "rebooting")
"""Values of nvidia.com/mig.config.state while mig-manager changes the partitions."""
DEFAULT_MIG_CONFIG: Final = "all-disabled"
"""The only layout that the GPU operator sets by itself, on a node that has none. Source:
NVIDIA/gpu-operator, node labelling (migConfigDisabledValue).
"""
DEPLOY_LABEL_PREFIX: Final = "nvidia.com/gpu.deploy."
CLUSTER_POLICY_API: Final = "nvidia.com/v1"
CLUSTER_POLICY_PLURAL: Final = "clusterpolicies"

VERIFIED: Final = "Verified"
PROGRESSING: Final = "Progressing"
DEGRADED: Final = "Degraded"
SETTLED: Final = "Settled"
"""Verified, or wrong in a way that does not pass by itself: what `pulumi up` waits for."""
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"
"""These three are kstatus's, for Flux and everything else that asks it: a pool is Current when it
is Verified, Failed when it needs somebody, and InProgress in between. Source:
kubernetes-sigs/cli-utils, pkg/kstatus/README.md.
"""
NOT_OBSERVED: Final = -1
"""observedGeneration of a pool that the controller has not looked at: without one, kstatus takes an
object that has no conditions yet for Current.
"""

EVENTS_NAMESPACE: Final = "default"
"""The API server accepts events about cluster-scoped objects in this namespace only."""
MAX_FAILING_NODES: Final = 20
"""In a pool's status, and with a Warning Event each."""
LONGEST_DESIRED: Final = 64 * 1024
"""Characters of a desired state, by the schema of a GPUPool."""
MOST_REMEMBERED: Final = 3
"""Layouts that a pool's status remembers, to which an undo can go back."""

AGENT_PRIORITY_CLASS: Final = "system-node-critical"
"""A full node makes room for the agent, and the kubelet never evicts it under pressure. Source:
k8s.io/kubernetes v1.36.2, pkg/kubelet/eviction/eviction_manager.go (IsCriticalPod).
"""
CONTROLLER_PRIORITY_CLASS: Final = "system-cluster-critical"

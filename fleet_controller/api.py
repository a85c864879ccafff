"""The Kubernetes API of the project: names, custom resources, RBAC rules, admission policies.

Plain data and standard library only, because infra imports this module and creates these objects.

`GPUNodeReport` (cluster scope, one per GPU node, named like the node): what the node's agent found.
The agent replaces `report` as a whole. Its owner is the Node, so it is deleted with it. There is no
status subresource, because the object is nothing but a report.

`GPUPool` (cluster scope, one per pool): `spec` is written by the Pulumi program, `status` by the
fleet controller.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

Manifest = dict[str, Any]
Rule = dict[str, list[str]]

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

VERIFIED_BOOT_ANNOTATION: Final = "slicewright.io/verified-boot"
"""Boot ID of the boot in which the controller last found the node verified. In another boot it is
not verified: MIG partitions do not survive a reboot, but the Node and its missing taint do.
"""

JOINED_ANNOTATION: Final = "slicewright.io/joined"
"""On a node that exists without its pool: which labels the controller has set for the pool, and
what they were before (`fleet_controller.membership.Joined`).
"""
RELEASE_FINALIZER: Final = "slicewright.io/release-nodes"
"""On a pool of existing nodes: it stays until the controller has released them."""

ROLLOUT_ANNOTATION: Final = "slicewright.io/rollout"
"""On a pool: `paused` or `aborted`, set by people, see `fleet_controller.rollout`."""
CHANGE_ANNOTATION: Final = "slicewright.io/layout-change"
"""On a node whose layout is being changed (`fleet_controller.layout_change.Change`)."""
ZONE_LABEL: Final = "topology.kubernetes.io/zone"

MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
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

EVENTS_NAMESPACE: Final = "default"
"""The API server accepts events about cluster-scoped objects in this namespace only."""
MAX_FAILING_NODES: Final = 20
"""In a pool's status, and with a Warning Event each."""

AGENT_PRIORITY_CLASS: Final = "system-node-critical"
"""A full node makes room for the agent, and the kubelet never evicts it under pressure. Source:
k8s.io/kubernetes v1.36.2, pkg/kubelet/eviction/eviction_manager.go (IsCriticalPod).
"""
CONTROLLER_PRIORITY_CLASS: Final = "system-cluster-critical"

AGENT_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": [REPORT_PLURAL], "verbs": ["get", "create", "patch"]},
)
"""ClusterRole of the agent. No right to change Nodes; `report_policy` narrows the reports."""

CONTROLLER_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    # To see whether pods still run on a node whose layout must change, and to ask them to leave. It
    # may delete none: an eviction respects the PodDisruptionBudgets.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
    {
        "apiGroups": [GROUP],
        "resources": [REPORT_PLURAL, POOL_PLURAL],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [GROUP], "resources": [f"{POOL_PLURAL}/status"], "verbs": ["patch"]},
    # To let go of a pool that is being deleted: finalizers are no part of the status.
    # `pool_policy` allows no more.
    {"apiGroups": [GROUP], "resources": [POOL_PLURAL], "verbs": ["patch"]},
    # To quote why NVIDIA's operator does not serve a node.
    {"apiGroups": ["nvidia.com"], "resources": [CLUSTER_POLICY_PLURAL], "verbs": ["list"]},
)
"""ClusterRole of the controller."""

CONTROLLER_NAMESPACE_RULES: Final[Mapping[str, tuple[Rule, ...]]] = {
    EVENTS_NAMESPACE: (
        {
            "apiGroups": [""],
            "resources": ["events"],
            "verbs": ["get", "list", "create", "patch", "delete"],
        },
    ),
    # To quote why an agent's DaemonSet cannot make its pods.
    NAMESPACE: ({"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},),
}
"""Namespace -> rules of the controller's Role there: it creates and deletes warnings about pools.
No leases, because there is no leader election.
"""


def crds() -> list[Manifest]:
    """The CustomResourceDefinitions of `GPUNodeReport` and `GPUPool`."""
    return [
        _crd(REPORT_KIND, REPORT_PLURAL, "gnr", _REPORT_SCHEMA, _REPORT_COLUMNS, subresources={}),
        _crd(
            POOL_KIND, POOL_PLURAL, "gp", _POOL_SCHEMA, _POOL_COLUMNS, subresources={"status": {}}
        ),
    ]


def report_policy(
    *,
    namespace: str = NAMESPACE,
    service_account: str = AGENT_SERVICE_ACCOUNT,
    name: str = "slicewright-node-reports",
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: an agent may write the report of its own node only.

    Its node is the one in its token's claims, which the API server adds when the kubelet requests
    the pod's token (ServiceAccountTokenPodNodeInfo, stable since Kubernetes 1.32). A token without
    it is refused. A new policy takes effect after about 0.3 s.
    """
    own_node = "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'].orValue([])"
    target = "(request.operation == 'DELETE' ? oldObject : object).metadata"
    validations = [
        {
            "expression": f"{own_node} == [{target}.name]",
            "messageExpression": "'an agent may write the report of its own node only; "
            "this token is bound to "
            "node \"' + "
            f"{own_node}.join(', ') + '\", the report is of node \"' + {target}.name + '\"'",
            "message": "an agent may write the report of its own node only",
            "reason": "Forbidden",
        },
        {
            # With another owner a report would not be deleted with its node.
            "expression": "request.operation == 'DELETE' || "
            "object.metadata.?ownerReferences.orValue([]).all(o, "
            "o.apiVersion == 'v1' && o.kind == 'Node' && o.name == object.metadata.name)",
            "message": "the only owner of a report must be the Node of the same name",
            "reason": "Forbidden",
        },
    ]
    return _limiting(
        "agent",
        f"system:serviceaccount:{namespace}:{service_account}",
        name=name,
        operations=["CREATE", "UPDATE", "DELETE"],
        resources=[REPORT_PLURAL, f"{REPORT_PLURAL}/*"],
        validations=validations,
    )


def pool_policy(
    *,
    namespace: str = NAMESPACE,
    service_account: str = CONTROLLER_SERVICE_ACCOUNT,
    name: str = "slicewright-pools",
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: of a pool the fleet controller may only write the
    status, and take its own finalizer away.

    RBAC has no rule for one field, and the status subresource does not take finalizers.
    """
    other = f"filter(f, f != {_cel_string(RELEASE_FINALIZER)})"
    unchanged = " && ".join(
        f"object.metadata.?{field}.orValue({{}}) == oldObject.metadata.?{field}.orValue({{}})"
        for field in ("labels", "annotations")
    )
    validation = {
        "expression": f"object.spec == oldObject.spec && {unchanged} && "
        f"object.metadata.?finalizers.orValue([]).{other} == "
        f"oldObject.metadata.?finalizers.orValue([]).{other}",
        "message": "of a pool, the fleet controller may write the status only, and "
        f"remove the finalizer {RELEASE_FINALIZER}",
        "reason": "Forbidden",
    }
    return _limiting(
        "controller",
        f"system:serviceaccount:{namespace}:{service_account}",
        name=name,
        operations=["UPDATE"],
        resources=[POOL_PLURAL],
        validations=[validation],
    )


def _limiting(
    who: str,
    user: str,
    *,
    name: str,
    operations: Sequence[str],
    resources: Sequence[str],
    validations: Sequence[Manifest],
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: what one user may do with resources of our API group.

    who: what the user is, for the name of the match condition.
    """
    rule = {
        "apiGroups": [GROUP],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }
    condition = {
        "name": f"is-{who}",
        "expression": f"request.userInfo.username == {_cel_string(user)}",
    }
    policy: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [condition],
            "validations": list(validations),
        },
    }
    return policy, _in_force(name)


def node_policy(
    *,
    admin_groups: Sequence[str],
    operator_account: str | None,
    selecting: Sequence[str] = (),
    namespace: str = NAMESPACE,
    service_account: str = CONTROLLER_SERVICE_ACCOUNT,
    name: str = "slicewright-nodes",
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: who may change how a pool's nodes are partitioned.

    On a node with the label `slicewright.io/pool`, only the fleet controller and members of
    `admin_groups` set, change or remove the label `nvidia.com/mig.config`, remove the startup
    taint, or take the node out of its pool (which would end this protection): change its label, a
    label of `selecting`, or the note of what an existing node has been brought. Every right to
    change Nodes includes these, and mig-manager and every kubelet have one.

    operator_account: user name of the GPU operator, which sets DEFAULT_MIG_CONFIG on a node without
    a layout; None where there is no operator. selecting: keys of the labels by which pools select
    existing nodes.

    Untouched: other labels and taints, cordons, the kubelet's status, and deletion, so that the
    controllers of Kubernetes and of the clouds, and `pulumi destroy`, work as without the policy. A
    new Node needs no startup taint here: its kubelet registers the taints of its node pool.

    It fails closed (`failurePolicy: Fail`). It has no parameters that could be missing, and every
    optional field is read as optional, so an expression has no error to fail with.
    """
    groups = ", ".join(map(_cel_string, admin_groups))
    who = (
        "the fleet controller"
        if not admin_groups
        else f"the fleet controller and members of {', '.join(admin_groups)}"
    )
    default = (
        " || (request.userInfo.username == "
        f"{_cel_string(operator_account)} && variables.configBefore == '' "
        f"&& variables.configNow == {_cel_string(DEFAULT_MIG_CONFIG)})"
        if operator_account
        else ""
    )
    policy: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        # Labels can be changed through the status too.
                        "resources": ["nodes", "nodes/status"],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "node-of-a-pool",
                    "expression": f"'{POOL_LABEL}' in object.metadata.?labels.orValue({{}}) || "
                    "(oldObject != null && "
                    f"'{POOL_LABEL}' in oldObject.metadata.?labels.orValue({{}}))",
                },
                {
                    "name": "not-the-fleet-controller",
                    "expression": "request.userInfo.username != "
                    + _cel_string(f"system:serviceaccount:{namespace}:{service_account}"),
                },
                {
                    "name": "not-an-administrator",
                    "expression": "!request.userInfo.?groups.orValue([]).exists(group, "
                    f"group in [{groups}])",
                },
            ],
            "variables": [
                {"name": "configNow", "expression": _label_of("object", MIG_CONFIG_LABEL)},
                {"name": "configBefore", "expression": _label_before(MIG_CONFIG_LABEL)},
                {"name": "poolNow", "expression": _label_of("object", POOL_LABEL)},
                {"name": "poolBefore", "expression": _label_before(POOL_LABEL)},
                {"name": "labelsNow", "expression": "object.metadata.?labels.orValue({})"},
                {
                    "name": "labelsBefore",
                    "expression": "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})",
                },
                {"name": "joinedNow", "expression": _note_of("object")},
                {
                    "name": "joinedBefore",
                    "expression": f"oldObject == null ? '' : {_note_of('oldObject')}",
                },
                {"name": "taintsNow", "expression": "object.?spec.?taints.orValue([])"},
                {
                    "name": "taintsBefore",
                    "expression": "oldObject == null ? [] : oldObject.?spec.?taints.orValue([])",
                },
            ],
            "validations": [
                {
                    "expression": f"variables.configNow == variables.configBefore{default}",
                    "message": f"only {who} may set, change or remove the label {MIG_CONFIG_LABEL} "
                    "of a slicewright node: it partitions the node's GPUs. Change the pool's "
                    "layout in the stack file instead",
                    "reason": "Forbidden",
                },
                {
                    # A taint with a weaker effect would be no better than none.
                    "expression": "variables.taintsBefore.all(before, "
                    f"before.key != '{STARTUP_TAINT_KEY}' || variables.taintsNow.exists(now, "
                    "now.key == before.key && now.effect == before.effect))",
                    "message": f"only {who} may remove the startup taint {STARTUP_TAINT_KEY}: "
                    "it keeps pods away until the node's GPUs are verified. The condition "
                    f"{NODE_CONDITION} of the node says what is missing",
                    "reason": "Forbidden",
                },
                {
                    "expression": "variables.poolBefore == '' || "
                    "variables.poolNow == variables.poolBefore",
                    "message": f"only {who} may change or remove the label {POOL_LABEL}: without "
                    "it the node would not be verified any more. Remove the node from its node "
                    "pool instead",
                    "reason": "Forbidden",
                },
                *_selected_still(selecting, who),
                {
                    "expression": "variables.poolBefore == '' || "
                    "variables.joinedNow == variables.joinedBefore",
                    "message": f"only {who} may change the annotation {JOINED_ANNOTATION}, by "
                    "which a node gets its labels back when it leaves its pool",
                    "reason": "Forbidden",
                },
            ],
        },
    }
    return policy, _in_force(name)


def _selected_still(selecting: Sequence[str], who: str) -> list[Manifest]:
    """The validation that a node of a pool keeps the labels by which it was selected."""
    if not selecting:
        return []
    keys = sorted(selecting)
    return [
        {
            "expression": "variables.poolBefore == '' || "
            f"[{', '.join(map(_cel_string, keys))}].all(key, "
            "variables.labelsNow[?key] == variables.labelsBefore[?key])",
            "message": f"only {who} may change the labels by which pools select nodes "
            f"({', '.join(keys)}) on a node of a pool: without them the node would not be "
            "verified any more",
            "reason": "Forbidden",
        }
    ]


def _note_of(node: str) -> str:
    return f"{node}.metadata.?annotations[?'{JOINED_ANNOTATION}'].orValue('')"


def _label_of(node: str, label: str) -> str:
    return f"{node}.metadata.?labels[?'{label}'].orValue('')"


def _label_before(label: str) -> str:
    return f"oldObject == null ? '' : {_label_of('oldObject', label)}"


def _cel_string(text: str) -> str:
    """A string literal of CEL, which has the escapes that json.dumps writes, but no surrogates.

    Source: CEL language definition, string and bytes values.
    """
    return json.dumps(text, ensure_ascii=False)


def _in_force(policy: str) -> Manifest:
    """The binding that makes a policy deny, everywhere, under the policy's name."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    }


def _crd(
    kind: str,
    plural: str,
    short: str,
    schema: Manifest,
    columns: list[Manifest],
    *,
    subresources: Manifest,
) -> Manifest:
    version: Manifest = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    }
    if subresources:
        version["subresources"] = subresources
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["slicewright"],
            },
            "versions": [version],
        },
    }


def _object(
    description: str, properties: Manifest, *, required: tuple[str, ...] = (), **more: Any
) -> Manifest:
    schema: Manifest = {
        "type": "object",
        "description": description,
        "properties": properties,
        **more,
    }
    if required:
        schema["required"] = list(required)
    return schema


def _string(description: str, **more: Any) -> Manifest:
    return {"type": "string", "description": description, **more}


def _count(description: str) -> Manifest:
    return {"type": "integer", "format": "int32", "minimum": 0, "description": description}


def _generation(description: str) -> Manifest:
    return {"type": "integer", "format": "int64", "description": description}


_CAMEL_CASE: Manifest = {"pattern": "^[A-Z][A-Za-z0-9]*$", "maxLength": 64}
_MIG_MODE: Manifest = {"type": "string", "enum": ["enabled", "disabled", "unsupported", "unknown"]}

_REPORT_SCHEMA: Manifest = _object(
    "What the agent on one GPU node read by NVML, compared with what the node's pool wants.",
    {
        "report": _object(
            "Written by the agent on the node, which replaces it as a whole.",
            {
                "verdict": _string(
                    "Match: the node is as its pool wants it. Mismatch: it is not. Unknown: the "
                    "agent could not find out, for example because the driver did not answer.",
                    enum=["Match", "Mismatch", "Unknown"],
                ),
                "reason": _string(
                    "Machine-readable reason of the verdict, in CamelCase; the codes are stable.",
                    **_CAMEL_CASE,
                ),
                "message": _string(
                    "Human-readable message: which GPU, what is wanted, what was found, the likely "
                    "cause, and what to do.",
                    maxLength=1024,
                ),
                "pool": _string("Name of the pool that the node was compared with.", maxLength=63),
                "observedHash": _string(
                    "SHA-256 of the desired state that the node was compared with.",
                    pattern="^[0-9a-f]{64}$",
                ),
                "bootID": _string(
                    "Boot ID of the node at that time. MIG partitions do not survive a reboot.",
                    maxLength=64,
                ),
                "time": _string("When the GPUs were read.", format="date-time"),
                "driver": _string(
                    "Version of the NVIDIA driver; absent if the driver did not answer.",
                    maxLength=80,
                ),
                "models": {
                    "type": "array",
                    "description": "Product names of the GPUs as NVML returns them, each once; "
                    "absent if NVML returned none.",
                    "maxItems": 64,
                    "items": {"type": "string", "maxLength": 96},
                },
                "gpus": {
                    "type": "array",
                    "description": "The GPUs as they were found; those in the same state share one "
                    "entry. Empty if the driver did not answer.",
                    "maxItems": 64,
                    "items": _object(
                        "GPUs in the same state. An entry with indexes alone stands for GPUs whose "
                        "state was left out to keep the report small.",
                        {
                            "indexes": {
                                "type": "array",
                                "description": "NVML indexes of these GPUs.",
                                "minItems": 1,
                                "maxItems": 64,
                                "items": {"type": "integer", "format": "int32", "minimum": 0},
                            },
                            "model": _string(
                                "Product name; absent if `models` has only one.", maxLength=96
                            ),
                            "mig": {**_MIG_MODE, "description": "Current MIG mode."},
                            "pending": {
                                **_MIG_MODE,
                                "description": "MIG mode after the next GPU reset; absent if equal "
                                "to `mig`.",
                            },
                            "instances": {
                                "type": "object",
                                "description": "Number of MIG devices by profile.",
                                "additionalProperties": {
                                    "type": "integer",
                                    "format": "int32",
                                    "minimum": 1,
                                },
                            },
                            "error": _string(
                                "The error with which the driver answered instead.", maxLength=256
                            ),
                        },
                        required=("indexes",),
                    ),
                },
            },
            required=("verdict", "reason", "message", "pool", "observedHash", "time"),
            # There is one writer. Without this, managedFields would be as large as the report.
            **{"x-kubernetes-map-type": "atomic"},
        ),
    },
    required=("report",),
)

_ROLLOUT_SCHEMA: Manifest = _object(
    "How a new MIG layout reaches nodes that are in service: a node is cordoned, its pods are "
    "evicted, its label is set, and it is verified before it takes pods again.",
    {
        "maxUnavailable": {
            "description": "Nodes of the pool that may be out of service for a change: a number, "
            "or a percentage, rounded down, of the pool's nodes; one node at least. Nodes that "
            "are out for another reason count.",
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "pattern": "^([1-9][0-9]?|100)%$",
            "default": 1,
        },
        "canary": {
            **_count(
                "Nodes that must be verified with the new layout before others are changed; 0 "
                "for none."
            ),
            "default": 1,
        },
        "oneZoneAtATime": {
            "type": "boolean",
            "description": "Whether nodes of different zones are never out together for a change.",
            "default": False,
        },
        "drain": _object(
            "How the pods of a node make room.",
            {
                "timeoutSeconds": {
                    "type": "integer",
                    "format": "int32",
                    "minimum": 1,
                    "description": "How long the pods of a node may take to leave.",
                    "default": 3600,
                },
                "onTimeout": _string(
                    "What follows where pods have not left in time. Stop: the node has failed. "
                    "Force: pods without a controller and with local data are evicted, too, and "
                    "have the same time again; disruption budgets are respected even then.",
                    enum=["Stop", "Force"],
                    default="Stop",
                ),
                "pods": _string(
                    "Which pods are evicted. GPU: those that request GPUs. All: those of "
                    "DaemonSets and static ones excepted, all. None: no pod; the change waits "
                    "until those that use the GPUs have ended.",
                    enum=["GPU", "All", "None"],
                    default="GPU",
                ),
                "deleteLocalData": {
                    "type": "boolean",
                    "description": "Whether pods with an emptyDir on disk are evicted: their data "
                    "are lost.",
                    "default": False,
                },
            },
            required=(),
            **{
                "default": {},
                "x-kubernetes-validations": [
                    {
                        # The default itself is checked before those within it are filled in.
                        "rule": "!(has(self.pods) && self.pods == 'None' && has(self.onTimeout) "
                        "&& self.onTimeout == 'Force')",
                        "message": "onTimeout must be Stop where no pod is evicted",
                    }
                ],
            },
        ),
        "maxFailures": {
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "description": "With so many failed nodes no further node is changed.",
            "default": 1,
        },
    },
)

_REPORT_COLUMNS: list[Manifest] = [
    {"name": "Pool", "type": "string", "jsonPath": ".report.pool"},
    {"name": "Verdict", "type": "string", "jsonPath": ".report.verdict"},
    {"name": "Reason", "type": "string", "jsonPath": ".report.reason"},
    {"name": "Looked", "type": "date", "jsonPath": ".report.time"},
    {"name": "Message", "type": "string", "jsonPath": ".report.message", "priority": 1},
]

_POOL_SCHEMA: Manifest = _object(
    "A pool of GPU nodes: how its nodes must be partitioned, and which of them verifiably are.",
    {
        "spec": _object(
            "Written by the Pulumi program.",
            {
                "selector": _object(
                    "Selects the nodes of the pool by their labels.",
                    {
                        "matchLabels": {
                            "type": "object",
                            "description": "Labels that a node must have, all of them.",
                            "minProperties": 1,
                            "additionalProperties": {"type": "string"},
                        }
                    },
                    required=("matchLabels",),
                ),
                "layoutHash": _string(
                    "SHA-256 of the desired state that every node's report must match.",
                    pattern="^[0-9a-f]{64}$",
                ),
                "expectedNodes": _object(
                    "How many nodes the pool may have. With fewer than `min`, it is not Verified.",
                    {
                        "min": _count("Minimum number of nodes."),
                        "max": _count("Maximum number of nodes."),
                    },
                    required=("min", "max"),
                    **{
                        "x-kubernetes-validations": [
                            {
                                "rule": "self.min <= self.max",
                                "message": "min must not be greater than max",
                            },
                        ]
                    },
                ),
                "migConfig": _string(
                    "Value of the label nvidia.com/mig.config that the fleet controller sets on "
                    "the pool's nodes; null or absent if mig-manager does not partition them.",
                    nullable=True,
                    pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
                    maxLength=63,
                ),
                "existingNodes": _object(
                    "For nodes that exist without the pool, as in a cluster that slicewright did "
                    "not create: what the fleet controller brings to every node that the selector "
                    "matches, and takes back when the node leaves the pool. Absent: the nodes "
                    "were created with their labels.",
                    {
                        "labels": {
                            "type": "object",
                            "description": "Labels of the pool's nodes.",
                            "additionalProperties": {"type": "string"},
                        },
                        "migLayoutOnRelease": _string(
                            "Keep: the partitions and the label nvidia.com/mig.config stay on a "
                            "node that leaves the pool. Disable: MIG is disabled first, once no "
                            "pod uses the node's GPUs.",
                            enum=["Keep", "Disable"],
                        ),
                    },
                    required=("labels",),
                ),
                "rolloutPolicy": _ROLLOUT_SCHEMA,
            },
            required=("selector", "layoutHash", "expectedNodes"),
        ),
        "status": _object(
            "Written by the fleet controller.",
            {
                "observedGeneration": _generation(
                    "The generation of the spec that the status describes."
                ),
                "waitingSince": _string(
                    "Since when this generation has waited to settle; absent once it has.",
                    format="date-time",
                ),
                "nodes": _object(
                    "Number of nodes, by state.",
                    {
                        "total": _count("Nodes that the selector matches."),
                        "verified": _count("Nodes whose report matches the layout."),
                        "failing": _count("Nodes that verifiably differ from the layout."),
                        "unknown": _count(
                            "Nodes without a valid report, or whose agent could not tell."
                        ),
                        "changing": _count("Nodes that are out of service for a new layout."),
                        "failed": _count(
                            "Of those, nodes whose change has failed; they stay cordoned."
                        ),
                    },
                ),
                "failingNodes": {
                    "type": "array",
                    "maxItems": MAX_FAILING_NODES,
                    "description": f"At most {MAX_FAILING_NODES} nodes that are not verified, "
                    "failing ones first.",
                    "items": _object(
                        "A node, and why it is not verified.",
                        {
                            "name": _string("Name of the Node."),
                            "reason": _string("Reason of the node's condition.", **_CAMEL_CASE),
                            "message": _string("Message of the node's condition."),
                        },
                        required=("name", "reason", "message"),
                    ),
                },
                "conditions": {
                    "type": "array",
                    "description": "Verified, Progressing, Degraded and Settled.",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": _object(
                        "One aspect of the pool's state, as in other Kubernetes APIs.",
                        {
                            "type": _string(
                                "Verified: all nodes match. Progressing: nodes are being set up or "
                                "missing. Degraded: nodes are neither verified nor being set up."
                            ),
                            "status": _string(
                                "True, False or Unknown.", enum=["True", "False", "Unknown"]
                            ),
                            "observedGeneration": _generation(
                                "The generation of the spec that the condition describes."
                            ),
                            "lastTransitionTime": _string(
                                "When `status` last changed.", format="date-time"
                            ),
                            "reason": _string(
                                "Machine-readable reason, in CamelCase.", **_CAMEL_CASE
                            ),
                            "message": _string("Human-readable message."),
                        },
                        required=(
                            "type",
                            "status",
                            "observedGeneration",
                            "lastTransitionTime",
                            "reason",
                            "message",
                        ),
                    ),
                },
            },
        ),
    },
    required=("spec",),
)

_POOL_COLUMNS: list[Manifest] = [
    {
        "name": "Verified",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Verified")].status',
    },
    {
        "name": "Reason",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Verified")].reason',
    },
    {"name": "Nodes", "type": "integer", "jsonPath": ".status.nodes.total"},
    {"name": "Proven", "type": "integer", "jsonPath": ".status.nodes.verified"},
    {"name": "Changing", "type": "integer", "jsonPath": ".status.nodes.changing"},
    {"name": "Failed", "type": "integer", "jsonPath": ".status.nodes.failed"},
    {"name": "Failing", "type": "integer", "jsonPath": ".status.nodes.failing"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {
        "name": "Message",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Verified")].message',
        "priority": 1,
    },
]

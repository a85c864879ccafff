"""The Kubernetes side of the contracts: names, the two custom resources, who may do what, and the
policy on reports.

Plain data, standard library only, because infra imports this module and creates what it says. What
each resource means:

`GPUNodeReport` (cluster scope, one per GPU node, named as the node, owned by the Node so that it
dies with it): everything under `report` is the agent's word and replaced as a whole. No status
subresource: the object is nothing but a report.

`GPUPool` (cluster scope, one per pool): `spec` is the program's, `status` the controller's. A
rollout policy joins `spec` with the rollout itself; until then the API server refuses or prunes the
key rather than accept one that does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""The prefix is the one that cluster autoscalers ignore when they simulate a new node; GKE's knows
no other. EKS allows 63 characters with the prefix (botocore's model of EKS, taintKey), and the
prefix has 47 of them.
"""
STARTUP_TAINT: Final[Mapping[str, str]] = {
    "key": STARTUP_TAINT_KEY,
    "value": "unverified",
    "effect": "NoSchedule",
}

MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
DEPLOY_LABEL_PREFIX: Final = "nvidia.com/gpu.deploy."

VERIFIED: Final = "Verified"
PROGRESSING: Final = "Progressing"
DEGRADED: Final = "Degraded"

EVENTS_NAMESPACE: Final = "default"
"""Events about cluster-scoped objects live in this namespace; the API server accepts them in no
other.
"""
MAX_FAILING_NODES: Final = 20

AGENT_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    {"apiGroups": [GROUP], "resources": [REPORT_PLURAL], "verbs": ["get", "create", "patch"]},
)
"""ClusterRole of the agent. No right to change a Node; `report_policy` narrows the reports to its
own node's.
"""

CONTROLLER_RULES: Final[tuple[Rule, ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    # To see whether a node whose layout must change still carries GPU pods.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {
        "apiGroups": [GROUP],
        "resources": [REPORT_PLURAL, POOL_PLURAL],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [GROUP], "resources": [f"{POOL_PLURAL}/status"], "verbs": ["patch"]},
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
}
"""Namespace -> rules of the controller's Role in it: its warnings about pools, which it also takes
back. One replica with strategy Recreate: no leases.
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
    """ValidatingAdmissionPolicy and its Binding: an agent writes the report of the node its own
    token is bound to, and no other.

    The node's name comes from the token, set by the API server when the kubelet asks for the pod's
    token (Kubernetes >= 1.32); a token without it is refused. A new policy takes about 0.3 s to
    bite. Source: operations.md 4.2 A.
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
            # An owner elsewhere would let a report outlive its node, or die with another one.
            "expression": "request.operation == 'DELETE' || "
            "object.metadata.?ownerReferences.orValue([]).all(o, "
            "o.apiVersion == 'v1' && o.kind == 'Node' && o.name == object.metadata.name)",
            "message": "a node's report is owned by that Node and by nothing else",
            "reason": "Forbidden",
        },
    ]
    policy: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [GROUP],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": [REPORT_PLURAL, f"{REPORT_PLURAL}/*"],
                    }
                ]
            },
            "matchConditions": [
                {
                    "name": "is-agent",
                    "expression": "request.userInfo.username == "
                    f"'system:serviceaccount:{namespace}:{service_account}'",
                }
            ],
            "validations": validations,
        },
    }
    binding: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


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


_CAMEL_CASE: Manifest = {"pattern": "^[A-Z][A-Za-z0-9]*$", "maxLength": 64}
_MIG_MODE: Manifest = {"type": "string", "enum": ["enabled", "disabled", "unsupported", "unknown"]}

_REPORT_SCHEMA: Manifest = _object(
    "What the agent of one GPU node found on the silicon, compared with what its pool wants.",
    {
        "report": _object(
            "Written by the node's own agent, as a whole.",
            {
                "verdict": _string(
                    "Match: everything wanted was found. Mismatch: something else was "
                    "found. Unknown: the agent could not tell.",
                    enum=["Match", "Mismatch", "Unknown"],
                ),
                "reason": _string("One stable CamelCase word for programs.", **_CAMEL_CASE),
                "message": _string(
                    "One sentence for people: which GPU, wanted, found, likely cause, next step.",
                    maxLength=1024,
                ),
                "pool": _string("The pool of the desired state that was compared.", maxLength=63),
                "observedHash": _string(
                    "SHA-256 of the desired state that was compared.", pattern="^[0-9a-f]{64}$"
                ),
                "bootID": _string(
                    "Boot id of the node when it was looked at; partitions do not survive a boot.",
                    maxLength=64,
                ),
                "time": _string("When the GPUs were looked at.", format="date-time"),
                "driver": _string(
                    "Version of the NVIDIA driver; absent where it did not answer.", maxLength=80
                ),
                "models": {
                    "type": "array",
                    "description": "Product names of the GPUs, each once, as NVML gives them; "
                    "absent "
                    "where none was told.",
                    "maxItems": 64,
                    "items": {"type": "string", "maxLength": 96},
                },
                "gpus": {
                    "type": "array",
                    "description": "The GPUs as found, those alike in one entry; empty where "
                    "the driver "
                    "did not answer.",
                    "maxItems": 64,
                    "items": _object(
                        "GPUs about which the same is to be said. With indexes alone: "
                        "there was no room for more.",
                        {
                            "indexes": {
                                "type": "array",
                                "description": "NVML indexes.",
                                "minItems": 1,
                                "maxItems": 64,
                                "items": {"type": "integer", "format": "int32", "minimum": 0},
                            },
                            "model": _string(
                                "Product name; absent where `models` has only one.", maxLength=96
                            ),
                            "mig": {**_MIG_MODE, "description": "MIG mode now."},
                            "pending": {
                                **_MIG_MODE,
                                "description": "MIG mode after the next reset; absent where "
                                "equal to "
                                "`mig`.",
                            },
                            "instances": {
                                "type": "object",
                                "description": "MIG profile -> number of MIG devices.",
                                "additionalProperties": {
                                    "type": "integer",
                                    "format": "int32",
                                    "minimum": 1,
                                },
                            },
                            "error": _string("What the driver answered instead.", maxLength=256),
                        },
                        required=("indexes",),
                    ),
                },
            },
            required=("verdict", "reason", "message", "pool", "observedHash", "time"),
            # One writer, one value: keeps managedFields at a line instead of a tree as large as the
            # report.
            **{"x-kubernetes-map-type": "atomic"},
        ),
    },
    required=("report",),
)

_REPORT_COLUMNS: list[Manifest] = [
    {"name": "Pool", "type": "string", "jsonPath": ".report.pool"},
    {"name": "Verdict", "type": "string", "jsonPath": ".report.verdict"},
    {"name": "Reason", "type": "string", "jsonPath": ".report.reason"},
    {"name": "Looked", "type": "date", "jsonPath": ".report.time"},
    {"name": "Message", "type": "string", "jsonPath": ".report.message", "priority": 1},
]

_POOL_SCHEMA: Manifest = _object(
    "One pool of GPU nodes: what it must be, and what of it is proven.",
    {
        "spec": _object(
            "Written by the Pulumi program.",
            {
                "selector": _object(
                    "Which nodes belong to the pool.",
                    {
                        "matchLabels": {
                            "type": "object",
                            "minProperties": 1,
                            "additionalProperties": {"type": "string"},
                        }
                    },
                    required=("matchLabels",),
                ),
                "layoutHash": _string(
                    "SHA-256 of the desired state that every node must report to match.",
                    pattern="^[0-9a-f]{64}$",
                ),
                "expectedNodes": _object(
                    "How many nodes the pool may have. Fewer than min are never Verified.",
                    {"min": _count("Fewest nodes."), "max": _count("Most nodes.")},
                    required=("min", "max"),
                    **{
                        "x-kubernetes-validations": [
                            {
                                "rule": "self.min <= self.max",
                                "message": "min must not be above max",
                            },
                        ]
                    },
                ),
                "migConfig": _string(
                    "Value of the label nvidia.com/mig.config that the controller gives "
                    "the pool's nodes; null or absent "
                    "where mig-manager does not partition them.",
                    nullable=True,
                    pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
                    maxLength=63,
                ),
            },
            required=("selector", "layoutHash", "expectedNodes"),
        ),
        "status": _object(
            "Written by the fleet controller.",
            {
                "observedGeneration": {"type": "integer", "format": "int64"},
                "nodes": _object(
                    "The pool's nodes by what is known of them.",
                    {
                        "total": _count("Nodes that the selector finds."),
                        "verified": _count("Proven on their own silicon to be as the layout says."),
                        "failing": _count("Proven to be something else."),
                        "unknown": _count("Not proven yet, or not any more."),
                    },
                ),
                "failingNodes": {
                    "type": "array",
                    "maxItems": MAX_FAILING_NODES,
                    "description": f"The first {MAX_FAILING_NODES} nodes that are not "
                    "verified, failing "
                    "ones first.",
                    "items": _object(
                        "One node and why it is not verified.",
                        {
                            "name": _string("Name of the Node."),
                            "reason": _string("Reason of its condition.", **_CAMEL_CASE),
                            "message": _string("Message of its condition."),
                        },
                        required=("name", "reason", "message"),
                    ),
                },
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": _object(
                        "A condition as Kubernetes has them.",
                        {
                            "type": _string("Verified, Progressing or Degraded."),
                            "status": _string(
                                "True, False or Unknown.", enum=["True", "False", "Unknown"]
                            ),
                            "observedGeneration": {"type": "integer", "format": "int64"},
                            "lastTransitionTime": _string(
                                "When `status` last changed.", format="date-time"
                            ),
                            "reason": _string("One CamelCase word.", **_CAMEL_CASE),
                            "message": _string("One sentence for people."),
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
    {"name": "Failing", "type": "integer", "jsonPath": ".status.nodes.failing"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {
        "name": "Message",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Verified")].message',
        "priority": 1,
    },
]

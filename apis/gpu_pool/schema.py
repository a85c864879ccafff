"""The schema of a GPUPool, and the columns of `kubectl get gpupools`."""

from __future__ import annotations

from slicewright.apis.gpu_pool import rollout_policy
from slicewright.apis.label_keys import MOST_KEYS
from slicewright.apis.names import (
    LONGEST_DESIRED,
    MAX_FAILING_NODES,
    MOST_REMEMBERED,
    NOT_OBSERVED,
    Manifest,
)
from slicewright.apis.openapi import CAMEL_CASE, count, generation, object_of, text
from slicewright.apis.shares.engines import ENGINES

_CONDITION_TYPES = (
    "Verified: the nodes match the layout that the spec declares, except for those that "
    "rolloutPolicy tolerates, and those that join later and are held until they are proven. "
    "Progressing: nodes are being set up or changed, or are missing. Degraded: nodes are neither "
    "verified nor being set up or changed, or there have been too few for half an hour. Settled: "
    "waiting changes nothing, because the pool is verified or needs a repair. Ready, Reconciling "
    "and Stalled are those of kstatus: Ready is Verified; Stalled says that it is not, and needs a "
    "repair or a decision; Reconciling is everything in between."
)

SCHEMA: Manifest = object_of(
    "A pool of GPU nodes: how its nodes must be partitioned, and which of them verifiably are.",
    {
        "spec": object_of(
            "Written by the Pulumi program.",
            {
                "selector": object_of(
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
                "layoutHash": text(
                    "SHA-256 of the desired state that every node's report must match.",
                    pattern="^[0-9a-f]{64}$",
                ),
                "expectedNodes": object_of(
                    "How many nodes the pool may have. With fewer than `min`, it is not Verified.",
                    {
                        "min": count("Minimum number of nodes."),
                        "max": count("Maximum number of nodes."),
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
                "migConfig": text(
                    "Value of the label nvidia.com/mig.config that the fleet controller sets on "
                    "the pool's nodes; null or absent if mig-manager does not partition them.",
                    nullable=True,
                    pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
                    maxLength=63,
                ),
                "driverVersion": text(
                    "Version of NVIDIA's driver that every node must have. Where a node has "
                    "another one, its driver pod is replaced, by the rollout policy. Absent: the "
                    "fleet controller changes no driver.",
                    pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$",
                    maxLength=32,
                ),
                "desiredState": text(
                    "What every node's agent must find, whose hash layoutHash is: kept for an undo "
                    "of a later layout. Absent if mig-manager does not partition the nodes.",
                    maxLength=LONGEST_DESIRED,
                ),
                "existingNodes": object_of(
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
                        "migLayoutOnRelease": text(
                            "Keep: the partitions and the label nvidia.com/mig.config stay on a "
                            "node that leaves the pool. Disable: MIG is disabled first, once no "
                            "pod uses the node's GPUs.",
                            enum=["Keep", "Disable"],
                        ),
                    },
                    required=("labels",),
                ),
                "shares": object_of(
                    "The engine that shares the GPUs of the nodes by fractions. Absent if none "
                    "does.",
                    {
                        "engine": text("HAMi or Volcano.", enum=list(ENGINES)),
                        "namespace": text("Namespace of the engine's scheduler.", maxLength=63),
                        "memoryUnitMiB": {
                            **count("MiB in one unit of requested memory."),
                            "minimum": 1,
                        },
                    },
                    required=("engine", "namespace", "memoryUnitMiB"),
                ),
                "rolloutPolicy": rollout_policy.SCHEMA,
            },
            required=("selector", "layoutHash", "expectedNodes"),
        ),
        "status": object_of(
            "Written by the fleet controller.",
            {
                "observedGeneration": generation(
                    "The generation of the spec that the status describes; -1 until the fleet "
                    "controller has looked at the pool."
                ),
                "layout": text(
                    "Value of nvidia.com/mig.config that the nodes are to have now: migConfig, or "
                    "an earlier one where the change to it is undone."
                ),
                "provenLayouts": {
                    "type": "array",
                    "maxItems": MOST_REMEMBERED,
                    "description": "Layouts with which the pool was verified, the last one first: "
                    "what an undo goes back to.",
                    "items": object_of(
                        "As in the spec of that time.",
                        {
                            "migConfig": text("Value of nvidia.com/mig.config."),
                            "layoutHash": text("SHA-256 of desiredState."),
                            "desiredState": text(
                                "What every node's agent must find.", maxLength=LONGEST_DESIRED
                            ),
                        },
                        required=("migConfig", "layoutHash", "desiredState"),
                    ),
                },
                "broughtLabels": {
                    "type": "array",
                    "maxItems": MOST_KEYS,
                    "description": "Keys of the labels that existing nodes of the pool are "
                    "brought, or were brought earlier: the only ones that a node gets back.",
                    "items": {"type": "string", "maxLength": 317},
                },
                "tooFewSince": text(
                    "Since when there have been fewer nodes than expectedNodes.min; absent if "
                    "there are enough.",
                    format="date-time",
                ),
                "waitingSince": text(
                    "Since when this generation has waited to settle; absent once it has.",
                    format="date-time",
                ),
                "nodes": object_of(
                    "Number of nodes, by state.",
                    {
                        "total": count("Nodes that the selector matches."),
                        "verified": count("Nodes whose report matches the layout."),
                        "failing": count("Nodes that verifiably differ from the layout."),
                        "unknown": count(
                            "Nodes without a valid report, or whose agent could not read the GPUs."
                        ),
                        "changing": count(
                            "Nodes that are out of service for a new layout or driver."
                        ),
                        "failed": count(
                            "Of those, nodes whose change has failed; they stay cordoned."
                        ),
                    },
                ),
                "failingNodes": {
                    "type": "array",
                    "maxItems": MAX_FAILING_NODES,
                    "description": f"At most {MAX_FAILING_NODES} nodes that are not verified, "
                    "failing ones first.",
                    "items": object_of(
                        "A node, and why it is not verified.",
                        {
                            "name": text("Name of the Node."),
                            "reason": text("Reason of the node's condition.", **CAMEL_CASE),
                            "message": text("Message of the node's condition."),
                        },
                        required=("name", "reason", "message"),
                    ),
                },
                "conditions": {
                    "type": "array",
                    "description": "Verified, Progressing, Degraded and Settled; and, for kstatus, "
                    "Ready, Reconciling and Stalled.",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": object_of(
                        "One aspect of the pool's state, as in other Kubernetes APIs.",
                        {
                            "type": text(_CONDITION_TYPES),
                            "status": text(
                                "True, False or Unknown.", enum=["True", "False", "Unknown"]
                            ),
                            "observedGeneration": generation(
                                "The generation of the spec that the condition describes."
                            ),
                            "lastTransitionTime": text(
                                "When `status` last changed.", format="date-time"
                            ),
                            "reason": text("Machine-readable reason, in CamelCase.", **CAMEL_CASE),
                            "message": text("Human-readable message."),
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
            default={"observedGeneration": NOT_OBSERVED},
        ),
    },
    required=("spec",),
)

COLUMNS: list[Manifest] = [
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
    # The minimum, because one path cannot show a range.
    {"name": "Wanted", "type": "integer", "jsonPath": ".spec.expectedNodes.min"},
    {"name": "Nodes", "type": "integer", "jsonPath": ".status.nodes.total"},
    {"name": "Proven", "type": "integer", "jsonPath": ".status.nodes.verified"},
    {"name": "Changing", "type": "integer", "jsonPath": ".status.nodes.changing"},
    {"name": "Failed", "type": "integer", "jsonPath": ".status.nodes.failed"},
    {"name": "Failing", "type": "integer", "jsonPath": ".status.nodes.failing"},
    {"name": "Layout", "type": "string", "jsonPath": ".status.layout"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {
        "name": "Message",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Verified")].message',
        "priority": 1,
    },
]

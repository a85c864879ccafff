"""The schema of `rolloutPolicy` of a GPUPool, with its defaults. `rollout_policy` reads it."""

from __future__ import annotations

from apis.names import Manifest
from apis.openapi import count, object_of, text

SCHEMA: Manifest = object_of(
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
            **count(
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
        "drain": object_of(
            "How the pods of a node make room.",
            {
                "timeoutSeconds": {
                    "type": "integer",
                    "format": "int32",
                    "minimum": 1,
                    "description": "How long the pods of a node may take to leave.",
                    "default": 3600,
                },
                "onTimeout": text(
                    "What follows where pods have not left in time. Stop: the node has failed. "
                    "Force: pods without a controller and with local data are evicted, too, and "
                    "have the same time again; disruption budgets are respected even then.",
                    enum=["Stop", "Force"],
                    default="Stop",
                ),
                "pods": text(
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
            "description": "With so many failed nodes no further node is changed: a number, or a "
            "percentage, rounded down, of the pool's nodes; one node at least.",
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "pattern": "^([1-9][0-9]?|100)%$",
            "default": 1,
        },
        "maxFailuresInARow": {
            "type": "integer",
            "format": "int32",
            "minimum": 1,
            "description": "No further node is changed either when so many have failed since the "
            "change of one has last ended well; absent for no such limit.",
        },
        "tolerateUnproven": {
            "description": "Nodes of the pool that may be unproven though the pool is Verified: a "
            "number, or a percentage, rounded down, of the pool's nodes. They are held, counted "
            "and shown all the same. Nodes that are being set up or changed are waited for until "
            "the pool is Verified.",
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "pattern": "^([0-9]|[1-9][0-9]|100)%$",
            "default": 0,
        },
        "quarantine": text(
            "What becomes of the pods on a node whose GPUs are definitely not as wanted. None: "
            "they stay, and no others come. NoExecute: the startup taint gets this effect, "
            "too, so that the pods end, whatever disruption budgets say; at most on maxUnavailable "
            "nodes at a time.",
            enum=["None", "NoExecute"],
            default="None",
        ),
    },
    required=(),
    **{
        "x-kubernetes-validations": [
            {
                "rule": "!has(self.maxFailuresInARow) || type(self.maxFailures) == string || "
                "self.maxFailuresInARow <= self.maxFailures",
                "message": "maxFailuresInARow must not be greater than maxFailures, with which "
                "the rollout stops anyway",
            }
        ]
    },
)

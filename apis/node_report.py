"""The schema of a GPUNodeReport, and the columns of `kubectl get gpunodereports`."""

from __future__ import annotations

from slicewright.apis.names import Manifest
from slicewright.apis.openapi import CAMEL_CASE, count, object_of, text

_PROOF_OUTCOME: Manifest = {"type": "string", "enum": ["computed", "failed", "untried"]}
_GIGABYTES_PER_SECOND: Manifest = {"type": "integer", "format": "int32", "minimum": 0}

_COMPUTE: Manifest = object_of(
    "The proof that a program computes on the node's partitions and whole GPUs, in their current "
    "state. Absent: there is no proof of this state.",
    {
        "key": text(
            "Digest of the state that was proven: node, boot, driver, layout and UUIDs.",
            pattern="^[0-9a-f]{32}$",
        ),
        "outcome": {
            **_PROOF_OUTCOME,
            "description": "computed: on every device. failed: not on at least one. untried: the "
            "proof could not be tried on at least one.",
        },
        "seconds": {
            "type": "number",
            "description": "Duration of the whole proof.",
            "minimum": 0,
        },
        "deviceCount": count("Number of partitions and whole GPUs of the proof."),
        "devices": {
            "type": "array",
            "description": "Devices, those that did not compute first; as many as fit into a small "
            "report.",
            "maxItems": 128,
            "items": object_of(
                "A partition or a whole GPU.",
                {
                    "uuid": text("UUID in CUDA's and NVML's form.", maxLength=96),
                    "outcome": {**_PROOF_OUTCOME, "description": "The same for this device."},
                    "writeGBps": {
                        **_GIGABYTES_PER_SECOND,
                        "description": "Bandwidth of writing its memory, in gigabytes a second.",
                    },
                    "readGBps": {
                        **_GIGABYTES_PER_SECOND,
                        "description": "Bandwidth of reading its memory, in gigabytes a second.",
                    },
                    "error": text("CUDA's or the proof's name of the failure.", maxLength=96),
                },
                required=("uuid", "outcome"),
            ),
        },
    },
    required=("key", "outcome", "seconds", "deviceCount", "devices"),
)

_MIG_MODE: Manifest = {"type": "string", "enum": ["enabled", "disabled", "unsupported", "unknown"]}

SCHEMA: Manifest = object_of(
    "What the agent on one GPU node read by NVML, compared with what the node's pool wants.",
    {
        "report": object_of(
            "Written by the agent on the node, which replaces it as a whole.",
            {
                "verdict": text(
                    "Match: the node is as its pool wants it. Mismatch: it is not. Unknown: the "
                    "agent could not find out, for example because the driver did not answer.",
                    enum=["Match", "Mismatch", "Unknown"],
                ),
                "reason": text(
                    "Machine-readable reason of the verdict, in CamelCase; the codes are stable.",
                    **CAMEL_CASE,
                ),
                "message": text(
                    "Human-readable message: which GPU, what is wanted, what was found, the likely "
                    "cause, and what to do.",
                    maxLength=1024,
                ),
                "pool": text("Name of the pool that the node was compared with.", maxLength=63),
                "observedHash": text(
                    "SHA-256 of the desired state that the node was compared with.",
                    pattern="^[0-9a-f]{64}$",
                ),
                "bootID": text(
                    "Boot ID of the node at that time. MIG partitions do not survive a reboot.",
                    maxLength=64,
                ),
                # Without the pattern, `date-time` allows years 1 and 9999 and lower case letters.
                "time": text(
                    "When the GPUs were read.",
                    format="date-time",
                    pattern="^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
                    maxLength=20,
                ),
                "driver": text(
                    "Version of the NVIDIA driver; absent if the driver did not answer.",
                    maxLength=80,
                ),
                "compute": _COMPUTE,
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
                    "items": object_of(
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
                            "model": text(
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
                            "error": text(
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

COLUMNS: list[Manifest] = [
    {"name": "Pool", "type": "string", "jsonPath": ".report.pool"},
    {"name": "Verdict", "type": "string", "jsonPath": ".report.verdict"},
    {"name": "Reason", "type": "string", "jsonPath": ".report.reason"},
    {"name": "Looked", "type": "date", "jsonPath": ".report.time"},
    {"name": "Message", "type": "string", "jsonPath": ".report.message", "priority": 1},
]

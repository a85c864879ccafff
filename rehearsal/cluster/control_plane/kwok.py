"""kwok's configuration: it keeps nodes Ready and simulates the pods that have no process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from rehearsal.cluster.control_plane.process_images import Operands, pattern

_STAGES = Path(__file__).parent / "stages"
NODE_ANNOTATION = "kwok.x-k8s.io/node=fake"
"""Nodes that kwok manages carry this annotation."""
LEASE_S = 40
"""Seconds that a node's lease lasts, as the kubelet's; renewed every quarter of it."""


def stages(operands: Operands) -> str:
    """kwok's Stages as YAML documents; those for pods leave out images that run as processes."""
    documents: list[dict[str, Any]] = []
    for path in sorted(_STAGES.glob("*.yaml")):
        documents += [document for document in yaml.safe_load_all(path.read_text()) if document]
    for document in documents:
        if document["spec"]["resourceRef"]["kind"] == "Pod":
            document["spec"]["selector"]["matchExpressions"].append(_not_a_process(operands))
    return yaml.safe_dump_all(documents, sort_keys=False, width=10_000)


def _not_a_process(operands: Operands) -> dict[str, Any]:
    # A jq string literal has JSON's escapes, and kwok compares the boolean's name. A pod without an
    # image matches nothing.
    expression = json.dumps(pattern(operands))
    return {
        "jq": {
            "key": f'.spec.containers[0] | .image + " " + .name | test({expression})',
            "operator": "In",
            "values": ["false"],
        }
    }

"""The record of a cluster that `slicewright destroy` writes before it deletes the cluster.

The record is an output of the stack in Pulumi's state: as safe as the state, on every machine, and
gone with the next `pulumi up`, which writes the outputs anew (docs/adr/teardown-record.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from slicewright.teardown.sweep.life import Life, fields_of, life_from

STACK: Final = "pulumi:pulumi:Stack"
"""The type of the resource that every stack has and that is deleted last."""
OUTPUT: Final = "slicewright:destroy"
_VERSION: Final = 1


def record_of(resource: Mapping[str, Any]) -> str:
    """resource: the stack's resource in a state. Empty if there is no record."""
    written = (resource.get("outputs") or {}).get(OUTPUT)
    return written if isinstance(written, str) else ""


def record_text(life: Life, cluster: str, location: str) -> str:
    about = {"version": _VERSION, "cluster": cluster, "location": location}
    return json.dumps({**about, "life": fields_of(life)}, sort_keys=True)


def recorded_life(text: str, cluster: str, location: str) -> Life:
    """Returns an empty life if the record is for another cluster, or cannot be read."""
    try:
        read = json.loads(text)
        of = (read["version"], read["cluster"], read["location"])
        return life_from(read["life"]) if of == (_VERSION, cluster, location) else Life()
    except (KeyError, TypeError, ValueError, RecursionError):
        return Life()


def with_record(
    exported: Mapping[str, Any], stack: Mapping[str, Any] | None, text: str
) -> Mapping[str, Any] | None:
    """Returns the state with that record, or None if there is nothing to write, or no place for it.

    stack: the last known resource of the stack, for a state that is empty by now. text: empty to
    remove the record. A state that has nothing else left is then emptied again.
    """
    deployment = exported["deployment"]
    resources = list(deployment.get("resources") or ())
    at = next((i for i, r in enumerate(resources) if r["type"] == STACK), None)
    if at is None:
        if not text or stack is None or resources:
            return None
        resources, at = [dict(stack)], 0
    if record_of(resources[at]) == text and deployment.get("resources"):
        return None
    outputs = {k: v for k, v in (resources[at].get("outputs") or {}).items() if k != OUTPUT}
    if text:
        outputs[OUTPUT] = text
    resources[at] = {**resources[at], "outputs": outputs}
    if not text and len(resources) == 1:
        resources = []
    return {**exported, "deployment": {**deployment, "resources": resources}}

"""What `slicewright destroy` writes down of a cluster before it deletes it, and where.

It is an output of the stack in Pulumi's state: as safe as the state, on every machine, and gone
with the next `pulumi up`, which writes the outputs anew (docs/adr/teardown-record.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from slicewright.teardown.life import Life, fields_of, life_from

STACK: Final = "pulumi:pulumi:Stack"
"""Type of the resource that every stack has, and that goes last."""
OUTPUT: Final = "slicewright:destroy"
_VERSION: Final = 1


def record_of(resource: Mapping[str, Any]) -> str:
    """resource: the stack, of a state; empty without a record."""
    written = (resource.get("outputs") or {}).get(OUTPUT)
    return written if isinstance(written, str) else ""


def record_text(life: Life, cluster: str, location: str) -> str:
    about = {"version": _VERSION, "cluster": cluster, "location": location}
    return json.dumps({**about, "life": fields_of(life)}, sort_keys=True)


def recorded_life(text: str, cluster: str, location: str) -> Life:
    """An empty one where the record is of another cluster, or cannot be read."""
    try:
        read = json.loads(text)
        of = (read["version"], read["cluster"], read["location"])
        return life_from(read["life"]) if of == (_VERSION, cluster, location) else Life()
    except (KeyError, TypeError, ValueError):
        return Life()


def with_record(
    exported: Mapping[str, Any], stack: Mapping[str, Any] | None, text: str
) -> Mapping[str, Any] | None:
    """The state with that record; None where there is nothing to write, or nowhere.

    stack: the resource of the stack as it last was, for a state that is empty by now. text: empty
    to take the record away; then a state in which nothing else is left is emptied again.
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

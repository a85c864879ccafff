"""Whether Pulumi's state of a stack has a resource: what a stack made may exist."""

from __future__ import annotations

import json
import os
import subprocess

from slicewright.doctor.findings import Owned


def owned(stack: str | None, resource_type: str, resource_id: str) -> Owned:
    """stack: None where only a file is known. resource_type: as in Pulumi's URNs."""
    if stack is None:
        return "unknown"
    try:
        done = subprocess.run(
            ["pulumi", "stack", "export", "--non-interactive", "--stack", stack],
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return "unknown"
    if done.returncode:
        # Of a stack that does not exist yet, nothing is made.
        return "no" if "no stack named" in done.stderr else "unknown"
    try:
        resources = json.loads(done.stdout)["deployment"].get("resources") or []
        there = any(
            r.get("type") == resource_type and r.get("id") == resource_id for r in resources
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return "unknown"
    return "yes" if there else "no"

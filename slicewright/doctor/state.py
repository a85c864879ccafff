"""Reads a stack's resources from Pulumi's state: resources that the stack created may exist."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any, Final

from slicewright.doctor.findings import Owned

_ROLE: Final = "aws:iam/role:Role"
_COMPONENT: Final = "eks-"
"""The prefix of the names of an EKS cluster's resources."""


class UnknownState(Exception):
    """Pulumi does not show the stack's state. The message says why."""


def owned(stack: str | None, resource_type: str, resource_id: str) -> Owned:
    """Returns whether the stack's state has the resource.

    stack: None if only a file is known. resource_type: the type in Pulumi's URNs.
    """
    if stack is None:
        return "unknown"
    try:
        resources = _resources(stack)
    except UnknownState:
        return "unknown"
    exists = any(r.get("type") == resource_type and r.get("id") == resource_id for r in resources)
    return "yes" if exists else "no"


def role_names(stack: str) -> Mapping[str, str]:
    """Part of the stack -> name of its IAM role. Empty for a stack that does not exist yet.

    Raises UnknownState.
    """
    return {
        str(resource.get("urn", "")).rpartition("::")[2].removeprefix(_COMPONENT): str(
            resource["id"]
        )
        for resource in _resources(stack)
        if resource.get("type") == _ROLE and resource.get("id") and not resource.get("delete")
    }


def _resources(stack: str) -> list[dict[str, Any]]:
    """Raises UnknownState."""
    try:
        done = subprocess.run(
            ["pulumi", "stack", "export", "--non-interactive", "--stack", stack],
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as e:
        raise UnknownState(f"cannot start pulumi: {e.strerror}") from None
    if done.returncode:
        if "no stack named" in done.stderr:
            return []
        raise UnknownState(f"pulumi stack export: {done.stderr.strip()}")
    try:
        resources = json.loads(done.stdout)["deployment"].get("resources") or []
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnknownState("the output of `pulumi stack export` is not a state") from None
    if not all(isinstance(resource, dict) for resource in resources):
        raise UnknownState("the output of `pulumi stack export` is not a state")
    return list(resources)

"""Reads a stack's resources from Pulumi's state: resources that the stack created may exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slicewright.doctor.findings import Owned
from slicewright.processes.foreign_json import NotReadable
from slicewright.processes.programs import ProgramFailed
from slicewright.processes.pulumi import run_pulumi
from slicewright.processes.pulumi_state import read_state

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
        export = run_pulumi("stack", "export", "--non-interactive", "--stack", stack)
    except ProgramFailed as e:
        raise UnknownState(str(e)) from None
    if export.code:
        if "no stack named" in export.complaint:
            return []
        raise UnknownState(f"pulumi stack export: {export.complaint}")
    try:
        deployment = read_state(export.stdout)["deployment"]
    except NotReadable as e:
        raise UnknownState(f"cannot parse the output of `pulumi stack export`: {e}") from None
    return list(deployment.get("resources") or ())

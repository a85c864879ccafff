"""What a project's ID determines, and which project a request is about."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

_IN_A_NAME = re.compile(r"projects/([^/]+)")


def project_number(project: str) -> str:
    """The number by which Google's messages and IAM name a project: 12 digits, always the same."""
    digest = int(hashlib.sha256(project.encode()).hexdigest(), 16)
    return str(10**11 + digest % (9 * 10**11))


def project_of(params: Mapping[str, Any]) -> str | None:
    """The ID of the project that a request's parameters name; None if they name none."""
    for name in ("project", "name", "parent", "resource", "projectId"):
        value = params.get(name)
        if not isinstance(value, str):
            continue
        match = _IN_A_NAME.match(value)
        if match:
            return match.group(1)
        if "/" not in value and name in ("project", "resource", "projectId"):
            return value
    return None

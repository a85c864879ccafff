"""Pieces of which the admission policies are made: literals of CEL, and bindings. Plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable

from fleet_controller.api import Manifest


def literal(text: str) -> str:
    """A string literal of CEL, which has the escapes that json.dumps writes, but no surrogates.

    Source: CEL language definition, string and bytes values.
    """
    return json.dumps(text, ensure_ascii=False)


def literals(texts: Iterable[str]) -> str:
    """A list of string literals."""
    return f"[{', '.join(map(literal, texts))}]"


def in_force(policy: str) -> Manifest:
    """The binding that makes a policy deny, everywhere, under the policy's name."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {"policyName": policy, "validationActions": ["Deny"]},
    }

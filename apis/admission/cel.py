"""The form of an admission policy with its binding, and literals of CEL. Plain data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from slicewright.apis.names import Manifest


def literal(text: str) -> str:
    """A string literal of CEL, which has the escapes that json.dumps writes, but no surrogates.

    Source: CEL language definition, string and bytes values.
    """
    return json.dumps(text, ensure_ascii=False)


def literals(texts: Iterable[str]) -> str:
    """Returns a CEL list of string literals."""
    return f"[{', '.join(map(literal, texts))}]"


def service_account_user(namespace: str, name: str) -> str:
    """Returns the user name of a service account's requests."""
    return f"system:serviceaccount:{namespace}:{name}"


def rule(operations: Sequence[str], resources: Sequence[str], *, group: str = "") -> Manifest:
    """Returns the requests that a policy examines.

    group: the API group, empty for the core group.
    """
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def policy(
    name: str,
    *,
    rules: Sequence[Manifest],
    conditions: Sequence[Manifest],
    validations: Sequence[Manifest],
    variables: Sequence[Manifest] = (),
) -> tuple[Manifest, Manifest]:
    """Returns the ValidatingAdmissionPolicy and a Binding that denies everywhere and fails
    closed.
    """
    body: Manifest = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": list(rules)},
            "matchConditions": list(conditions),
            **({"variables": list(variables)} if variables else {}),
            "validations": list(validations),
        },
    }
    return body, _binding(name)


def _binding(name: str) -> Manifest:
    """The binding that makes a policy deny, everywhere, under the policy's name."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }

"""The admission policy on the pods that the fleet controller creates and deletes. Plain data.

RBAC cannot limit a creation by name or content. This policy leaves the controller pods that prove a
node: with the privileges of an ordinary tenant, and without a token.
"""

from __future__ import annotations

from slicewright.apis.admission.cel import literal, policy, rule, service_account_user
from slicewright.apis.names import (
    CONTROLLER_SERVICE_ACCOUNT,
    NAMESPACE,
    PROOF_POD_PREFIX,
    Manifest,
)


def proof_pod_policy(
    *,
    namespace: str = NAMESPACE,
    service_account: str = CONTROLLER_SERVICE_ACCOUNT,
    name: str = "slicewright-controller-pods",
) -> tuple[Manifest, Manifest]:
    """Returns the ValidatingAdmissionPolicy and Binding for the fleet controller's pods."""
    user = literal(service_account_user(namespace, service_account))
    return policy(
        name,
        rules=[rule(["CREATE", "UPDATE", "DELETE"], ["pods"])],
        conditions=[
            {"name": "is-controller", "expression": f"request.userInfo.username == {user}"}
        ],
        validations=[
            _own_names(),
            *(_on_creation(expression, rule_text) for expression, rule_text in _LIMITS.items()),
        ],
    )


def _own_names() -> Manifest:
    target = "(request.operation == 'DELETE' ? oldObject : object).metadata"
    message = f"the fleet controller may touch only pods whose name starts with {PROOF_POD_PREFIX}"
    return {
        "expression": f"{target}.name.startsWith({literal(PROOF_POD_PREFIX)})",
        "message": message,
        "reason": "Forbidden",
    }


_SPEC = "object.spec"
_LIMITS = {
    f"{_SPEC}.?automountServiceAccountToken.orValue(true) == false": "has no token",
    f"!{_SPEC}.?hostNetwork.orValue(false) && !{_SPEC}.?hostPID.orValue(false) && "
    f"!{_SPEC}.?hostIPC.orValue(false)": "shares no namespace of the host",
    f"{_SPEC}.?volumes.orValue([]).all(volume, has(volume.configMap))": "mounts ConfigMaps only",
    f"{_SPEC}.?initContainers.orValue([]).size() == 0 && {_SPEC}.containers.all(container, "
    "container.?securityContext.?allowPrivilegeEscalation.orValue(true) == false && "
    "container.?securityContext.?privileged.orValue(false) == false)": "has no privileges",
    f"{_SPEC}.?securityContext.?runAsNonRoot.orValue(false)": "does not run as root",
}
"""CEL expression -> the rule, which completes `a pod of the fleet controller`."""


def _on_creation(expression: str, rule_text: str) -> Manifest:
    return {
        "expression": f"request.operation == 'DELETE' || ({expression})",
        "message": f"a pod of the fleet controller {rule_text}",
        "reason": "Forbidden",
    }

"""The admission policies on writing reports and pools. Plain data."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.apis.admission.cel import literal, policy, rule, service_account_user
from slicewright.apis.gpu_pool.rollout_request import SUSPENDED, UNDO
from slicewright.apis.names import (
    AGENT_SERVICE_ACCOUNT,
    CONTROLLER_SERVICE_ACCOUNT,
    GROUP,
    NAMESPACE,
    POOL_PLURAL,
    RELEASE_FINALIZER,
    REPORT_PLURAL,
    ROLLOUT_ANNOTATION,
    Manifest,
)


def report_policy(
    *,
    namespace: str = NAMESPACE,
    service_account: str = AGENT_SERVICE_ACCOUNT,
    name: str = "slicewright-node-reports",
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: an agent may write the report of its own node only.

    Its node is the one in its token's claims, which the API server adds when the kubelet requests
    the pod's token (ServiceAccountTokenPodNodeInfo, stable since Kubernetes 1.32). A token without
    it is refused. A new policy takes effect after about 0.3 s.
    """
    return _limit_user(
        "agent",
        service_account_user(namespace, service_account),
        name=name,
        operations=["CREATE", "UPDATE", "DELETE"],
        resources=[REPORT_PLURAL, f"{REPORT_PLURAL}/*"],
        validations=_report_validations(),
    )


def _report_validations() -> list[Manifest]:
    own_node = "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'].orValue([])"
    target = "(request.operation == 'DELETE' ? oldObject : object).metadata"
    return [
        {
            "expression": f"{own_node} == [{target}.name]",
            "messageExpression": "'an agent may write the report of its own node only; "
            "this token is bound to "
            "node \"' + "
            f"{own_node}.join(', ') + '\", the report is of node \"' + {target}.name + '\"'",
            "message": "an agent may write the report of its own node only",
            "reason": "Forbidden",
        },
        {
            # With another owner a report would not be deleted with its node.
            "expression": "request.operation == 'DELETE' || "
            "object.metadata.?ownerReferences.orValue([]).all(o, "
            "o.apiVersion == 'v1' && o.kind == 'Node' && o.name == object.metadata.name)",
            "message": "the only owner of a report must be the Node of the same name",
            "reason": "Forbidden",
        },
    ]


def pool_policy(
    *,
    namespace: str = NAMESPACE,
    service_account: str = CONTROLLER_SERVICE_ACCOUNT,
    name: str = "slicewright-pools",
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding for the fleet controller's writes to pools.

    The controller may only write a pool's status, remove its own finalizer, and take an undo out of
    the request annotation for the rollout.

    RBAC has no rule for one field, and the status subresource takes neither finalizers nor
    annotations.
    """
    return _limit_user(
        "controller",
        service_account_user(namespace, service_account),
        name=name,
        operations=["UPDATE"],
        resources=[POOL_PLURAL],
        validations=[_pool_validation()],
    )


def _pool_validation() -> Manifest:
    foreign = f"filter(f, f != {literal(RELEASE_FINALIZER)})"
    new = "object.metadata.?annotations.orValue({})"
    old = "oldObject.metadata.?annotations.orValue({})"
    rollout = literal(ROLLOUT_ANNOTATION)
    suspended = ", ".join(map(literal, ("", *SUSPENDED)))
    return {
        "expression": "object.spec == oldObject.spec && "
        "object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}) && "
        f"{new}.all(k, k == {rollout} || (k in {old} && {old}[k] == {new}[k])) && "
        f"{old}.all(k, k == {rollout} || k in {new}) && "
        f"({new}[?{rollout}] == {old}[?{rollout}] || "
        f"({old}[?{rollout}].orValue('').startsWith({literal(UNDO)}) && "
        f"{new}[?{rollout}].orValue('') in [{suspended}])) && "
        f"object.metadata.?finalizers.orValue([]).{foreign} == "
        f"oldObject.metadata.?finalizers.orValue([]).{foreign}",
        "message": "of a pool, the fleet controller may write the status only, remove the "
        f"finalizer {RELEASE_FINALIZER}, and take an undo out of {ROLLOUT_ANNOTATION}",
        "reason": "Forbidden",
    }


def _limit_user(
    who: str,
    user: str,
    *,
    name: str,
    operations: Sequence[str],
    resources: Sequence[str],
    validations: Sequence[Manifest],
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding that limit one user's requests to our API group.

    who: the kind of user, for the name of the match condition.
    """
    condition = {
        "name": f"is-{who}",
        "expression": f"request.userInfo.username == {literal(user)}",
    }
    return policy(
        name,
        rules=[rule(operations, resources, group=GROUP)],
        conditions=[condition],
        validations=validations,
    )

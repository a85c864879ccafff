"""The admission policy that narrows the fleet controller's own writes to Nodes. Plain data.

RBAC has no rule for single fields, so the controller's right to patch Nodes covers every field of
every Node. This policy leaves only the fields that the controller uses. An attacker who holds its
token, or tricks it into a wrong patch, gets no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.apis.admission.cel import literal, literals, policy, rule, service_account_user
from slicewright.apis.names import (
    CONTROLLER_SERVICE_ACCOUNT,
    DEPLOY_LABEL_PREFIX,
    JOINED_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    NAMESPACE,
    NODE_CONDITION,
    NOTE_PREFIX,
    POOL_LABEL,
    STARTUP_TAINT_KEY,
    Manifest,
)

_SERVERS_OWN: Final = ("resourceVersion", "generation", "managedFields", "selfLink")
"""Fields of the metadata that the API server writes."""
_OF_KUBERNETES: Final = r"^([^/]*[.])?(kubernetes|k8s)[.]io/"
"""The same domains as in `label_keys.is_of_kubernetes`."""


def controller_node_policy(
    *,
    namespace: str = NAMESPACE,
    service_account: str = CONTROLLER_SERVICE_ACCOUNT,
    name: str = "slicewright-controller-nodes",
) -> tuple[Manifest, Manifest]:
    """Returns the ValidatingAdmissionPolicy and Binding for the fleet controller's writes to Nodes.

    The controller writes its own annotations, condition and taint, cordons, and a few labels: the
    MIG labels, the operands' switches, the pool, and the labels that the node's note says were set.
    None of these labels lies in a domain of Kubernetes.

    The policy fails closed, and its expressions have no error to fail with, as in `node_policy`.
    """
    # RBAC lets it neither create nor delete any node.
    return policy(
        name,
        rules=[rule(["UPDATE"], ["nodes", "nodes/status"])],
        conditions=[
            {
                "name": "is-controller",
                "expression": "request.userInfo.username == "
                + literal(service_account_user(namespace, service_account)),
            }
        ],
        variables=_variables(),
        validations=_validations(),
    )


def _validations() -> list[Manifest]:
    return [
        *_allow_only(
            _unchanged("notes", f"key.startsWith({literal(NOTE_PREFIX)})"),
            f"annotations of {NOTE_PREFIX}, and no others",
        ),
        *_allow_only(
            _unchanged("labels", _may_label("key")),
            f"the labels {MIG_CONFIG_LABEL}, {MIG_STATE_LABEL}, {POOL_LABEL} and "
            f"{DEPLOY_LABEL_PREFIX}*, and those that {JOINED_ANNOTATION} names, but none "
            "of kubernetes.io and k8s.io",
        ),
        *_allow_only(
            [_unchanged_but("taints", "key", STARTUP_TAINT_KEY)],
            f"the taint {STARTUP_TAINT_KEY}, and no others",
        ),
        *_allow_only(
            [_unchanged_but("conditions", "type", NODE_CONDITION)],
            f"the condition {NODE_CONDITION}, and no others",
        ),
        *_allow_only(
            [
                *_unchanged("spec", "key in ['taints', 'unschedulable']"),
                *_unchanged("status", "key == 'conditions'"),
                *_unchanged(
                    "metadata",
                    f"key in {literals(('labels', 'annotations', *_SERVERS_OWN))}",
                ),
            ],
            "labels, annotations, taints and conditions, and whether it is cordoned",
        ),
    ]


def _variables() -> list[Manifest]:
    """The parts of the Node, now and before. `dyn` also compares new fields of a Node."""
    parts = {
        "metadata": "dyn({node}.metadata)",
        "spec": "dyn({node}.?spec.orValue({{}}))",
        "status": "dyn({node}.?status.orValue({{}}))",
        "notes": "{node}.metadata.?annotations.orValue({{}})",
        "labels": "{node}.metadata.?labels.orValue({{}})",
        "taints": "{node}.?spec.?taints.orValue([])",
        "conditions": "{node}.?status.?conditions.orValue([])",
    }
    variables = [
        {"name": f"{part}{when}", "expression": expression.format(node=node)}
        for part, expression in parts.items()
        for when, node in (("Now", "object"), ("Before", "oldObject"))
    ]
    noted = f"[?{literal(JOINED_ANNOTATION)}].orValue('')"
    joined = f"variables.notesBefore{noted} + variables.notesNow{noted}"
    return [*variables, {"name": "joined", "expression": joined}]


def _may_label(key: str) -> str:
    """Returns a CEL expression: may the controller change a label with this key?

    The note is JSON of `state.Joined`: each key is quoted and followed by an object. Neither a key
    nor a value of a label can hold a quotation mark.
    """
    noted = f"variables.joined.contains('\"' + {key} + '\":{{')"
    return (
        f"{key} in {literals((MIG_CONFIG_LABEL, MIG_STATE_LABEL, POOL_LABEL))} || "
        f"{key}.startsWith({literal(DEPLOY_LABEL_PREFIX)}) || "
        f"({noted} && !{key}.matches({literal(_OF_KUBERNETES)}))"
    )


def _unchanged(part: str, but: str) -> list[str]:
    """Returns expressions that hold if a map is unchanged, apart from certain keys.

    One expression covers the present keys and one the earlier keys, as the API server limits the
    cost of each.
    """
    now, before = f"variables.{part}Now", f"variables.{part}Before"
    return [
        f"{now}.all(key, {before}[?key] == {now}[?key] || {but})",
        f"{before}.all(key, key in {now} || {but})",
    ]


def _unchanged_but(part: str, field: str, value: str) -> str:
    """Returns an expression that holds if the list is unchanged but for elements with this
    value.
    """
    without_value = f"filter(one, one.{field} != {literal(value)})"
    return f"variables.{part}Now.{without_value} == variables.{part}Before.{without_value}"


def _allow_only(expressions: Sequence[str], may: str) -> list[Manifest]:
    message = f"of a Node, the fleet controller may write {may}"
    return [
        {"expression": expression, "message": message, "reason": "Forbidden"}
        for expression in expressions
    ]

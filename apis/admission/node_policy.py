"""The admission policy on partitioning nodes, and on the fleet controller's notes. Plain data.

On a node with the label `slicewright.io/pool`, only the fleet controller and members of
`admin_groups` set, change or remove the label `nvidia.com/mig.config`, remove the startup
taint, or take the node out of its pool (which would end this protection): change its label, or
a label of `selecting`. Every right to change Nodes includes these, and mig-manager and every
kubelet have one. No kubelet takes its own node into a pool once it has registered.

On every node, in a pool or not, only they write annotations of `slicewright.io/`. They hold
everything that the controller has proven, changed and set, and it acts on them.

Untouched: other labels, taints and annotations, cordons, the kubelet's status, and deletion, so
that the controllers of Kubernetes and of the clouds, and `pulumi destroy`, work as without the
policy. A new Node needs no startup taint here: its kubelet registers the taints of its node
pool.

It fails closed (`failurePolicy: Fail`). It has no parameters that could be missing, and every
optional field is read as optional, so an expression has no error to fail with. Annotations are
checked in a variable for each side: the API server limits the cost of an expression, and
annotations that passed as new also pass as old.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.apis.admission.cel import literal, literals, policy, rule, service_account_user
from slicewright.apis.names import (
    CONTROLLER_SERVICE_ACCOUNT,
    DEFAULT_MIG_CONFIG,
    MIG_CONFIG_LABEL,
    NAMESPACE,
    NODE_CONDITION,
    NOTE_PREFIX,
    POOL_LABEL,
    STARTUP_TAINT_KEY,
    Manifest,
)

_WHY_NOTES = (
    " of a node: in it the fleet controller keeps what it has proven, changed or brought there"
)


def node_policy(
    *,
    admin_groups: Sequence[str],
    operator_account: str | None,
    selecting: Sequence[str] = (),
    namespace: str = NAMESPACE,
    service_account: str = CONTROLLER_SERVICE_ACCOUNT,
    name: str = "slicewright-nodes",
) -> tuple[Manifest, Manifest]:
    """Returns the ValidatingAdmissionPolicy and Binding for changes of a pool's nodes.

    operator_account: user name of the GPU operator, which sets DEFAULT_MIG_CONFIG on a node without
    a layout. None if there is no operator.
    selecting: label keys that pools use to select existing nodes.
    """
    who = "the fleet controller"
    if admin_groups:
        who += f" and members of {', '.join(admin_groups)}"
    # Labels can be changed through the status too.
    return policy(
        name,
        rules=[rule(["CREATE", "UPDATE"], ["nodes", "nodes/status"])],
        conditions=_conditions(admin_groups, service_account_user(namespace, service_account)),
        variables=_variables(),
        validations=[
            _layout_stays(who, operator_account),
            _taint_stays(who),
            _pool_stays(who),
            *_selected_labels_stay(selecting, who),
            _no_kubelet_joins(),
            _notes_stay(who),
        ],
    )


def _conditions(admin_groups: Sequence[str], controller: str) -> list[Manifest]:
    return [
        {
            "name": "not-the-fleet-controller",
            "expression": "request.userInfo.username != " + literal(controller),
        },
        {
            "name": "not-an-administrator",
            "expression": "!request.userInfo.?groups.orValue([]).exists(group, "
            f"group in {literals(admin_groups)})",
        },
    ]


def _variables() -> list[Manifest]:
    """The values that the validations compare, now and before."""
    expressions = {
        "configNow": _label_of("object", MIG_CONFIG_LABEL),
        "configBefore": _label_before(MIG_CONFIG_LABEL),
        "poolNow": _label_of("object", POOL_LABEL),
        "poolBefore": _label_before(POOL_LABEL),
        "inNoPool": f"!({_has_label('object', POOL_LABEL)}) && "
        f"(oldObject == null || !({_has_label('oldObject', POOL_LABEL)}))",
        "labelsNow": "object.metadata.?labels.orValue({})",
        "labelsBefore": "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})",
        "notesNow": _notes_of("object"),
        "notesBefore": f"oldObject == null ? {{}} : {_notes_of('oldObject')}",
        "ownNotesNow": _controller_notes("variables.notesNow"),
        "ownNotesBefore": _controller_notes("variables.notesBefore"),
        "changedNotes": "variables.ownNotesNow.filter(key, "
        "variables.notesNow[?key] != variables.notesBefore[?key]) + "
        "variables.ownNotesBefore.filter(key, !(key in variables.notesNow))",
        "taintsNow": "object.?spec.?taints.orValue([])",
        "taintsBefore": "oldObject == null ? [] : oldObject.?spec.?taints.orValue([])",
    }
    return [{"name": name, "expression": text} for name, text in expressions.items()]


def _layout_stays(who: str, operator_account: str | None) -> Manifest:
    """The validation that the label of the layout stays, but for the operator's default."""
    default = (
        " || (request.userInfo.username == "
        f"{literal(operator_account)} && variables.configBefore == '' "
        f"&& variables.configNow == {literal(DEFAULT_MIG_CONFIG)})"
        if operator_account
        else ""
    )
    return {
        "expression": "variables.inNoPool || "
        f"variables.configNow == variables.configBefore{default}",
        "message": f"only {who} may set, change or remove the label {MIG_CONFIG_LABEL} "
        "of a slicewright node: it partitions the node's GPUs. Change the pool's "
        "layout in the stack file instead",
        "reason": "Forbidden",
    }


def _taint_stays(who: str) -> Manifest:
    """The validation that the startup taint stays."""
    return {
        # A taint with a weaker effect would be no better than none.
        "expression": "variables.inNoPool || variables.taintsBefore.all(before, "
        f"before.key != '{STARTUP_TAINT_KEY}' || variables.taintsNow.exists(now, "
        "now.key == before.key && now.effect == before.effect))",
        "message": f"only {who} may remove the startup taint {STARTUP_TAINT_KEY}: "
        "it keeps pods away until the node's GPUs are verified. The condition "
        f"{NODE_CONDITION} of the node says what is missing",
        "reason": "Forbidden",
    }


def _pool_stays(who: str) -> Manifest:
    """The validation that a node stays in its pool."""
    return {
        "expression": "variables.poolBefore == '' || variables.poolNow == variables.poolBefore",
        "message": f"only {who} may change or remove the label {POOL_LABEL}: without "
        "it the node would not be verified any more. Remove the node from its node "
        "pool instead",
        "reason": "Forbidden",
    }


def _selected_labels_stay(selecting: Sequence[str], who: str) -> list[Manifest]:
    """The validation that a node of a pool keeps the labels that selected it."""
    if not selecting:
        return []
    keys = sorted(selecting)
    return [
        {
            "expression": "variables.poolBefore == '' || "
            f"{literals(keys)}.all(key, "
            "variables.labelsNow[?key] == variables.labelsBefore[?key])",
            "message": f"only {who} may change the labels by which pools select nodes "
            f"({', '.join(keys)}) on a node of a pool: without them the node would not be "
            "verified any more",
            "reason": "Forbidden",
        }
    ]


def _no_kubelet_joins() -> Manifest:
    """The validation that no kubelet takes its registered node into a pool."""
    return {
        "expression": "variables.poolBefore != '' || variables.poolNow == '' || "
        "request.operation == 'CREATE' || "
        "!request.userInfo.?groups.orValue([]).exists(group, "
        "group == 'system:nodes')",
        "message": f"a kubelet may register with the label {POOL_LABEL}, and not set "
        "it later: its node would join the pool without the startup taint. Set it "
        "with the rights of an administrator, or let the node register anew",
        "reason": "Forbidden",
    }


def _notes_stay(who: str) -> Manifest:
    """The validation that the fleet controller's annotations stay."""
    return {
        "expression": "variables.changedNotes.size() == 0",
        "messageExpression": f"{literal(f'only {who} may set, change or remove the ')}"
        " + 'annotation ' + variables.changedNotes.join(', ') + "
        f"{literal(_WHY_NOTES)}",
        "message": f"only {who} may set, change or remove annotations of {NOTE_PREFIX}{_WHY_NOTES}",
        "reason": "Forbidden",
    }


def _notes_of(node: str) -> str:
    return f"{node}.metadata.?annotations.orValue({{}})"


def _controller_notes(notes: str) -> str:
    """Returns the keys of the annotations that belong to the fleet controller."""
    return f"{notes}.filter(key, key.startsWith({literal(NOTE_PREFIX)}))"


def _has_label(node: str, label: str) -> str:
    return f"'{label}' in {node}.metadata.?labels.orValue({{}})"


def _label_of(node: str, label: str) -> str:
    return f"{node}.metadata.?labels[?'{label}'].orValue('')"


def _label_before(label: str) -> str:
    return f"oldObject == null ? '' : {_label_of('oldObject', label)}"

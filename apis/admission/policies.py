"""The admission policies on writing reports and pools, and on partitioning nodes. Plain data."""

from __future__ import annotations

from collections.abc import Sequence

from apis.admission.cel import literal, literals, policy, rule
from apis.gpu_pool.rollout_request import SUSPENDED, UNDO
from apis.names import (
    AGENT_SERVICE_ACCOUNT,
    CONTROLLER_SERVICE_ACCOUNT,
    DEFAULT_MIG_CONFIG,
    GROUP,
    MIG_CONFIG_LABEL,
    NAMESPACE,
    NODE_CONDITION,
    NOTE_PREFIX,
    POOL_LABEL,
    POOL_PLURAL,
    RELEASE_FINALIZER,
    REPORT_PLURAL,
    ROLLOUT_ANNOTATION,
    STARTUP_TAINT_KEY,
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
    own_node = "request.userInfo.?extra[?'authentication.kubernetes.io/node-name'].orValue([])"
    target = "(request.operation == 'DELETE' ? oldObject : object).metadata"
    validations = [
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
    return _limiting(
        "agent",
        f"system:serviceaccount:{namespace}:{service_account}",
        name=name,
        operations=["CREATE", "UPDATE", "DELETE"],
        resources=[REPORT_PLURAL, f"{REPORT_PLURAL}/*"],
        validations=validations,
    )


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
    other = f"filter(f, f != {literal(RELEASE_FINALIZER)})"
    new, old = (f"{it}.metadata.?annotations.orValue({{}})" for it in ("object", "oldObject"))
    rollout = literal(ROLLOUT_ANNOTATION)
    suspended = ", ".join(map(literal, ("", *SUSPENDED)))
    validation = {
        "expression": "object.spec == oldObject.spec && "
        "object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({}) && "
        f"{new}.all(k, k == {rollout} || (k in {old} && {old}[k] == {new}[k])) && "
        f"{old}.all(k, k == {rollout} || k in {new}) && "
        f"({new}[?{rollout}] == {old}[?{rollout}] || "
        f"({old}[?{rollout}].orValue('').startsWith({literal(UNDO)}) && "
        f"{new}[?{rollout}].orValue('') in [{suspended}])) && "
        f"object.metadata.?finalizers.orValue([]).{other} == "
        f"oldObject.metadata.?finalizers.orValue([]).{other}",
        "message": "of a pool, the fleet controller may write the status only, remove the "
        f"finalizer {RELEASE_FINALIZER}, and take an undo out of {ROLLOUT_ANNOTATION}",
        "reason": "Forbidden",
    }
    return _limiting(
        "controller",
        f"system:serviceaccount:{namespace}:{service_account}",
        name=name,
        operations=["UPDATE"],
        resources=[POOL_PLURAL],
        validations=[validation],
    )


def _limiting(
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
    """ValidatingAdmissionPolicy and Binding: who may change how a pool's nodes are partitioned, and
    the fleet controller's notes on any node.

    On a node with the label `slicewright.io/pool`, only the fleet controller and members of
    `admin_groups` set, change or remove the label `nvidia.com/mig.config`, remove the startup
    taint, or take the node out of its pool (which would end this protection): change its label, or
    a label of `selecting`. Every right to change Nodes includes these, and mig-manager and every
    kubelet have one. No kubelet takes its own node into a pool once it has registered.

    On every node, in a pool or not, only they write annotations of `slicewright.io/`. They hold
    everything that the controller has proven, changed and set, and it acts on them.

    operator_account: user name of the GPU operator, which sets DEFAULT_MIG_CONFIG on a node without
    a layout. None if there is no operator.
    selecting: label keys that pools use to select existing nodes.

    Untouched: other labels, taints and annotations, cordons, the kubelet's status, and deletion, so
    that the controllers of Kubernetes and of the clouds, and `pulumi destroy`, work as without the
    policy. A new Node needs no startup taint here: its kubelet registers the taints of its node
    pool.

    It fails closed (`failurePolicy: Fail`). It has no parameters that could be missing, and every
    optional field is read as optional, so an expression has no error to fail with. Annotations are
    checked in a variable for each side: the API server limits the cost of an expression, and
    annotations that passed as new also pass as old.
    """
    who = (
        "the fleet controller"
        if not admin_groups
        else f"the fleet controller and members of {', '.join(admin_groups)}"
    )
    default = (
        " || (request.userInfo.username == "
        f"{literal(operator_account)} && variables.configBefore == '' "
        f"&& variables.configNow == {literal(DEFAULT_MIG_CONFIG)})"
        if operator_account
        else ""
    )
    # Labels can be changed through the status too.
    return policy(
        name,
        rules=[rule(["CREATE", "UPDATE"], ["nodes", "nodes/status"])],
        conditions=[
            {
                "name": "not-the-fleet-controller",
                "expression": "request.userInfo.username != "
                + literal(f"system:serviceaccount:{namespace}:{service_account}"),
            },
            {
                "name": "not-an-administrator",
                "expression": "!request.userInfo.?groups.orValue([]).exists(group, "
                f"group in {literals(admin_groups)})",
            },
        ],
        variables=[
            {"name": "configNow", "expression": _label_of("object", MIG_CONFIG_LABEL)},
            {"name": "configBefore", "expression": _label_before(MIG_CONFIG_LABEL)},
            {"name": "poolNow", "expression": _label_of("object", POOL_LABEL)},
            {"name": "poolBefore", "expression": _label_before(POOL_LABEL)},
            {
                "name": "inNoPool",
                "expression": f"!({_has_label('object', POOL_LABEL)}) && "
                f"(oldObject == null || !({_has_label('oldObject', POOL_LABEL)}))",
            },
            {"name": "labelsNow", "expression": "object.metadata.?labels.orValue({})"},
            {
                "name": "labelsBefore",
                "expression": "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})",
            },
            {"name": "notesNow", "expression": _notes_of("object")},
            {
                "name": "notesBefore",
                "expression": f"oldObject == null ? {{}} : {_notes_of('oldObject')}",
            },
            {"name": "ownNotesNow", "expression": _own("variables.notesNow")},
            {"name": "ownNotesBefore", "expression": _own("variables.notesBefore")},
            {
                "name": "changedNotes",
                "expression": "variables.ownNotesNow.filter(key, "
                "variables.notesNow[?key] != variables.notesBefore[?key]) + "
                "variables.ownNotesBefore.filter(key, !(key in variables.notesNow))",
            },
            {"name": "taintsNow", "expression": "object.?spec.?taints.orValue([])"},
            {
                "name": "taintsBefore",
                "expression": "oldObject == null ? [] : oldObject.?spec.?taints.orValue([])",
            },
        ],
        validations=[
            {
                "expression": "variables.inNoPool || "
                f"variables.configNow == variables.configBefore{default}",
                "message": f"only {who} may set, change or remove the label {MIG_CONFIG_LABEL} "
                "of a slicewright node: it partitions the node's GPUs. Change the pool's "
                "layout in the stack file instead",
                "reason": "Forbidden",
            },
            {
                # A taint with a weaker effect would be no better than none.
                "expression": "variables.inNoPool || variables.taintsBefore.all(before, "
                f"before.key != '{STARTUP_TAINT_KEY}' || variables.taintsNow.exists(now, "
                "now.key == before.key && now.effect == before.effect))",
                "message": f"only {who} may remove the startup taint {STARTUP_TAINT_KEY}: "
                "it keeps pods away until the node's GPUs are verified. The condition "
                f"{NODE_CONDITION} of the node says what is missing",
                "reason": "Forbidden",
            },
            {
                "expression": "variables.poolBefore == '' || "
                "variables.poolNow == variables.poolBefore",
                "message": f"only {who} may change or remove the label {POOL_LABEL}: without "
                "it the node would not be verified any more. Remove the node from its node "
                "pool instead",
                "reason": "Forbidden",
            },
            *_selected_still(selecting, who),
            {
                "expression": "variables.poolBefore != '' || variables.poolNow == '' || "
                "request.operation == 'CREATE' || "
                "!request.userInfo.?groups.orValue([]).exists(group, "
                "group == 'system:nodes')",
                "message": f"a kubelet may register with the label {POOL_LABEL}, and not set "
                "it later: its node would join the pool without the startup taint. Set it "
                "with the rights of an administrator, or let the node register anew",
                "reason": "Forbidden",
            },
            {
                "expression": "variables.changedNotes.size() == 0",
                "messageExpression": f"{literal(f'only {who} may set, change or remove the ')}"
                " + 'annotation ' + variables.changedNotes.join(', ') + "
                f"{literal(_WHY_NOTES)}",
                "message": f"only {who} may set, change or remove annotations of "
                f"{NOTE_PREFIX}{_WHY_NOTES}",
                "reason": "Forbidden",
            },
        ],
    )


def _selected_still(selecting: Sequence[str], who: str) -> list[Manifest]:
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


def _notes_of(node: str) -> str:
    return f"{node}.metadata.?annotations.orValue({{}})"


def _own(notes: str) -> str:
    """Returns the keys of the annotations that belong to the fleet controller."""
    return f"{notes}.filter(key, key.startsWith({literal(NOTE_PREFIX)}))"


def _has_label(node: str, label: str) -> str:
    return f"'{label}' in {node}.metadata.?labels.orValue({{}})"


def _label_of(node: str, label: str) -> str:
    return f"{node}.metadata.?labels[?'{label}'].orValue('')"


def _label_before(label: str) -> str:
    return f"oldObject == null ? '' : {_label_of('oldObject', label)}"

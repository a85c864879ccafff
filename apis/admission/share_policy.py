"""The admission policies of a cluster whose GPUs an engine shares by fractions. Plain data.

An engine's scheduler is one of several, and its device plugin believes every request that the
kubelet passes on. So a pod that comes past the scheduler, or asks in a way that the engine counts
wrong, runs on memory and compute that others have. These policies refuse it with what to do
instead. They judge the pods of everybody, and only when they are created: the requests and the
scheduler of a pod never change.

Mutating webhooks run first, so the policies see the scheduler that HAMi's webhook has set. If the
webhook does not answer, the API server passes the pod on without it, and the policy refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from slicewright.apis.admission.cel import literal, literals, policy, rule
from slicewright.apis.names import POOL_LABEL, Manifest
from slicewright.apis.shares.engines import ENGINES, Engine, EngineName

POD_POLICY: Final = "slicewright-shares"
NODE_POLICY: Final = "slicewright-share-nodes"
_LISTS: Final = ("containers", "initContainers")
_AMOUNT: Final = "quantity(c.resources.limits[resource])"


def share_policy(engine: EngineName, *, name: str = POD_POLICY) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding for pods that request shares.

    It fails closed, and its expressions have no error to fail with, as in `pod_policy`.
    """
    return policy(
        name,
        rules=[rule(["CREATE"], ["pods"])],
        conditions=[
            {
                "name": "requests-shares",
                "expression": " || ".join(
                    f"object.spec.?{part}.orValue([]).exists(c, "
                    f"{_requests(_resources(ENGINES[engine]))})"
                    for part in _LISTS
                ),
            }
        ],
        variables=_variables(ENGINES[engine]),
        validations=list(_validations(engine)),
    )


def share_node_policy(
    engine: EngineName, *, pools: Sequence[str], name: str = NODE_POLICY
) -> tuple[Manifest, Manifest]:
    """ValidatingAdmissionPolicy and Binding: the engine's device plugin runs on the nodes of
    `pools`, and on no others. The plugin follows the node's label.

    Nodes that have had the label before are not touched: another installation may own them. A
    node that loses the label loses the plugin, which its agent reports.
    """
    key, value = ENGINES[engine].node_label
    pool_label = _label("object", POOL_LABEL)
    plugin_now, plugin_before = _label("object", key), _label_before(key)
    title = ENGINES[engine].title
    return policy(
        name,
        rules=[rule(["CREATE", "UPDATE"], ["nodes"])],
        conditions=[
            {"name": "label-changes", "expression": f"{plugin_now} != ({plugin_before})"},
        ],
        validations=[
            {
                "expression": f"{plugin_now} != {literal(value)} || "
                f"{pool_label} in {literals(sorted(pools))}",
                "message": f"the label {key}={value} brings {title}'s device plugin, which may "
                f"only run on nodes of the pools {', '.join(sorted(pools))}: a node has one device "
                "plugin. Write sharing: fractional in the node's pool instead",
                "reason": "Forbidden",
            },
        ],
    )


def _resources(engine: Engine) -> tuple[str, ...]:
    return (engine.cards, *engine.amounts)


def _requests(resources: Sequence[str]) -> str:
    """CEL expression that is true if container `c` requests one of the resources."""
    return (
        f"c.?resources.?limits.orValue({{}}).exists(resource, resource in {literals(resources)} && "
        f"{_AMOUNT}.isGreaterThan(quantity('0')))"
    )


def _variables(engine: Engine) -> list[Manifest]:
    """Names of containers, as the validations list them."""
    too_much = (
        "c.?resources.?limits.orValue({}).exists(resource, resource in "
        f"{literals(engine.percentages)} && {_AMOUNT}.isGreaterThan(quantity('100')))"
    )
    without_card = f"{_requests(engine.amounts)} && !{_requests((engine.cards,))}"
    expressions = {
        "sharing": _names(_requests((engine.cards,))),
        "withoutCard": _names(without_card),
        "tooMuch": _names(too_much),
    }
    return [{"name": name, "expression": text} for name, text in expressions.items()]


def _names(condition: str) -> str:
    """The names of the containers `c` that meet the condition. Each list has its own types."""
    return " + ".join(
        f"object.spec.?{part}.orValue([]).filter(c, {condition}).map(c, c.name)" for part in _LISTS
    )


def _validations(name: EngineName) -> Iterator[Manifest]:
    engine = ENGINES[name]
    yield _by_the_engines_scheduler(engine, by_webhook=name == "hami")
    yield {
        "expression": "object.spec.?nodeName.orValue('') == ''",
        "message": "the pod requests shares of GPUs and has a nodeName, so no scheduler allocates "
        "them. Select the node by its label kubernetes.io/hostname",
        "reason": "Forbidden",
    }
    yield _forbid(
        "withoutCard",
        f"request memory or compute of GPUs without {engine.cards}, so they would get no card. "
        f"Add {engine.cards}: the number of cards; the amounts are of each card",
    )
    cut = "would cut that to 100 % without a word" if name == "hami" else "has no such card"
    yield _forbid(
        "tooMuch",
        f"request more than 100 % of a card; {engine.title} {cut}. The amounts are of each card: "
        "divide the total by the number of cards",
    )
    if name == "volcano":
        yield _in_one_container()


def _by_the_engines_scheduler(engine: Engine, *, by_webhook: bool) -> Manifest:
    """by_webhook: True if the engine's webhook names the scheduler."""
    webhook = ", or repair HAMi's webhook, which sets it (not for privileged containers)"
    return {
        "expression": f"object.spec.?schedulerName.orValue('') == {literal(engine.scheduler)}",
        "message": f"the pod requests shares of GPUs, and only {engine.title}'s scheduler "
        f"allocates them: by another scheduler it would run without a card of its own. Write "
        f"schedulerName: {engine.scheduler}{webhook if by_webhook else ''}",
        "reason": "Forbidden",
    }


def _in_one_container() -> Manifest:
    return {
        "expression": "variables.sharing.size() <= 1",
        "messageExpression": "'containers ' + variables.sharing.join(', ') + "
        + literal(f" {_SEVERAL}"),
        "message": f"containers of the pod {_SEVERAL}",
        "reason": "Forbidden",
    }


_SEVERAL: Final = (
    "each request shares of GPUs; Volcano counts several containers of a pod on one card once, and "
    "gives their memory away a second time. Request the share in one container, or use HAMi "
    "(fractional.provider: hami)"
)


def _forbid(variable: str, why: str) -> Manifest:
    """The validation that a list of container names is empty."""
    return {
        "expression": f"variables.{variable}.size() == 0",
        "messageExpression": f"'containers ' + variables.{variable}.join(', ') + "
        + literal(f" {why}"),
        "message": f"containers of the pod {why}",
        "reason": "Forbidden",
    }


def _label(node: str, key: str) -> str:
    return f"{node}.metadata.?labels[?{literal(key)}].orValue('')"


def _label_before(key: str) -> str:
    return f"oldObject == null ? '' : {_label('oldObject', key)}"

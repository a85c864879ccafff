"""The shapes of the cluster's objects that commands read. Pure.

Every field that `slicewright.live` or the controller's decisions use is checked before the object
is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy
from slicewright.apis.gpu_pool.settings import (
    Choice,
    Duration,
    Flag,
    NodeShare,
    NodeTotal,
    Setting,
    Switch,
    key_of,
    settings_of,
)
from slicewright.apis.names import (
    CHANGE_ANNOTATION,
    CHANGED_ANNOTATION,
    NODE_CONDITION,
    REPORTS_AFTER_ANNOTATION,
)
from slicewright.fleet_controller.objects.bounds import UNREADABLE
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.node_pods import read_pod
from slicewright.fleet_controller.objects.pool import Pool, read_pool
from slicewright.fleet_controller.objects.report import Report, read_report
from slicewright.live.shapes import (
    Misfit,
    Shape,
    among,
    fields,
    generation,
    items,
    label,
    labels,
    moment,
    name,
    nullable,
    number,
    number_or_percentage,
    quantity,
    table,
    text,
    time,
    truth,
    word,
)
from slicewright.telemetry.plain import shortened

Raw = Mapping[str, Any]
T = TypeVar("T")

_LONGEST_NAME: Final = 120
_LONGEST_WHY: Final = 300


@dataclass(frozen=True, kw_only=True)
class UnreadObject:
    """An object of the cluster that cannot be read, and is left out."""

    kind: str
    name: str
    """The name, with the namespace if it has one, as plain and short text."""
    why: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} cannot be read: {self.why}"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of objects, and their readable shape."""

    name: str
    shape: Shape


def readable(
    kind: Kind, raws: Iterable[Any], read: Callable[[Raw], T], unread: list[UnreadObject]
) -> Iterator[tuple[Raw, T]]:
    """Yields each well-formed object with the result of `read`, and adds others to `unread`."""
    for place, raw in enumerate(raws):
        try:
            check(kind, raw)
            yield raw, read(raw)
        except Misfit as e:
            unread.append(unread_object(kind, raw, str(e), place=place))
        except UNREADABLE:
            why = f"its content is not a valid {kind.name}"
            unread.append(unread_object(kind, raw, why, place=place))


def check(kind: Kind, raw: Any) -> None:
    """Raises Misfit if `raw` is not an object of that kind."""
    if not isinstance(raw, dict):
        raise Misfit(f"a {kind.name} must be an object")
    kind.shape(raw, "")


def unread_object(kind: Kind, raw: Any, why: str, *, place: int = 0) -> UnreadObject:
    """Describes the object; `place` in its list identifies an object without a name."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    parts = [meta.get("namespace"), meta.get("name")]
    path = "/".join(shortened(part, _LONGEST_NAME) for part in parts if isinstance(part, str))
    return UnreadObject(
        kind=kind.name,
        name=path or f"number {place + 1} of their list, which has no name",
        why=shortened(why, _LONGEST_WHY),
    )


def pools(raws: Iterable[Any], unread: list[UnreadObject]) -> list[tuple[Raw, Pool]]:
    return list(readable(POOL, raws, read_pool, unread))


def nodes(raws: Iterable[Any], unread: list[UnreadObject]) -> list[Node]:
    """Reads nodes; an invalid annotation is ignored as in the controller, and added to `unread`."""
    listed: list[Node] = []
    for raw, node in readable(NODE, raws, read_node, unread):
        odd = [*_odd_times(raw), *_odd_change(node)]
        unread += (unread_object(NODE, raw, why) for why in odd)
        listed.append(replace(node, change="") if _odd_change(node) else node)
    return listed


def _odd_times(raw: Raw) -> Iterator[str]:
    notes = raw["metadata"].get("annotations") or {}
    for key in (REPORTS_AFTER_ANNOTATION, CHANGED_ANNOTATION):
        try:
            if key in notes:
                time(notes[key], f"its annotation {key}")
        except Misfit as e:
            yield str(e)


def _odd_change(node: Node) -> tuple[str, ...]:
    """Returns why the annotation about the node's layout change is invalid, if it is and does not
    belong to an earlier node of the same name.
    """
    change = change_of(node)
    if not node.change or (change is None and _belongs_to_earlier_node(node)):
        return ()
    # A note without a time is read as one of the epoch.
    if change is not None and change.since and change.started:
        return ()
    return (f"its annotation {CHANGE_ANNOTATION} is not as the fleet controller writes it",)


def _belongs_to_earlier_node(node: Node) -> bool:
    try:
        note = json.loads(node.change)
    except (ValueError, RecursionError):
        return False
    uid = note.get("nodeUid") if isinstance(note, dict) else None
    return isinstance(uid, str) and uid != node.uid


def reports(raws: Iterable[Any], unread: list[UnreadObject]) -> list[tuple[Raw, Report]]:
    return list(readable(REPORT, raws, read_report, unread))


def pods(raws: Iterable[Any], unread: list[UnreadObject]) -> Iterator[Raw]:
    return (raw for raw, _ in readable(POD, raws, read_pod, unread))


def budgets(raws: Iterable[Any], unread: list[UnreadObject]) -> list[Raw]:
    return [raw for raw, _ in readable(BUDGET, raws, lambda raw: raw, unread)]


def lines_of(unread: Sequence[UnreadObject], most: int) -> list[str]:
    """Returns a line for each of the first `most` objects, and the number of further objects."""
    lines = [str(item) for item in unread[:most]]
    more = len(unread) - most
    return [*lines, f"{more} more objects cannot be read"] if more > 0 else lines


def _meta(**more: Shape) -> Shape:
    return fields(
        {"name": name, **more},
        uid=name,
        resourceVersion=word,
        generation=number,
        labels=labels(),
        annotations=table(text),
        creationTimestamp=time,
        deletionTimestamp=moment,
        finalizers=items(word),
    )


_CONDITION: Final = fields(
    {"type": word},
    status=among("True", "False", "Unknown"),
    reason=text,
    message=text,
    lastTransitionTime=time,
    lastHeartbeatTime=time,
    observedGeneration=generation,
)


def _condition_of_node(value: Any, at: str) -> None:
    """Checks slicewright's condition wholly, and only the status of other conditions."""
    fields({"type": word}, status=word)(value, at)
    if value["type"] == NODE_CONDITION:
        _CONDITION(value, at)


NODE: Final = Kind(
    name="Node",
    shape=fields(
        {"metadata": _meta(uid=name)},
        spec=fields(
            taints=items(fields({"key": word}, effect=word)),
            unschedulable=truth,
        ),
        status=fields(
            nodeInfo=fields(bootID=word),
            conditions=items(_condition_of_node),
        ),
    ),
)
REPORT: Final = Kind(
    name="GPUNodeReport",
    shape=fields(
        {
            "metadata": fields(
                {"name": name}, ownerReferences=items(fields({"uid": name}, kind=word))
            ),
            "report": fields(
                {"time": time, "verdict": word},
                reason=text,
                message=text,
                pool=word,
                observedHash=word,
                bootID=word,
                driver=text,
                models=items(text),
                compute=fields(
                    outcome=word,
                    deviceCount=number,
                    devices=items(
                        fields(
                            {"uuid": word, "outcome": word},
                            error=text,
                            readGBps=number,
                        )
                    ),
                ),
                gpus=items(
                    fields(
                        indexes=items(number),
                        model=text,
                        mig=word,
                        instances=table(number, key=word),
                    )
                ),
            ),
        }
    ),
)


def _policy_shapes(policy: type[Any]) -> dict[str, Shape]:
    return {key_of(field): _policy_shape(kind) for field, kind in settings_of(policy).items()}


def _policy_shape(kind: Setting) -> Shape:
    match kind:
        case NodeShare():
            return number_or_percentage
        case NodeTotal() | Duration():
            return number
        case Choice():
            return among(*kind.meanings)
        case Flag():
            return truth
        case Switch():
            return word


_POLICY: Final = fields(
    None,
    drain=fields(None, **_policy_shapes(DrainPolicy)),
    **_policy_shapes(RolloutPolicy),
)
POOL: Final = Kind(
    name="GPUPool",
    shape=fields(
        {
            "metadata": _meta(uid=name),
            "spec": fields(
                {
                    "selector": fields({"matchLabels": labels()}),
                    "layoutHash": word,
                    "expectedNodes": fields({"min": number, "max": number}),
                },
                migConfig=nullable(label),
                driverVersion=nullable(word),
                desiredState=nullable(text),
                existingNodes=fields({"labels": labels()}, migLayoutOnRelease=word),
                rolloutPolicy=_POLICY,
            ),
        },
        status=fields(
            conditions=items(_CONDITION),
            observedGeneration=generation,
            waitingSince=time,
            tooFewSince=time,
            provenLayouts=items(fields(migConfig=label, layoutHash=word, desiredState=text)),
        ),
    ),
)
_CONTAINER: Final = fields(
    name=word, image=text, resources=fields(requests=table(quantity, key=word))
)
POD: Final = Kind(
    name="Pod",
    shape=fields(
        {
            "metadata": fields(
                {"name": name, "namespace": name, "uid": name},
                labels=labels(),
                annotations=table(text),
                creationTimestamp=time,
                deletionTimestamp=moment,
                ownerReferences=items(fields(kind=word, name=word, controller=truth)),
            ),
            "spec": fields(
                nodeName=word,
                initContainers=items(_CONTAINER),
                containers=items(_CONTAINER),
                volumes=items(fields(emptyDir=fields(medium=word))),
            ),
        },
        status=fields(phase=word, conditions=items(fields({"type": word}, status=word))),
    ),
)
_SELECTOR: Final = fields(
    matchLabels=table(text),
    matchExpressions=items(fields({"key": text, "operator": word}, values=items(text))),
)
BUDGET: Final = Kind(
    name="PodDisruptionBudget",
    shape=fields(
        {
            "metadata": fields({"name": name, "namespace": name}, generation=number),
            "spec": fields(selector=_SELECTOR, unhealthyPodEvictionPolicy=word),
        },
        status=fields(
            disruptionsAllowed=number,
            currentHealthy=number,
            desiredHealthy=number,
            expectedPods=number,
            observedGeneration=number,
        ),
    ),
)
DEPLOYMENT: Final = Kind(name="Deployment", shape=fields(status=fields(availableReplicas=number)))

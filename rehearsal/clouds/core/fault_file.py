"""The fault file, E/faults.json: a JSON list of the faults below, each with its name in `fault`.

docs/reference/faults.md has the table for users.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeAlias, get_args

from annotated_types import Ge, Gt, Interval, Le, MinLen

from slicewright.rehearsal.clouds.core.strict import Strict
from slicewright.rehearsal.cluster.kubelet.images.answers import Answer

NAME = "faults.json"

_Name: TypeAlias = Annotated[str, MinLen(1)]
_Index: TypeAlias = Annotated[int, Ge(0)]
_Seconds: TypeAlias = Annotated[float, Interval(ge=0, le=86_400)]


class FaultFileError(Exception):
    """The fault file cannot be used; the message has a line for each problem."""


@dataclass(frozen=True, kw_only=True)
class AtCalls(Strict):
    """Which calls of the clouds' APIs meet a fault.

    The calls of `method` are numbered from 1, from the first one that comes after the fault was
    written. All conditions must hold.
    """

    method: _Name
    """`eks.CreateNodegroup`, or `CreateNodegroup` of any service."""
    call: Annotated[int, Ge(1)] = 1
    """The first call that may meet it."""
    times: Annotated[int, Ge(1)] | None = None
    """How many calls meet it; None = all."""
    after_s: _Seconds = 0.0
    """Not before so many seconds after the first call."""
    for_s: Annotated[float, Gt(0), Le(86_400)] | None = None
    """For how many seconds from then on; None = until the fault is removed."""
    probability: Annotated[float, Gt(0), Le(1)] = 1.0
    """Of each of these calls to meet it; the same seed always chooses the same calls."""
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class ApiError(AtCalls):
    """The call is answered with an error and has no effect."""

    fault: Literal["api-error"] = "api-error"
    code: Annotated[int, Interval(ge=400, le=599)] = 500
    """HTTP code."""
    status: _Name | None = None
    """The cloud's name for the error; None = the one that belongs to the code."""
    message: str | None = None


@dataclass(frozen=True, kw_only=True)
class Throttling(AtCalls):
    """The call is refused as one too many, in the service's own words."""

    fault: Literal["throttling"] = "throttling"


@dataclass(frozen=True, kw_only=True)
class BackgroundUpdate(AtCalls):
    """The call is refused because the cloud itself changes the cluster at this time."""

    fault: Literal["background-update"] = "background-update"


@dataclass(frozen=True, kw_only=True)
class ConnectionReset(AtCalls):
    """The connection breaks before the answer."""

    fault: Literal["connection-reset"] = "connection-reset"
    carried_out: bool = False
    """Whether the call had its effect: only its answer is lost."""


@dataclass(frozen=True, kw_only=True)
class Slowness(AtCalls):
    """The answer takes longer."""

    fault: Literal["slow"] = "slow"
    delay_s: Annotated[float, Gt(0), Le(3600)]


@dataclass(frozen=True, kw_only=True)
class StockOut(Strict):
    """The cloud has no machine for the nodes of a pool from number `node` on."""

    fault: Literal["stock-out"] = "stock-out"
    pool: _Name
    node: _Index = 0
    """By order of creation, from 0: 2 = the third node and all later ones."""
    zone: str | None = None
    """Only there; None = in every zone of the pool."""


@dataclass(frozen=True, kw_only=True)
class Quota(Strict):
    """The account's limit of one quota, in place of that of its kind of account."""

    fault: Literal["quota"] = "quota"
    quota: _Name
    """The cloud's name: `NVIDIA_H100_GPUS`, `SSD_TOTAL_GB`; on AWS a code as `L-417A185B`."""
    limit: Annotated[float, Ge(0)] = 0.0


@dataclass(frozen=True, kw_only=True)
class SlowIam(Strict):
    """New roles, service accounts and bindings take so long to be known to the other services."""

    fault: Literal["slow-iam"] = "slow-iam"
    delay_s: Annotated[float, Gt(0), Le(3600)]


@dataclass(frozen=True, kw_only=True)
class _NodeEvent(Strict):
    """Happens once to one node that exists."""

    pool: _Name
    node: _Index = 0
    """By order of creation, from 0."""
    after_s: _Seconds = 0.0
    """Seconds after the fault was written and the node is there."""


@dataclass(frozen=True, kw_only=True)
class SpotPreemption(_NodeEvent):
    """The cloud takes the machine away, and gives the pool another one."""

    fault: Literal["spot-preemption"] = "spot-preemption"


@dataclass(frozen=True, kw_only=True)
class NodeRepair(_NodeEvent):
    """The cloud finds the node broken, drains and recreates it."""

    fault: Literal["node-repair"] = "node-repair"


@dataclass(frozen=True, kw_only=True)
class WrongLayout(Strict):
    """One GPU of one node gets as many `profile` instances as fit, whatever the stack file says.

    It affects nodes that are made after it was injected.
    """

    fault: Literal["wrong-layout"] = "wrong-layout"
    pool: str
    node: _Index
    """Which node of the pool, by order of creation, from 0."""
    gpu: _Index
    profile: _Name


@dataclass(frozen=True, kw_only=True)
class Hold(Strict):
    """Something does not happen yet on a node that is made after the fault was injected.

    What each field holds: rehearsal/cluster/kubelet/nodes/holds.py.
    """

    fault: Literal["hold"] = "hold"
    pool: _Name
    node: _Index
    pods: tuple[str, ...] = ()
    driver: bool = False
    toolkit: bool = False
    reboot: bool = False
    partitioning_from: _Index | None = None


@dataclass(frozen=True, kw_only=True)
class Registry(Strict):
    """A registry of images answers the nodes' pulls with a failure, until the fault is removed.

    The kubelet stand-in reads it, from this file: rehearsal/cluster/kubelet/images/registries.py.
    """

    fault: Literal["registry"] = "registry"
    registry: _Name
    """Its host: `docker.io`, `public.ecr.aws`."""
    answer: Answer
    repository: str = ""
    """Beginning of the path of images that meet it; empty: all."""
    architecture: str = ""
    """`arm64`: only nodes of it; empty: all."""
    pool: str = ""
    """Only its nodes; empty: all."""
    login: str = ""
    """`USER:PASSWORD` of a pull Secret with which the registry serves all the same."""
    pulls: _Index = 0
    """How many pulls without a login each address is served before."""


CallFault: TypeAlias = ApiError | Throttling | BackgroundUpdate | ConnectionReset | Slowness
NodeEvent: TypeAlias = SpotPreemption | NodeRepair
NodeMark: TypeAlias = WrongLayout | Hold
"""Faults that the kubelet stand-in reads from the node's machine annotation."""
Fault: TypeAlias = CallFault | StockOut | Quota | SlowIam | NodeEvent | NodeMark | Registry

KINDS: Mapping[str, type[Fault]] = {
    str(next(f.default for f in fields(kind) if f.name == "fault")): kind
    for kind in get_args(Fault)
}
"""Name in the file -> what it is."""


def as_json(fault: Fault) -> dict[str, Any]:
    """An entry of the file: the fields that differ from their defaults, and the name."""
    stated = {f.name: getattr(fault, f.name) for f in fields(fault)}
    changed = {f.name for f in fields(fault) if stated[f.name] != f.default} | {"fault"}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in stated.items() if k in changed}


def read(text: str, *, where: str = NAME) -> tuple[Fault, ...]:
    """The faults of a file. Raises FaultFileError with every problem."""
    try:
        listed = json.loads(text)
    except ValueError as e:
        raise FaultFileError(f"{where}: is not JSON ({e}); write a list of faults") from None
    if not isinstance(listed, list):
        raise FaultFileError(
            f'{where}: is not a list; write [{{"fault": "throttling", …}}, …], and [] for none'
        )
    faults: list[Fault] = []
    problems: list[str] = []
    for number, entry in enumerate(listed, start=1):
        try:
            faults.append(_fault(entry))
        except _Problems as e:
            problems += [f"{where}: fault {number}{line}" for line in e.lines]
    if problems:
        raise FaultFileError("\n".join(problems))
    return tuple(faults)


class _Problems(Exception):
    def __init__(self, *lines: str) -> None:
        self.lines = lines


def _fault(entry: Any) -> Fault:
    # Imported here: the file is rarely there, and pydantic takes a while to load.
    from pydantic import TypeAdapter, ValidationError

    names = ", ".join(KINDS)
    if not isinstance(entry, dict):
        raise _Problems(f': {_quote(entry)} is not an object; write {{"fault": NAME, …}}')
    name = entry.get("fault")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        near = difflib.get_close_matches(str(name), KINDS, n=1)
        hint = f"did you mean {near[0]}? There are" if near else "there are"
        name_problem = (
            "has no name" if name is None else f"is named {_quote(name)}, which is unknown"
        )
        raise _Problems(f" {name_problem}; {hint} {names}")
    adapter: TypeAdapter[Fault] = TypeAdapter(kind)
    try:
        return adapter.validate_json(json.dumps(entry))
    except ValidationError as e:
        raise _Problems(*_lines(name, kind, e.errors())) from None


def _lines(name: Any, kind: type[Fault], errors: Any) -> Iterator[str]:
    keys = [f.name for f in fields(kind) if f.name != "fault"]
    for error in errors:
        at = ".".join(str(part) for part in error["loc"])
        if error["type"] == "unexpected_keyword_argument":
            near = difflib.get_close_matches(at, keys, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            yield f" ({name}): there is no field {at!r}; {hint}It has {', '.join(keys)}"
        elif error["type"] in ("missing", "missing_argument"):
            yield f" ({name}): {at} is missing; write it"
        else:
            message = error["msg"].removeprefix("Input ")
            yield f" ({name}): {at} {message}, not {_quote(error['input'])}"


def _quote(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"

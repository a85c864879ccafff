"""Results of a proof, as plain frozen values, and the messages from child to parent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.signs import Sign

Outcome = Literal["computed", "failed", "untried"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a device did not compute."""

    step: str
    """The function of CUDA, or the part of the proof."""
    name: str
    """Key of `signs`, or the driver's name for a code that `signs` does not have."""
    code: int | None = None
    detail: str = ""

    @property
    def sign(self) -> Sign:
        return signs.of_name(self.name, self.code)

    @property
    def outcome(self) -> Outcome:
        return "untried" if self.sign.scope == "environment" else "failed"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Sizes, times and rates of a device. The rates are reported, and never judged."""

    name: str
    multiprocessors: int
    memory_mib: int
    occupied_mib: int
    """Memory in use once the context exists, nearly all by the context itself."""
    tested_mib: int
    """Memory that was written, read back and compared."""
    compile_ms: float
    write_gb_s: float
    read_gb_s: float
    wrong_words: int = 0


@dataclass(frozen=True, kw_only=True)
class DeviceResult:
    uuid: str
    measurement: Measurement | None = None
    failure: Failure | None = None

    @property
    def outcome(self) -> Outcome:
        return self.failure.outcome if self.failure else "computed"


@dataclass(frozen=True, kw_only=True)
class Started:
    """A process has initialized CUDA."""

    cuda: int
    """Newest CUDA version of the driver: 13000 = 13.0."""
    init_ms: float
    uuids: tuple[str, ...]
    """The devices that CUDA shows, by the names under which they were requested."""
    unexpected: tuple[str, ...] = ()
    """Those that were not requested, as hexadecimal digits."""


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A process begins with this device."""

    uuid: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A process cannot initialize CUDA."""

    failure: Failure


Message = Started | Begun | Refused | DeviceResult

_KINDS: dict[str, type[Message]] = {
    "started": Started,
    "begun": Begun,
    "refused": Refused,
    "device": DeviceResult,
}


def to_line(message: Message) -> bytes:
    """A line of JSON for the pipe."""
    (kind,) = (kind for kind, type_ in _KINDS.items() if isinstance(message, type_))
    return json.dumps({"kind": kind, **asdict(message)}, separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> Message:
    """The inverse of `to_line`. Raises KeyError, TypeError or ValueError on anything else."""
    fields: dict[str, Any] = json.loads(line)
    kind = fields.pop("kind")
    if kind == "started":
        return Started(
            **{**fields, "uuids": tuple(fields["uuids"]), "unexpected": tuple(fields["unexpected"])}
        )
    if kind == "device":
        measurement = fields["measurement"]
        return DeviceResult(
            uuid=fields["uuid"],
            measurement=Measurement(**measurement) if measurement else None,
            failure=_failure(fields["failure"]),
        )
    if kind == "refused":
        return Refused(failure=Failure(**fields["failure"]))
    return Begun(**fields)


def _failure(fields: Mapping[str, Any] | None) -> Failure | None:
    return Failure(**fields) if fields else None

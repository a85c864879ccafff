"""Reads the output of `pulumi preview --json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from slicewright.processes.foreign_json import NotReadable, read_json


class NotAPreview(ValueError):
    """The text is not the output of `pulumi preview --json`."""


class Outcome(Enum):
    """The fate of a resource."""

    CREATED = "created"
    ADOPTED = "adopted"
    CHANGED = "changed in place"
    REPLACED = "replaced"
    DELETED = "deleted"
    FORGOTTEN = "forgotten"
    """The resource leaves the state, but continues to exist."""


_REPLACING = frozenset(
    {
        "replace",
        "create-replacement",
        "delete-replaced",
        "import-replacement",
        "read-replacement",
        "discard-replaced",
        "remove-pending-replace",
    }
)
_OUTCOMES: Mapping[str, Outcome] = {
    **dict.fromkeys(_REPLACING, Outcome.REPLACED),
    "create": Outcome.CREATED,
    "import": Outcome.ADOPTED,
    "update": Outcome.CHANGED,
    "delete": Outcome.DELETED,
    "discard": Outcome.FORGOTTEN,
}
"""The engine's operation -> outcome. Source: pulumi/pulumi, pkg/resource/deploy/step.go
(StepOp).
"""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One resource that changes."""

    urn: str
    outcome: Outcome
    identity: str
    """The ID of the existing resource. Empty if none exists."""
    since: str
    """The time when Pulumi created or took over the existing resource. Empty if unknown."""
    fields: tuple[str, ...]
    """The fields that differ."""
    causes: tuple[str, ...]
    """The fields that force the replacement. Empty if it only goes along with another resource."""
    before: Mapping[str, Any]
    """The fields of the existing resource in Pulumi's state."""
    after: Mapping[str, Any] = field(default_factory=dict)
    """The fields after the change. Fields that only the cloud decides may be missing."""
    ignored: tuple[str, ...] = ()
    """Property paths whose values the program leaves to others (ignoreChanges)."""
    retained: bool = False
    """True if the cloud keeps it although Pulumi deletes it from the state (retainOnDelete)."""

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]

    @property
    def type(self) -> str:
        """The type, without the types of its parents: `gcp:container/nodePool:NodePool`."""
        return self.urn.split("::")[2].rpartition("$")[2]


@dataclass(frozen=True, kw_only=True)
class Preview:
    steps: tuple[Step, ...]
    unchanged: int
    errors: tuple[str, ...]
    """The reasons why the preview failed. The steps are then incomplete."""
    warnings: tuple[str, ...]


def read_preview(output: bytes) -> Preview:
    """Raises NotAPreview."""
    try:
        document = read_json(output, "a preview")
    except NotReadable as e:
        raise NotAPreview(_why_not_json(output, e)) from None
    if not isinstance(document, dict) or not isinstance(document.get("steps", []), list):
        raise NotAPreview("it has no list of steps")
    raw = document.get("steps", [])
    if "steps" not in document and "diagnostics" not in document:
        raise NotAPreview("it has neither steps nor diagnostics")
    steps = _by_resource(raw)
    try:
        diagnostics = [
            (str(entry.get("severity")), str(entry["message"]).removeprefix("error: ").strip())
            for entry in document.get("diagnostics") or ()
        ]
    except (KeyError, TypeError, AttributeError):
        raise NotAPreview("a diagnostic is not in Pulumi's format") from None
    return Preview(
        steps=steps,
        unchanged=sum(1 for operation in raw if operation["op"] == "same"),
        errors=tuple(text for severity, text in diagnostics if severity == "error"),
        warnings=tuple(text for severity, text in diagnostics if severity == "warning"),
    )


def _why_not_json(output: bytes, error: NotReadable) -> str:
    if not output.strip():
        return "it is empty"
    try:
        read_json(output.lstrip().splitlines()[0], "an event")
    except NotReadable:
        return f"it is not JSON ({error})"
    return (
        "it has an event per line; run `pulumi preview --json` without "
        "PULUMI_ENABLE_STREAMING_JSON_PREVIEW"
    )


def _by_resource(raw: Iterable[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Merges the engine's steps by resource: a replacement has up to three."""
    steps: dict[str, Step] = {}
    for number, operation in enumerate(raw):
        try:
            outcome = _OUTCOMES.get(operation["op"])
            step = _step(operation, outcome) if outcome is not None else None
        except (KeyError, TypeError, AttributeError, IndexError):
            raise NotAPreview(f"steps[{number}] is not in Pulumi's format") from None
        if step is None:
            continue
        earlier = steps.get(step.urn)
        if earlier is None or not (earlier.causes or earlier.identity):
            steps[step.urn] = step
    return tuple(steps.values())


def _step(raw: Mapping[str, Any], outcome: Outcome) -> Step:
    state, new = raw.get("oldState") or {}, raw.get("newState") or {}
    differs: Mapping[str, Mapping[str, Any]] = raw.get("detailedDiff") or {}
    fields = dict.fromkeys([*differs, *(raw.get("diffReasons") or ())])
    causes = dict.fromkeys(
        [
            *(name for name, how in differs.items() if str(how["kind"]).endswith("-replace")),
            *(raw.get("replaceReasons") or ()),
        ]
    )
    urn = str(raw["urn"])
    if urn.count("::") < 3:
        raise NotAPreview(f"{urn!r} is not a URN")
    return Step(
        urn=urn,
        outcome=outcome,
        identity=str(state.get("id") or ""),
        since=str(state.get("created") or ""),
        fields=tuple(fields),
        causes=tuple(causes) if outcome is Outcome.REPLACED else (),
        before={**(state.get("inputs") or {}), **(state.get("outputs") or {})},
        after={**(new.get("outputs") or {}), **(new.get("inputs") or {})},
        ignored=tuple(state.get("ignoreChanges") or ()),
        retained=bool(state.get("retainOnDelete")),
    )

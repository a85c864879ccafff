"""Error recovery: reads the rest of a broken file, so that a single run finds all problems."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from slicewright.infra.stack_file.problem import Path, Problem
from slicewright.infra.stack_file.reading.annotations import (
    FLEET_TYPE,
    example,
    is_required,
    locate,
    type_at,
)
from slicewright.infra.stack_file.reading.diagnosis import (
    Diagnosis,
    DropValue,
    RenameKey,
    ReplaceValue,
)
from slicewright.infra.stack_file.reading.source import Source
from slicewright.infra.stack_file.reading.validation_errors import diagnose
from slicewright.infra.stack_file.schema.fleet import Fleet

_ADAPTER: TypeAdapter[Fleet] = TypeAdapter(FLEET_TYPE)
_MAX_ROUNDS = 12
"""A fix of a key can reveal a problem below it. No stack file is nested deeper."""
_MAX_DIAGNOSED = 200
"""The most problems of a round that are described. Each needs milliseconds, and 50 are shown."""
ENCRYPTED = "is an encrypted secret, but the plan shows every value of a fleet"
"""The reason of a problem with a secret."""


@dataclass(frozen=True, kw_only=True)
class RecoveredFleet:
    """The fleet of a file with problems: fixed where the intention is clear, unknown elsewhere."""

    fleet: Fleet | None
    """None if too much is unknown."""
    problems: tuple[Problem, ...]
    """Empty if the fleet is exactly the content of the file."""
    unknown: frozenset[Path] = frozenset()
    """Paths of `fleet` with a default or an example, not a value from the file."""
    renamed: Mapping[Path, Path] = field(default_factory=dict)
    """Path in `fleet` -> path of the misspelled key in the file."""
    unlisted: int = 0
    """The number of further problems, which are only counted: nobody reads hundreds."""

    def in_file(self, problem: Problem) -> Problem:
        """The problem of the fleet with its path in the file."""
        return dataclasses.replace(problem, path=_file_path(problem.path, self.renamed))


def recover(text: str, source: Source) -> RecoveredFleet:
    """The fleet in JSON text. `source.raw` has the same content as Python objects."""
    if not source.unusable and '"secure"' not in text:
        with contextlib.suppress(ValidationError):
            return RecoveredFleet(fleet=_ADAPTER.validate_json(text), problems=())
    draft = _Draft(source)
    if '"secure"' in text:
        draft.drop_secrets()
        text = json.dumps(draft.raw)
    for _ in range(_MAX_ROUNDS):
        try:
            fleet = _ADAPTER.validate_json(text)
        except ValidationError as e:
            before, text = text, draft.fixed(e)
            if text == before or draft.unlisted:
                break
        else:
            return draft.result(fleet)
    return draft.result(None)


class _Draft:
    """A copy of the file that receives fixes."""

    def __init__(self, source: Source) -> None:
        self.source = dataclasses.replace(source, raw=copy.deepcopy(source.raw))
        self.problems: dict[tuple[Path, str], Problem] = {}
        self.unknown: set[Path] = set(source.unusable)
        self.renamed: dict[Path, Path] = {}
        self.unlisted = 0

    @property
    def raw(self) -> Any:
        return self.source.raw

    def result(self, fleet: Fleet | None) -> RecoveredFleet:
        return RecoveredFleet(
            fleet=fleet,
            problems=tuple(self.problems.values()),
            unknown=frozenset(self.unknown),
            renamed=dict(self.renamed),
            unlisted=self.unlisted,
        )

    def drop_secrets(self) -> None:
        for path in list(_secrets(self.raw, ())):
            self.source.value(path[:-1])[path[-1]] = None
            self.unknown.add(path)
            self._report(
                Problem(
                    code="encrypted-value",
                    path=path,
                    reason=ENCRYPTED,
                    instead="write the value itself, or set it with `pulumi config set --path "
                    "--plaintext`",
                    source="Pulumi docs, secrets",
                )
            )

    def fixed(self, error: ValidationError) -> str:
        """Reports the problems, applies their fixes and returns the new text."""
        # The state before this round, as a key and its value can both be wrong.
        unknown = frozenset(self.unknown)
        self.unlisted = max(error.error_count() - _MAX_DIAGNOSED, 0)
        for diagnosis in diagnose(error, self.source, _MAX_DIAGNOSED):
            path = diagnosis.problem.path
            is_known = not any(path[:length] in unknown for length in range(len(path) + 1))
            if is_known and not self._is_emptied(path, unknown):
                self._report(diagnosis.problem)
            self._apply(diagnosis)
        return json.dumps(self.raw)

    def _is_emptied(self, path: Path, unknown: frozenset[Path]) -> bool:
        """True for a mapping whose invalid keys, already reported, were its only ones."""
        return self.source.value(path) == {} and any(
            len(other) > len(path) and other[: len(path)] == path for other in unknown
        )

    def _report(self, problem: Problem) -> None:
        problem = dataclasses.replace(problem, path=_file_path(problem.path, self.renamed))
        self.problems.setdefault((problem.path, problem.reason), problem)

    def _apply(self, diagnosis: Diagnosis) -> None:
        path, _ = locate(diagnosis.loc)
        holder = self.source.value(path[:-1])
        match diagnosis.fix:
            case RenameKey(key=key):
                self.renamed[(*path[:-1], key)] = _file_path(path, self.renamed)
                holder[key] = holder.pop(path[-1])
            case ReplaceValue(value=value, unknown=unknown) if path:
                self.unknown.update(unknown)
                holder[path[-1]] = value
            case ReplaceValue(value=value):
                self.source = dataclasses.replace(self.source, raw=value)
            case DropValue(unknown=unknown):
                self.unknown.update(unknown)
                self._drop(diagnosis.loc)

    def _drop(self, loc: tuple[str | int, ...]) -> None:
        """Removes as little as possible. A required key gets an example. Marks the path unknown."""
        for length in range(len(loc), 0, -1):
            path, parent = locate(loc[:length])
            holder = self.source.value(path[:-1]) if path else None
            if parent is None or not isinstance(holder, dict | list):
                continue
            self.unknown.add(path)
            if isinstance(holder, list):
                holder[int(path[-1])] = example(type_at(parent, path[-1]))
            elif is_required(parent, path):
                holder[path[-1]] = example(type_at(parent, path[-1]))
            else:
                holder.pop(path[-1], None)
            return


def _secrets(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        if path and len(value) == 1 and isinstance(value.get("secure"), str):
            yield path
            return
        for key, inner in value.items():
            yield from _secrets(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _secrets(inner, (*path, i))


def _file_path(path: Path, renamed: Mapping[Path, Path]) -> Path:
    for length in range(len(path), 0, -1):
        if path[:length] in renamed:
            return (*renamed[path[:length]], *path[length:])
    return path

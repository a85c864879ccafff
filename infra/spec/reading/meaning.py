"""A broken file as it was probably meant, so that its other problems can be found in the same run.
Never deployed.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from infra.spec.problem import Path, Problem
from infra.spec.reading.shape import FLEET, example, inside, is_required, locate
from infra.spec.reading.slips import LeftOut, Renamed, Replaced, Slip, slips
from infra.spec.reading.source import Source
from infra.spec.schema.fleet import Fleet

_ADAPTER: TypeAdapter[Fleet] = TypeAdapter(FLEET)
_ROUNDS = 12
"""A mended key can show a slip below it, as deep as a stack file goes."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a file says, slips mended where it is clear what was meant, and the rest of each slip
    left open.
    """

    fleet: Fleet | None
    """None where too much is open."""
    problems: tuple[Problem, ...]
    """Empty: the fleet is just what the file says."""
    unknown: frozenset[Path] = frozenset()
    """Places of `fleet` with an example or a default, because nobody knows what was meant: nothing
    may follow from them.
    """
    moved: Mapping[Path, Path] = field(default_factory=dict)
    """Place in `fleet` -> the misspelt one in the file."""

    def in_file(self, problem: Problem) -> Problem:
        """A problem of the fleet, where it stands in the file."""
        return dataclasses.replace(problem, path=_in_file(problem.path, self.moved))


def read(text: str, source: Source) -> Reading:
    """The fleet in JSON text. source: the same, as read."""
    draft = _Draft(source)
    if '"secure"' in text:
        draft.open_secrets()
        text = json.dumps(draft.raw)
    for _ in range(_ROUNDS):
        try:
            fleet = _ADAPTER.validate_json(text)
        except ValidationError as e:
            before, text = text, draft.mended(e)
            if text == before:
                break
        else:
            return draft.reading(fleet)
    return draft.reading(None)


class _Draft:
    """The file, being mended."""

    def __init__(self, source: Source) -> None:
        self.source = dataclasses.replace(source, raw=copy.deepcopy(source.raw))
        self.problems: dict[tuple[Path, str], Problem] = {}
        self.unknown: set[Path] = set(source.unusable)
        self.moved: dict[Path, Path] = {}

    @property
    def raw(self) -> Any:
        return self.source.raw

    def reading(self, fleet: Fleet | None) -> Reading:
        return Reading(
            fleet=fleet,
            problems=tuple(self.problems.values()),
            unknown=frozenset(self.unknown),
            moved=dict(self.moved),
        )

    def open_secrets(self) -> None:
        for path in list(_secrets(self.raw, ())):
            self.source.value(path[:-1])[path[-1]] = None
            self.unknown.add(path)
            self._tell(
                Problem(
                    path=path,
                    reason="is encrypted, and nothing in a fleet is secret: the plan has to show "
                    "what it makes",
                    instead="write the value itself, or set it by `pulumi config set --path` with "
                    "--plaintext, not --secret",
                    source="Pulumi docs, secrets",
                )
            )

    def mended(self, error: ValidationError) -> str:
        """The text after the slips have been told and mended."""
        # As before this round: a key and its value can both be wrong.
        unknown = frozenset(self.unknown)
        for slip in slips(error, self.source):
            if not any(slip.problem.path[: len(known)] == known for known in unknown):
                self._tell(slip.problem)
            self._mend(slip)
        return json.dumps(self.raw)

    def _tell(self, problem: Problem) -> None:
        problem = dataclasses.replace(problem, path=_in_file(problem.path, self.moved))
        self.problems.setdefault((problem.path, problem.reason), problem)

    def _mend(self, slip: Slip) -> None:
        path, _ = locate(slip.loc)
        holder = self.source.value(path[:-1])
        match slip.mend:
            case Renamed(key=key):
                self.moved[(*path[:-1], key)] = _in_file(path, self.moved)
                holder[key] = holder.pop(path[-1])
            case Replaced(value=value, also=also) if path:
                self.unknown.update(also)
                holder[path[-1]] = value
            case Replaced(value=value):
                self.source = dataclasses.replace(self.source, raw=value)
            case LeftOut(also=also):
                self.unknown.update(also)
                self._leave_out(slip.loc)

    def _leave_out(self, loc: tuple[str | int, ...]) -> None:
        """As little as possible: what may be absent goes; what may not becomes an example, and its
        place unknown.
        """
        for length in range(len(loc), 0, -1):
            path, parent = locate(loc[:length])
            holder = self.source.value(path[:-1]) if path else None
            if parent is None or not isinstance(holder, dict | list):
                continue
            self.unknown.add(path)
            if isinstance(holder, list):
                holder[int(path[-1])] = example(inside(parent, path[-1]))
            elif is_required(parent, path):
                holder[path[-1]] = example(inside(parent, path[-1]))
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


def _in_file(path: Path, moved: Mapping[Path, Path]) -> Path:
    for length in range(len(path), 0, -1):
        if path[:length] in moved:
            return (*moved[path[:length]], *path[length:])
    return path

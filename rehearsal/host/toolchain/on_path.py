"""Tools that are installed on PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slicewright.rehearsal.host.toolchain import versions
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import Binary, Tool
from slicewright.rehearsal.host.toolchain.versions import Answers


@dataclass(frozen=True)
class Refusal:
    """Why the tool is not taken from PATH."""

    reason: str


def find(tool: Tool, settings: Settings, answers: Answers) -> dict[str, Path] | Refusal:
    """Paths of the tool's binaries by their Toolchain field: the first suitable ones on PATH.

    Suitable: the same major and minor version as the pinned one, and the same patch or a later one.
    """
    if not tool.on_path:
        return Refusal("comes with this checkout")
    wanted = versions.parse(tool.version)
    if wanted is None:
        raise AssertionError(f"{tool.name}: the pinned version {tool.version!r} is not a version")
    found: dict[str, Path] = {}
    for binary in tool.binaries:
        outcome = _find(binary, wanted, settings, answers)
        if isinstance(outcome, Refusal):
            return outcome
        found[binary.field] = outcome
    return found


def candidates(name: str, settings: Settings) -> Iterator[Path]:
    """The executable files called `name` on PATH, without those of a rehearsal itself."""
    environment = settings.environment.get("SLICEWRIGHT_REHEARSAL")
    own = [settings.cache.resolve(), *([Path(environment).resolve()] if environment else [])]
    for directory in settings.path.split(os.pathsep):
        if not directory.startswith("/"):
            continue
        program = Path(directory) / name
        # access first: it says no where is_file would raise, in a directory that may not be looked
        # into
        if (
            os.access(program, os.X_OK)
            and program.is_file()
            and not any(_below(program, place) for place in own)
        ):
            yield program


def _below(program: Path, directory: Path) -> bool:
    # As written and as it resolves: an environment's bin/ holds links to the cache.
    return (
        program.is_relative_to(directory)
        or program.parent.resolve().is_relative_to(directory)
        or program.resolve().is_relative_to(directory)
    )


def _find(
    binary: Binary, wanted: tuple[int, int, int], settings: Settings, answers: Answers
) -> Path | Refusal:
    refusal = Refusal(f"{binary.name} is not on PATH")
    first = True
    for program in candidates(binary.name, settings):
        answer = answers.ask(program, binary.ask)
        version = versions.parse(answer) if answer is not None else None
        if version is not None and versions.serves(version, wanted):
            return program
        if first:
            said = (
                "does not report its version"
                if version is None
                else f"is v{'.'.join(map(str, version))}"
            )
            refusal = Refusal(f"{program} {said}, not v{'.'.join(map(str, wanted))}")
            first = False
    return refusal

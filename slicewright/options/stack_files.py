"""Stack files on the command line, named by stack or by path."""

from __future__ import annotations

import argparse
from pathlib import Path

from slicewright.infra import plan, stack_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="a stack file")
    parser.add_argument(
        "-s",
        "--stack",
        action="append",
        metavar="NAME",
        help="the stack file Pulumi.NAME.yaml of the project; may be given more than once",
    )


def named(parsed: argparse.Namespace) -> list[str]:
    return [*parsed.files, *(parsed.stack or ())]


def path_of(name: str) -> Path:
    """Returns the file `name`, or the stack's file if no such file exists and it has no suffix."""
    file = Path(name)
    if not file.suffix and len(file.parts) == 1 and not _exists(file):
        return _stacks() / f"Pulumi.{name}.yaml"
    return file


def read_plan(file: Path, *, name: str | None = None) -> plan.FleetPlan:
    """Returns the plan of a stack file. Raises SpecError.

    name: the file's name in messages. None: its path for display.
    """
    _require(file)
    return plan.read_file(file, name=name or display_path(file))


def read_source(file: Path) -> stack_file.Source:
    """Reads a stack file for `plan.read_source`. Raises SpecError."""
    _require(file)
    return plan.source_of(file, name=display_path(file))


def _require(file: Path) -> None:
    """Raises SpecError, which lists the project's stacks, if the stack has no file there."""
    if file.parent != _stacks() or _exists(file):
        return
    stacks = sorted(path.stem.removeprefix("Pulumi.") for path in _stacks().glob("Pulumi.*.yaml"))
    existing = f"existing stacks: {', '.join(stacks)}" if stacks else "there are no stacks"
    name = display_path(file)
    raise stack_file.unreadable(
        f"{name}: cannot be read: No such file or directory; {existing}", name
    )


def display_path(file: Path) -> str:
    """Returns the path, relative to the current directory if the file is below it."""
    try:
        return str(file.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # for example a name that is too long; reading it gives the reason
        return True


def _stacks() -> Path:
    """Returns the directory of stack files of the project around the current directory. Without a
    project: `stacks/`.
    """
    here = Path.cwd()
    project = stack_file.find_project(here)
    return here / "stacks" if project is None else stack_file.stack_directory(project)

"""Asks this machine's `pulumi` for a stack's backend, and the backend for the stack's locks."""

from __future__ import annotations

from pathlib import Path

import yaml

from slicewright.doctor.findings import CannotAsk
from slicewright.infra import stack_file
from slicewright.locks.backends import Unsupported, backend_of
from slicewright.locks.lock import Unreadable, lock_prefix, read_lock
from slicewright.processes.foreign_json import NotReadable, read_object
from slicewright.processes.programs import ProgramFailed
from slicewright.processes.pulumi import name_of, run_pulumi


def backend_url() -> str:
    """The backend's URL, from `pulumi whoami --verbose`. Raises CannotAsk."""
    try:
        url = read_object(pulumi("whoami", "--verbose", "--json"), "the user and the backend")[
            "url"
        ]
    except NotReadable as e:
        raise CannotAsk(f"cannot parse the output of `pulumi whoami`: {e}") from None
    except KeyError:
        raise CannotAsk("cannot parse the output of `pulumi whoami`: it has no url") from None
    return str(url)


def project_name() -> str:
    """The name of this project in the backend, which groups the stacks by it. Raises CannotAsk."""
    here = Path.cwd()
    project = stack_file.find_project(here)
    if project is None:
        raise CannotAsk(f"{here} is not in a project: no Pulumi.yaml in this directory or above it")
    file = project / stack_file.PROJECT_FILE
    try:
        return str(yaml.safe_load(file.read_text(encoding="utf-8"))["name"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        raise CannotAsk(f"{file}: the project has no name") from None


def holders(stack: str) -> tuple[str, ...]:
    """Each lock of a stack, as the process, user, host and time that it names.

    Empty for Pulumi Cloud and for backends with unsupported locks. Raises CannotAsk.
    """
    try:
        backend = backend_of(backend_url())
    except Unsupported:
        return ()
    if backend is None:
        return ()
    files = backend.files(lock_prefix(project_name(), stack))
    return tuple(_holder(key, content) for key, content in files.items())


def pulumi(*arguments: str) -> bytes:
    """Returns the output of a Pulumi command. Raises CannotAsk."""
    try:
        ended = run_pulumi(*arguments)
    except ProgramFailed as e:
        raise CannotAsk(str(e)) from None
    if ended.code:
        raise CannotAsk(f"`{name_of(arguments)}` failed: {ended.complaint}")
    return ended.stdout


def _holder(key: str, content: bytes) -> str:
    try:
        return read_lock(key, content).held_by
    except Unreadable as e:
        return str(e)

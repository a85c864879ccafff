"""Asks this machine's `pulumi` for a stack's backend, and the backend for the stack's locks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import yaml

from slicewright.doctor.findings import CannotAsk
from slicewright.locks.backends import Unsupported, backend_of
from slicewright.locks.lock import Unreadable, lock_prefix, read_lock


def backend_url() -> str:
    """The backend's URL, from `pulumi whoami --verbose`. Raises CannotAsk."""
    try:
        return str(json.loads(pulumi("whoami", "--verbose", "--json"))["url"])
    except (ValueError, KeyError, TypeError) as e:
        raise CannotAsk(f"cannot parse the output of `pulumi whoami`: {e}") from None


def project_name() -> str:
    """The name of this project in the backend, which groups the stacks by it. Raises CannotAsk."""
    here = Path.cwd()
    file = next((f for at in (here, *here.parents) if (f := at / "Pulumi.yaml").is_file()), None)
    if file is None:
        raise CannotAsk(f"{here} is not in a project: no Pulumi.yaml in this directory or above it")
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


def pulumi(*arguments: str) -> str:
    """Returns the output of a Pulumi command. Raises CannotAsk."""
    try:
        done = subprocess.run(
            ["pulumi", *arguments],
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as e:
        raise CannotAsk(f"cannot start pulumi ({e.strerror}); install it, or fix PATH") from None
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise CannotAsk(f"`pulumi {arguments[0]}` failed: {reason}")
    return done.stdout


def _holder(key: str, content: bytes) -> str:
    try:
        return read_lock(key, content).held_by
    except Unreadable as e:
        return str(e)

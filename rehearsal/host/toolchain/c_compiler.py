"""The C compiler, for the fake NVML and for cgo."""

from __future__ import annotations

import shutil
from pathlib import Path

from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.versions import Answers


def find(settings: Settings) -> Path:
    """`$CC` if set, else cc, gcc or clang. Raises MissingPrerequisite."""
    chosen = settings.environment.get("CC", "").split()
    for name in chosen[:1] or ("cc", "gcc", "clang"):
        if found := shutil.which(name, path=settings.path):
            return Path(found)
    looked = (
        f"CC={' '.join(chosen)} does not exist"
        if chosen
        else "neither cc, gcc nor clang is on PATH"
    )
    raise MissingPrerequisite(
        f"building programs that use NVML needs a C compiler, and {looked}; install one (Debian: "
        "`apt-get install gcc libc6-dev`)"
    )


def version(settings: Settings, answers: Answers) -> str:
    """The compiler's version; `none` without one, so that cached builds are still found."""
    try:
        compiler = find(settings)
    except MissingPrerequisite:
        return "none"
    said = (answers.ask(compiler, ("--version",)) or "").splitlines()
    return said[0] if said else "unknown"

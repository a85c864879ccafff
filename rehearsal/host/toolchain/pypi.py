"""Files of PyPI, each pinned by digest, unpacked into a directory by pip or uv."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from slicewright.rehearsal.host.toolchain import commands
from slicewright.rehearsal.host.toolchain.reporting import Step
from slicewright.rehearsal.host.toolchain.settings import Settings

Installer = tuple[str | Path, ...]


def installer(settings: Settings) -> Installer | None:
    """The start of an installing command; None without pip and uv."""
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip", "install")
    for name in ("pip3", "pip"):
        if found := shutil.which(name, path=settings.path):
            return (found, "install")
    if found := shutil.which("uv", path=settings.path):
        return (found, "pip", "install")
    return None


def install(
    using: Installer, requirement: str, staging: Path, settings: Settings, log: Path, step: Step
) -> int:
    """Unpacks what the lines of `requirement` name into `staging`/bin; returns the exit code.

    requirement: a requirements file, each line with `--hash`. Nothing that is not named is
    installed, and no source package is built.
    """
    wanted = staging / "requirements.txt"
    wanted.write_text(requirement)
    log.write_text("")
    return commands.run(
        [
            *using,
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--target",
            staging / "bin",
            "-r",
            wanted,
        ],
        environment={**settings.environment, "PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0"},
        directory=staging,
        log=log,
        progress=lambda _: step.update("installing"),
        every_s=settings.progress_s,
    )

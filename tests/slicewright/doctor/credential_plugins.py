"""The rehearsal's credential programs of kubeconfigs, first on PATH.

A machine may have the real ones, which know nothing of the simulated clouds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slicewright.rehearsal.scenario.plugins_and_commands import CREDENTIAL_PLUGINS


def put_on_path(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """directory: the rehearsal's; the programs are written below it."""
    commands = directory / "bin"
    commands.mkdir()
    for name, module in CREDENTIAL_PLUGINS.items():
        (commands / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n')
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(directory))

"""The entry that a user's one-line program calls."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from slicewright.infra import entry, program


@pytest.fixture
def collector() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.enable()
    yield
    gc.enable() if enabled else gc.disable()


@pytest.mark.usefixtures("collector")
def test_entry_runs_the_program_without_garbage_collection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enabled: list[bool] = []
    monkeypatch.setattr(program, "main", lambda: enabled.append(gc.isenabled()))
    entry.main()
    assert enabled == [False]


def test_importing_the_entry_imports_no_sdk() -> None:
    code = "import sys, slicewright.infra.entry; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    assert not {"pulumi", "pulumi_aws", "pulumi_gcp", "pulumi_kubernetes"} & set(modules)

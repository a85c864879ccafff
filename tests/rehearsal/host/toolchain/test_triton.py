"""Where NVIDIA's Triton can run, and how it comes there."""

from __future__ import annotations

import importlib.util
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain, triton, workload_tools
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.triton import Interpreter

PYTHON = Interpreter("3.11", Path("/usr/lib/libpython3.11.so.1.0"), (2, 36))
HERE = "linux-x86_64"


def test_it_runs_on_a_machine_that_has_all_that_it_needs() -> None:
    assert triton.why_not(PYTHON, HERE) is None


@pytest.mark.parametrize(
    ("python", "on", "said"),
    [
        (PYTHON, "linux-aarch64", "pinned for linux-x86_64 only, and this is linux-aarch64"),
        ("no libpython", HERE, "no libpython"),
        (replace(PYTHON, series="3.13"), HERE, "make .venv with Python 3.11 or 3.12"),
        (replace(PYTHON, glibc=(2, 34)), HERE, "needs glibc 2.35 or newer .* has glibc 2.34"),
        (replace(PYTHON, glibc=None), HERE, "has another C library"),
    ],
)
def test_elsewhere_it_says_what_is_missing_and_what_to_do(
    python: Interpreter | str, on: str, said: str
) -> None:
    reason = triton.why_not(python, on)
    assert reason is not None
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(reason)


def test_no_tool_is_got_where_it_cannot_run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "machine", lambda: "linux-riscv64")
    with pytest.raises(MissingPrerequisite, match="this is linux-riscv64"):
        triton.ensure(bench.settings, bench.lines.append)
    assert bench.lines == []


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_a_file_of_another_digest_is_not_unpacked(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton, "interpreter", lambda: PYTHON)
    (tmp_path / "wheels").mkdir()
    name = f"nvidia_pytriton-{triton.VERSION}-py3-none-any.whl"
    (tmp_path / "wheels" / name).write_bytes(b"not what NVIDIA published")
    found = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    settings = replace(bench.settings, environment={**bench.settings.environment, **found})
    with pytest.raises(ToolchainError, match="DO NOT MATCH THE HASHES"):
        triton.ensure(settings, bench.lines.append)
    assert list(settings.cache.glob("triton-*")) == []


def test_it_is_a_group_of_its_own_that_nothing_is_built_for() -> None:
    assert workload_tools.TRITON in workload_tools.GROUPS
    assert workload_tools.of([workload_tools.TRITON]) == ()


def test_it_starts_and_its_backend_has_its_stub_beside_it(triton_toolchain: Toolchain) -> None:
    server = triton_toolchain.triton
    assert server is not None
    said = subprocess.run([server, "--help"], capture_output=True, text=True, check=False)
    assert "Usage: tritonserver" in said.stdout + said.stderr
    wheels = triton.wheels(server)
    assert (wheels / triton.BACKENDS / "python" / "triton_python_backend_stub").is_file()
    assert (wheels / "numpy" / "__init__.py").is_file()

"""The tools themselves, got as `make rehearse` gets them: minutes on a machine that has none, then
a moment.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterable

import pytest

from slicewright.rehearsal.host import toolchain
from slicewright.rehearsal.host.toolchain import Toolchain, versions, workload_tools
from slicewright.rehearsal.host.toolchain.tools import TOOLS, Tool

pytestmark = pytest.mark.rehearsal


def test_every_tool_is_there_says_its_pinned_version_and_the_second_time_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = toolchain.ensure(print)
    _require_versions(TOOLS, tools)
    assert ctypes.CDLL(str(tools.fake_nvml)).nvmlInit_v2
    lines: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert toolchain.ensure(lines.append) == tools
    assert lines == []


def test_every_tool_of_the_groups_has_its_version(whole_toolchain: Toolchain) -> None:
    _require_versions(workload_tools.of(workload_tools.OF_TESTS), whole_toolchain)


def _require_versions(tools: Iterable[Tool], toolchain: Toolchain) -> None:
    for tool in tools:
        for binary in tool.binaries:
            path = getattr(toolchain, binary.field)
            assert path.is_absolute()
            assert path.is_file()
            if binary.ask:
                said = subprocess.run(
                    [path, *binary.ask], check=True, capture_output=True, text=True
                )
                version, wanted = (
                    versions.parse(said.stdout + said.stderr),
                    versions.parse(tool.version),
                )
                assert version is not None
                assert wanted is not None
                assert versions.serves(version, wanted)

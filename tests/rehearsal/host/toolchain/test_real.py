"""The tools themselves, got as `make rehearse` gets them: minutes on a machine that has none, then
a moment.
"""

from __future__ import annotations

import ctypes
import subprocess

import pytest

from rehearsal.host import toolchain
from rehearsal.host.toolchain import versions
from rehearsal.host.toolchain.tools import TOOLS

pytestmark = pytest.mark.rehearsal


def test_every_tool_is_there_says_its_pinned_version_and_the_second_time_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tools = toolchain.ensure(print)
    for tool in TOOLS:
        for binary in tool.binaries:
            path = getattr(tools, binary.field)
            assert path.is_absolute()
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
    assert ctypes.CDLL(str(tools.fake_nvml)).nvmlInit_v2
    lines: list[str] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert toolchain.ensure(lines.append) == tools
    assert lines == []

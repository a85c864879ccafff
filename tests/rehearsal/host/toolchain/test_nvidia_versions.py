"""The versions of NVIDIA's programs are those of tools.py in every go.mod and page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slicewright.rehearsal.host.toolchain import tools

ROOT = Path(__file__).resolve().parents[4]
MODULES = {
    "github.com/NVIDIA/mig-parted": tools.MIG_PARTED,
    "github.com/NVIDIA/k8s-device-plugin": tools.DEVICE_PLUGIN,
}
GO_MODS = sorted((ROOT / "rehearsal/host/toolchain/go").glob("*/go.mod"))


@pytest.mark.parametrize("module", MODULES)
def test_every_go_mod_requires_the_version(module: str) -> None:
    pattern = re.compile(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", re.MULTILINE)
    required = {
        str(go_mod.relative_to(ROOT)): version
        for go_mod in GO_MODS
        for version in pattern.findall(go_mod.read_text())
    }
    assert required
    assert set(required.values()) == {MODULES[module]}, required


@pytest.mark.parametrize("page", ["README.md", "docs/reference/nvidia-versions.md"])
@pytest.mark.parametrize("version", MODULES.values())
def test_the_pages_name_the_version(page: str, version: str) -> None:
    assert f"v{version}" in (ROOT / page).read_text()

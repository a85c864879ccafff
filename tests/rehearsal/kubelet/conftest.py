"""One control plane with a kubelet stand-in for this room's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rehearsal.node import launcher
from rehearsal.toolchain import Toolchain


def _load() -> ModuleType:
    name = "slicewright_test_simulated_cluster"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("simulated_cluster.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    """With one node, `n1`, that has no GPUs."""
    if why := launcher.why_not():
        pytest.skip(why)
    made = _load().SimulatedCluster(tmp_path_factory.mktemp("rehearsal"), toolchain)
    try:
        made.start()
        made.add_node("n1")
        yield made
    finally:
        made.stop()

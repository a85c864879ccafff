"""One control plane with the kubelet stand-in and the GPU operator's chart installed, for this room's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rehearsal.charts.gpu_operator import crds, render
from rehearsal.node import launcher
from rehearsal.toolchain import Toolchain

NAMESPACE = "gpu-operator"
LAYOUTS = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  all-1g.5gb:
    - devices: all
      mig-enabled: true
      mig-devices: {1g.5gb: 7}
"""
VALUES: dict[str, Any] = {
    "driver": {"enabled": False},
    "toolkit": {"enabled": False},
    "nfd": {"enabled": False},
    "mig": {"strategy": "mixed"},
    "migManager": {
        "config": {"name": "mig-layouts", "default": "all-disabled"},
        "env": [{"name": "WITH_REBOOT", "value": "true"}],
    },
}


def _load() -> ModuleType:
    name = "slicewright_test_simulated_cluster"
    if name not in sys.modules:
        source = Path(__file__).parents[1] / "kubelet" / "simulated_cluster.py"
        spec = importlib.util.spec_from_file_location(name, source)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    """With a node without GPUs, on which the operator runs."""
    if why := launcher.why_not():
        pytest.skip(why)
    made = _load().SimulatedCluster(tmp_path_factory.mktemp("rehearsal"), toolchain)
    try:
        made.start()
        made.add_node("system")
        made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        metadata = {"name": "mig-layouts", "namespace": NAMESPACE}
        made.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": LAYOUTS}})
        for crd in crds():
            path = made.path(made.create(crd))
            made.until(path, _established)
        for item in sorted(render(VALUES, "gpu-operator", NAMESPACE), key=lambda i: i["kind"] == "ClusterPolicy"):
            made.create(item)
        yield made
    finally:
        made.stop()


def _established(crd: dict[str, Any] | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

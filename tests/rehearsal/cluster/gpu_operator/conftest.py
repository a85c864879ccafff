"""One control plane with the kubelet stand-in and the GPU operator's chart, for this package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.charts.gpu_operator import crds, render
from tests.rehearsal.cluster.kubelet.simulated_cluster import SimulatedCluster, running_cluster

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
  all-3g.40gb:
    - devices: all
      mig-enabled: true
      mig-devices: {3g.40gb: 2}
"""
VALUES: dict[str, Any] = {
    "driver": {"enabled": False},
    "toolkit": {"enabled": False},
    "mig": {"strategy": "mixed"},
    "migManager": {
        "config": {"name": "mig-layouts", "default": "all-disabled"},
        "env": [{"name": "WITH_REBOOT", "value": "true"}],
    },
}


def install_operator(cluster: SimulatedCluster, values: dict[str, Any], layouts: str) -> None:
    """The chart with these values, and mig-manager's layouts."""
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    metadata = {"name": "mig-layouts", "namespace": NAMESPACE}
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"config.yaml": layouts},
        }
    )
    for crd in crds():
        path = cluster.path(cluster.create(crd))
        cluster.until(path, _established)
    for item in sorted(
        render(values, "gpu-operator", NAMESPACE), key=lambda i: i["kind"] == "ClusterPolicy"
    ):
        cluster.create(item)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    """With a node without GPUs, on which the operator runs."""
    with running_cluster(tmp_path_factory.mktemp("rehearsal"), toolchain) as made:
        made.add_node("system")
        install_operator(made, VALUES, LAYOUTS)
        yield made


def _established(crd: dict[str, Any] | None) -> bool:
    conditions = ((crd or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

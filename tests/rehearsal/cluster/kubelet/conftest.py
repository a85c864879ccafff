"""One control plane with a kubelet stand-in, for the tests of this package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.gcp.gke import addons
from slicewright.rehearsal.cluster.kubelet.pods import large_fleets
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.kubelet.simulated_cluster import running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Any]:
    """With one node, `n1`, that has no GPUs. Programs of DaemonSets are forked, as in large fleets;
    whole runs start them by themselves.
    """
    with (
        pytest.MonkeyPatch.context() as patch,
        running_cluster(_forking(patch, tmp_path_factory), toolchain) as made,
    ):
        made.add_node("n1")
        yield made


def _forking(patch: pytest.MonkeyPatch, factory: pytest.TempPathFactory) -> Path:
    patch.setenv(large_fleets.VARIABLE, "forked")
    return factory.mktemp("rehearsal")


@pytest.fixture(scope="session")
def gke_device_plugin(cluster: Any) -> None:
    """GKE's DaemonSet of its device plugin, for all nodes that are labelled for it."""
    cluster.create(addons.device_plugin())

"""What doctor reads of a cluster, from a real API server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.doctor.ask import cluster
from slicewright.doctor.checks.cluster_requirements import wanted_definitions
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.slicewright.doctor.test_cluster_checks import ADAPTERS, SCALED, fleet

APIS = "/apis/apiregistration.k8s.io/v1/apiservices"


@pytest.fixture(scope="module")
def kubeconfig(toolchain: Toolchain) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="asked-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            yield endpoint.kubeconfig
        finally:
            control_plane.remove(environment, "c")


def test_who_serves_the_metrics_of_pods_is_read_and_what_is_not_there_is_left_out(
    kubeconfig: Path,
) -> None:
    by_adapter = fleet(
        **SCALED,
        cluster={"name": "c", "context": "c", "kubeconfig": str(kubeconfig)},
        pod_autoscaling={"by": "prometheus-adapter"},
    )
    found = cluster.ask(by_adapter)
    assert found.apis == {}
    assert list(wanted_definitions(by_adapter)) == ["certificates.cert-manager.io"]
    assert found.definitions == frozenset()
    served = {
        "group": "custom.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 5,
        "insecureSkipTLSVerify": True,
        "service": {"name": "adapter", "namespace": "monitoring"},
    }
    client = Client.from_kubeconfig(kubeconfig)
    client.create(APIS, {"metadata": {"name": ADAPTERS}, "spec": served})
    assert cluster.ask(by_adapter).apis == {ADAPTERS: "monitoring"}

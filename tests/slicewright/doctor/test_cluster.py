"""What doctor reads of a cluster, from a real API server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.doctor.ask import cluster
from slicewright.doctor.ask.gpu_owners import daemonsets, device_owners
from slicewright.doctor.checks.cluster_requirements import wanted_definitions
from slicewright.doctor.checks.gpu_owners import DeviceOwners
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.slicewright.doctor.test_cluster_checks import ADAPTERS, SCALED, fleet

APIS = "/apis/apiregistration.k8s.io/v1/apiservices"
KEPT_OFF = {"key": "slicewright.io/pool", "operator": "DoesNotExist"}


@pytest.fixture(scope="module")
def kubeconfig(toolchain: Toolchain) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="asked-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            yield endpoint.kubeconfig
        finally:
            control_plane.remove(environment, "c")


def test_the_server_of_pod_metrics_is_read_and_missing_objects_are_omitted(
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


def test_owners_of_gpus_are_read_by_their_effect(kubeconfig: Path) -> None:
    client = Client.from_kubeconfig(kubeconfig)
    assert device_owners(client) == DeviceOwners()
    by_driver = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    for name, selector in (
        ("mine", by_driver),
        ("net", {"cel": {"expression": "device.driver == 'net.x'"}}),
    ):
        client.create(
            "/apis/resource.k8s.io/v1/deviceclasses",
            {"metadata": {"name": name}, "spec": {"selectors": [selector]}},
        )
    device = {"name": "gpu-0"}
    pool = {"name": "gpu-1", "generation": 1, "resourceSliceCount": 1}
    client.create(
        "/apis/resource.k8s.io/v1/resourceslices",
        {
            "metadata": {"name": "gpu-1"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "gpu-1",
                "pool": pool,
                "devices": [device],
            },
        },
    )
    client.create(
        "/api/v1/nodes",
        {"metadata": {"name": "gpu-1", "annotations": {"hami.io/node-nvidia-register": "x"}}},
    )
    labels = {"app": "plugin"}
    container = {
        "name": "c",
        "image": "mirror.example/plugin:1",
        "args": ["--feature-gates=DynamicMIG=true"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    directory = {"name": "d", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [container],
            "volumes": [directory],
            "nodeSelector": {"gpu": "on"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [KEPT_OFF]}]
                    }
                }
            },
        },
    }
    client.create(
        "/apis/apps/v1/namespaces/default/daemonsets",
        {
            "metadata": {"name": "plugin"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
    )
    assert device_owners(client) == DeviceOwners(
        device_classes=("mine",),
        slice_nodes=("gpu-1",),
        annotated_nodes={"hami.io/node-nvidia-register": ("gpu-1",)},
    )
    (plugin,) = daemonsets(client)
    assert plugin.host_paths == ("/var/lib/kubelet/device-plugins",)
    assert plugin.words == ("--feature-gates=DynamicMIG=true", "NVIDIA_VISIBLE_DEVICES=all")
    assert plugin.required_affinity == ((KEPT_OFF,),)
    assert (plugin.node_selector, plugin.tolerations) == ({"gpu": "on"}, ({"operator": "Exists"},))

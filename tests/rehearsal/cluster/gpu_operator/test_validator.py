"""The validator stand-in: what makes a component ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.gpu_operator import cuda_workload
from slicewright.rehearsal.cluster.gpu_operator.validator import (
    NotValid,
    has_gpu_resource,
    validate,
)


def ready(component: str, host: Path, *nodes: dict[str, Any]) -> str:
    """Asks for the Node object as often as there are `nodes`, without waiting."""
    left = list(nodes)
    driver = {
        "DRIVER_INSTALL_DIR": "/home/driver",
        "DRIVER_INSTALL_DIR_CTR_PATH": str(host / "mounted"),
    }
    return validate(
        component, host=host, node=lambda: left.pop(0), sleep=lambda _: None, driver=driver
    )


def capacity(**amounts: str) -> dict[str, Any]:
    return {
        "status": {"capacity": {f"nvidia.com/{k.replace('_', '-')}": v for k, v in amounts.items()}}
    }


def test_a_driver_of_the_image_is_a_host_driver(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib64/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    assert "IS_HOST_DRIVER=true" in ready("driver", tmp_path).splitlines()


def test_a_driver_in_its_own_directory_uses_the_hosts_device_nodes(tmp_path: Path) -> None:
    library = tmp_path / "mounted/lib64/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    assert ready("driver", tmp_path).splitlines() == [
        "IS_HOST_DRIVER=false",
        "NVIDIA_DRIVER_ROOT=/home/driver",
        "DRIVER_ROOT_CTR_PATH=/driver-root",
        "NVIDIA_DEV_ROOT=/",
        "DEV_ROOT_CTR_PATH=/host",
    ]


def test_the_plugin_is_ready_once_the_node_has_a_device(tmp_path: Path) -> None:
    assert ready("plugin", tmp_path, capacity(gpu="0"), capacity(gpu="0"), capacity(gpu="8")) == ""


def test_a_plugin_that_registers_nothing_is_not_ready_after_30_tries(tmp_path: Path) -> None:
    with pytest.raises(NotValid, match="not discovered"):
        ready("plugin", tmp_path, *[capacity(gpu="0")] * 30)


def test_a_component_that_nvidias_validator_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotValid, match="none of driver"):
        ready("", tmp_path)


@pytest.mark.parametrize(
    ("node", "found"),
    [
        (capacity(), False),
        (capacity(gpu="1"), True),
        (capacity(gpu="0", mig_1g="7"), True),
        ({}, False),
    ],
)
def test_any_gpu_or_mig_resource_counts(node: dict[str, Any], found: bool) -> None:
    assert has_gpu_resource(node) is found


def test_cudas_pod_runs_by_nvidias_runtime_and_goes_with_the_cluster_policy() -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    daemonset = {
        "metadata": {
            "name": "nvidia-operator-validator",
            "uid": "d",
            "ownerReferences": [{"kind": "ClusterPolicy", "uid": "p"}],
        },
        "spec": {"template": {"spec": {"tolerations": [toleration]}}},
    }
    made = cuda_workload.pod(
        daemonset,
        {
            "VALIDATOR_IMAGE": "nvcr.io/nvidia/gpu-operator:v26.7.0",
            "VALIDATOR_IMAGE_PULL_POLICY": "IfNotPresent",
            "VALIDATOR_RUNTIME_CLASS": "nvidia",
            "OPERATOR_NAMESPACE": "gpu-operator",
            "NODE_NAME": "n1",
        },
    )
    spec = made["spec"]
    assert (spec["runtimeClassName"], spec["nodeName"]) == ("nvidia", "n1")
    assert spec["tolerations"] == [toleration]
    assert spec["initContainers"][0]["args"] == ["vectorAdd"]
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["p"]

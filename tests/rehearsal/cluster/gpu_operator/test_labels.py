"""The operator's labels."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.cluster.gpu_operator.labels import DEPLOY, mig_capable, operator_changes
from slicewright.rehearsal.cluster.gpu_operator.policy import Policy, parse

PCI = "feature.node.kubernetes.io/pci-10de.present"


def policy(**mig_manager: Any) -> Policy:
    image = {"repository": "r", "image": "i", "version": "v"}
    spec: dict[str, Any] = {
        k: dict(image) for k in ("devicePlugin", "gfd", "validator", "dcgmExporter")
    }
    spec |= {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "migManager": {**image, **mig_manager},
    }
    return parse({"metadata": {"name": "p", "uid": "u"}, "spec": spec})


def changes(labels: dict[str, str], **mig_manager: Any) -> dict[str, str | None]:
    return operator_changes({"metadata": {"labels": labels}}, labels, policy(**mig_manager))


def test_a_gpu_node_gets_present_and_every_deploy_label() -> None:
    made = changes({PCI: "true"})
    assert made["nvidia.com/gpu.deploy.client"] == "true"
    assert made == {
        "nvidia.com/gpu.present": "true",
        **dict.fromkeys(DEPLOY, "true"),
    }


@pytest.mark.parametrize("value", ["false", "paused-for-mig-change"])
def test_an_existing_deploy_label_is_kept(value: str) -> None:
    made = changes({PCI: "true", "nvidia.com/gpu.deploy.device-plugin": value})
    assert "nvidia.com/gpu.deploy.device-plugin" not in made


def test_an_empty_deploy_label_counts_as_absent() -> None:
    name = "nvidia.com/gpu.deploy.device-plugin"
    assert changes({PCI: "true", name: ""})[name] == "true"


def test_operands_false_removes_them_all() -> None:
    labels = {
        PCI: "true",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.operands": "false",
    }
    here = {
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.deploy.mig-manager": "true",
    }
    assert changes({**labels, **here}) == dict.fromkeys(here)


@pytest.mark.parametrize(
    ("labels", "capable"),
    [
        ({}, False),
        ({"nvidia.com/mig.capable": "true"}, True),
        (
            {"nvidia.com/mig.capable": "false", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},
            False,
        ),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}, True),
        ({"nvidia.com/gpu.product": "NVIDIA-H200"}, False),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, False),
        ({"nvidia.com/mig.capable": "true", "nvidia.com/vgpu.host-driver-version": "1"}, False),
    ],
)
def test_mig_capable_follows_gfds_label_else_the_product_name(
    labels: dict[str, str], capable: bool
) -> None:
    assert mig_capable(labels) is capable
    assert (
        changes({PCI: "true", **labels}).get("nvidia.com/gpu.deploy.mig-manager") == "true"
    ) is capable


@pytest.mark.parametrize(
    ("given", "config", "written"),
    [
        ({}, {}, "all-disabled"),
        ({"nvidia.com/mig.config": "mine"}, {}, None),
        ({}, {"config": {"default": ""}}, None),
        ({}, {"enabled": False}, None),
    ],
)
def test_the_default_layout_is_written_once(
    given: dict[str, str], config: dict[str, Any], written: str | None
) -> None:
    made = changes({PCI: "true", "nvidia.com/mig.capable": "true", **given}, **config)
    assert made.get("nvidia.com/mig.config") == written


def test_a_node_that_lost_its_gpus_loses_the_labels() -> None:
    made = changes({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.driver": "true"})
    assert made == {"nvidia.com/gpu.present": "false", "nvidia.com/gpu.deploy.driver": None}


def test_a_label_that_keeps_mig_manager_away_stays_before_the_gpus_are_discovered() -> None:
    label = "nvidia.com/gpu.deploy.mig-manager"
    assert label not in changes({PCI: "true", label: "false"})
    assert label not in changes({PCI: "true", "nvidia.com/mig.capable": "true", label: "false"})

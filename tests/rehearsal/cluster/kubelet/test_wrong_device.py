"""A device plugin that hands out another device than it was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import Allocation
from slicewright.rehearsal.cluster.kubelet.nodes.wrong_device import is_ordered, mistake
from slicewright.rehearsal.cluster.node import container_runtime
from slicewright.rehearsal.cluster.node.container_runtime import Container
from slicewright.rehearsal.cluster.node.machine import ANNOTATION
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon


@pytest.fixture
def halves(tmp_path: Path) -> NodeSilicon:
    """Two GPUs of two equal partitions."""
    path = tmp_path / "state"
    state.create(path, "H100-80", 2, "580.65.06", "n")
    state.repartition(path, 0, ["3g.40gb", "3g.40gb"])
    return state.repartition(path, 1, ["3g.40gb", "3g.40gb"])


@pytest.fixture
def mixed(tmp_path: Path) -> NodeSilicon:
    path = tmp_path / "state"
    state.create(path, "H100-80", 1, "580.65.06", "n")
    return state.repartition(path, 0, ["1g.10gb", "3g.40gb"])


def uuids(silicon: NodeSilicon) -> dict[str, str]:
    """By profile: the last one."""
    return {
        gi.profile: ci.uuid
        for gpu in silicon.gpus
        for gi in gpu.instances
        for ci in gi.compute_instances
    }


def allocated(uuid: str) -> Allocation:
    return Allocation(env={"NVIDIA_VISIBLE_DEVICES": uuid}, mounts=())


def test_in_place_of_a_partition_comes_one_of_another_profile(mixed: NodeSilicon) -> None:
    known = uuids(mixed)
    wrong = mistake(allocated(known["1g.10gb"]), mixed)
    assert wrong.env == {"NVIDIA_VISIBLE_DEVICES": known["3g.40gb"]}


def test_if_all_are_alike_the_whole_gpu_comes_and_its_container_has_no_partition(
    halves: NodeSilicon,
) -> None:
    gpu = halves.gpus[1]
    wrong = mistake(allocated(uuids(halves)["3g.40gb"]), halves)
    assert wrong.env == {"NVIDIA_VISIBLE_DEVICES": gpu.uuid}
    container = Container(privileged=False, nvidia_runtime=True, env=wrong.env)
    assert container_runtime.devices(container, halves, "legacy") == device_nodes.CONTROL | {
        device_nodes.gpu_node(gpu)
    }


@pytest.mark.parametrize("form", ["mount", "cdi"])
def test_every_form_of_an_answer_is_wrong(form: str, mixed: NodeSilicon) -> None:
    known = uuids(mixed)
    right, other = known["1g.10gb"], known["3g.40gb"]
    name = "k8s.device-plugin.nvidia.com/gpu="
    target = "/var/run/nvidia-container-devices/"
    if form == "cdi":
        answer = Allocation(env={}, mounts=(), cdi_devices=frozenset({f"{name}{right}"}))
        assert mistake(answer, mixed).cdi_devices == {f"{name}{other}"}
    else:
        answer = Allocation(env={}, mounts=((f"{target}{right}", "/dev/null", True),))
        assert mistake(answer, mixed).mounts == ((f"{target}{other}", "/dev/null", True),)


def test_gkes_plugin_gives_the_files_of_the_gpu_alone(halves: NodeSilicon) -> None:
    gpu = halves.gpus[0]
    gi = gpu.instances[0]
    own = device_nodes.mig_device_nodes(halves, gpu, gi, gi.compute_instances[0])
    control = {f"/dev/{name}" for name in device_nodes.CONTROL}
    of_gpu = f"/dev/{device_nodes.gpu_node(gpu)}"
    files = frozenset({of_gpu, *(f"/dev/{name}" for name in own), *control})
    answer = Allocation(env={}, mounts=(), device_files=files)
    assert mistake(answer, halves).device_files == control | {of_gpu}


def test_instead_of_a_whole_gpu_the_next_one_comes(tmp_path: Path) -> None:
    first, second = state.create(tmp_path / "state", "T4", 2, "580.65.06", "n").gpus
    silicon = state.load(tmp_path / "state")
    assert mistake(allocated(first.uuid), silicon).env == {"NVIDIA_VISIBLE_DEVICES": second.uuid}


def test_only_the_annotation_orders_it() -> None:
    def node(text: str | None) -> dict[str, object]:
        return {"metadata": {"annotations": {ANNOTATION: text} if text else None}}

    assert is_ordered(node(json.dumps({"fault": {"kind": "wrong-device"}})))
    assert not is_ordered(node(json.dumps({"fault": {"kind": "hold"}})))
    assert not is_ordered(node("{"))
    assert not is_ordered(node(None))

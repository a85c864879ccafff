"""The files of a simulated node."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slicewright.rehearsal.cluster.node import machine, root
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import UnknownModel

_ANNOTATION: dict[str, Any] = {
    "cloud": "gke",
    "gpu_model": "A100-40",
    "gpu_count": 2,
    "driver_version": "535.129.03",
    "gke_gpu_config": {"GPUPartitionSize": "3g.20gb", "GPUSharingConfig": None},
}


@pytest.fixture
def tools(tmp_path: Path) -> SimpleNamespace:
    directory = tmp_path / "tools"
    directory.mkdir()
    for name in ("libnvidia-ml.so.1", "libcuda.so.1"):
        (directory / name).write_text(name)
    return SimpleNamespace(
        fake_nvml=directory / "libnvidia-ml.so.1", fake_cuda=directory / "libcuda.so.1"
    )


def test_the_gpus_are_those_of_the_annotation(tmp_path: Path, tools: Any) -> None:
    node = root.build(tmp_path / "n", _ANNOTATION, tools)
    silicon = state.load(node.silicon)
    assert [gpu.model.key for gpu in silicon.gpus] == ["A100-40", "A100-40"]
    assert silicon.driver_version == "535.129.03"
    assert (
        json.loads((node.root / "etc/nvidia/gpu_config.json").read_text())
        == _ANNOTATION["gke_gpu_config"]
    )
    assert {p.name for p in (node.root / "sys/bus/pci/devices").iterdir()} == {
        gpu.pci for gpu in silicon.gpus
    }


def test_building_again_keeps_the_gpus(tmp_path: Path, tools: Any) -> None:
    node = root.build(tmp_path / "n", _ANNOTATION, tools)
    state.repartition(node.silicon, 0, ["3g.20gb"])
    before = state.load(node.silicon)
    assert state.load(root.build(tmp_path / "n", _ANNOTATION, tools).silicon) == before


def test_nodes_have_different_gpus(tmp_path: Path, tools: Any) -> None:
    uuids = {
        gpu.uuid
        for name in "ab"
        for gpu in state.load(root.build(tmp_path / name, _ANNOTATION, tools).silicon).gpus
    }
    assert len(uuids) == 4


def test_the_capability_minors_are_all_different(tmp_path: Path, tools: Any) -> None:
    node = root.build(tmp_path / "n", _ANNOTATION, tools)
    lines = (node.root / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
    minors = [int(line.split()[-1]) for line in lines]
    assert minors == list(range(1, 2 + 2 * 15 * 9 + 1))
    assert lines[:3] == ["config 1", "monitor 2", "gpu0/gi0/access 3"]


@pytest.mark.parametrize(
    ("cloud", "place"), [("gke", "home/kubernetes/bin/nvidia/lib64"), ("eks", "usr/lib64")]
)
def test_the_library_is_at_the_clouds_path_and_only_there(
    tmp_path: Path, tools: Any, cloud: str, place: str
) -> None:
    """NVIDIA's validator takes a library in /usr for a driver of the image."""
    node = root.build(tmp_path / "n", {**_ANNOTATION, "cloud": cloud}, tools)
    assert list(node.root.rglob("libnvidia-ml.so.1")) == [node.root / place / "libnvidia-ml.so.1"]


@pytest.mark.parametrize(
    ("cloud", "place"), [("gke", "home/kubernetes/bin/nvidia/lib64"), ("eks", "usr/lib64")]
)
def test_libcuda_lies_beside_it_by_its_version_and_by_its_name(
    tmp_path: Path, tools: Any, cloud: str, place: str
) -> None:
    node = root.build(tmp_path / "n", {**_ANNOTATION, "cloud": cloud}, tools)
    assert sorted(node.root.rglob("libcuda*")) == [
        node.root / place / "libcuda.so.1",
        node.root / place / "libcuda.so.535.129.03",
    ]
    assert (node.root / place / "libcuda.so.1").read_text() == "libcuda.so.1"
    # A container mounts the directory somewhere else.
    assert not (node.root / place / "libcuda.so.1").readlink().is_absolute()


def test_another_driver_replaces_libcuda(tmp_path: Path, tools: Any) -> None:
    node = root.build(tmp_path / "n", {**_ANNOTATION, "cloud": "byo"}, tools)
    root.load_driver(node, tools, "580.65.06")
    library = node.root / "run/nvidia/driver/usr/lib64/libcuda.so.1"
    assert library.readlink() == Path("libcuda.so.580.65.06")
    root.load_driver(node, tools, "590.44.01")
    assert library.readlink() == Path("libcuda.so.590.44.01")
    root.unload_driver(node)
    assert not library.exists()


def test_a_driver_that_comes_later_is_seen_by_who_mounted_the_directories_before(
    tmp_path: Path, tools: Any
) -> None:
    late = {**_ANNOTATION, "driver_after_s": 60}
    node = root.build(tmp_path / "n", late, tools)
    # Directories that containers have mounted, and a file.
    for directory in ("proc/driver", "sys/bus/pci/devices"):
        assert (node.root / directory).is_dir()
    modules = (node.root / "proc/modules").open()
    assert not node.driver_loaded
    assert not list(node.root.rglob("libnvidia-ml*"))
    assert [gpu.model.key for gpu in state.load(node.silicon).gpus] == ["A100-40", "A100-40"]
    root.install_driver(node, tools, cloud="gke")
    assert node.driver_loaded
    assert "nvidia " in modules.read()
    assert list(node.root.rglob("home/**/libnvidia-ml.so.1"))


def test_building_again_keeps_a_driver_that_came_later(tmp_path: Path, tools: Any) -> None:
    late = {**_ANNOTATION, "driver_after_s": 60}
    root.install_driver(root.build(tmp_path / "n", late, tools), tools, cloud="gke")
    node = root.build(tmp_path / "n", late, tools)
    assert node.driver_loaded
    assert "nvidia " in (node.root / "proc/modules").read_text()


def test_a_node_whose_driver_comes_from_a_pod_has_none_before_and_after_a_reboot(
    tmp_path: Path, tools: Any
) -> None:
    machine = {**_ANNOTATION, "cloud": "gke", "driver_by_installer": True}
    node = root.build(tmp_path / "n", machine, tools)
    assert not node.driver_loaded
    root.install_driver(node, tools, cloud="gke")
    assert root.build(tmp_path / "n", machine, tools).driver_loaded
    root.reboot(node, forgets_driver=True)
    assert not node.driver_loaded
    assert "nvidia " not in (node.root / "proc/modules").read_text()
    assert list(node.root.rglob("libnvidia-ml.so.1")), "/home survives"


def test_without_a_driver_version_none_is_installed(tmp_path: Path, tools: Any) -> None:
    node = root.build(tmp_path / "n", {**_ANNOTATION, "driver_version": None}, tools)
    assert len(state.load(node.silicon).gpus) == 2
    assert not node.driver_loaded


@pytest.mark.parametrize(
    ("machine", "runtimes"),
    [
        ({"cloud": "eks"}, {"nvidia"}),
        ({"cloud": "eks", "driver_version": None}, set()),
        ({"cloud": "gke"}, set()),
    ],
)
def test_containerd_knows_nvidias_runtime_where_the_image_has_the_toolkit(
    tmp_path: Path, tools: Any, machine: dict[str, Any], runtimes: set[str]
) -> None:
    node = root.build(tmp_path / "n", {**_ANNOTATION, **machine}, tools)
    assert node.runtimes == runtimes
    root.configure_containerd(node, for_nvidia=not runtimes)
    assert node.runtimes == {"nvidia"} - runtimes


def test_a_node_without_gpus_has_no_state_file(tmp_path: Path) -> None:
    node = root.build_without_gpus(tmp_path / "n")
    assert not node.silicon.exists()
    assert "nvidia" not in (node.root / "proc/modules").read_text()
    assert (node.root / "proc/modules").read_text()


def test_an_unknown_model_is_named_with_the_known_ones(tmp_path: Path, tools: Any) -> None:
    with pytest.raises(UnknownModel, match=r"no GPU model 'H100'; it has .*H100-80"):
        root.build(tmp_path / "n", {**_ANNOTATION, "gpu_model": "H100"}, tools)


@pytest.mark.parametrize(
    "annotation", ["{", "[]", '{"gpu_count": 8}', '{"cloud": "gke", "gpu_count": "many"}']
)
def test_an_invalid_annotation_is_quoted(annotation: str) -> None:
    with pytest.raises(machine.BadMachine, match=r"rehearsal\.slicewright\.io/machine is invalid"):
        machine.read(annotation)


def test_pods_that_mount_os_release_find_a_file_on_every_node(tmp_path: Path, tools: Any) -> None:
    """A missing host path without a type becomes a directory, also on a real node."""
    with_gpus = root.build(tmp_path / "gpu", _ANNOTATION, tools).root
    without = root.build_without_gpus(tmp_path / "system").root
    for node in (with_gpus, without):
        assert (node / "etc/os-release").is_file()
        assert (node / "var/run").resolve() == (node / "run").resolve()

"""The container toolkit stand-in: what it writes, as the kubelet stand-in reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.gpu_operator import toolkit
from slicewright.rehearsal.cluster.node import containerd

CDI = {
    "NVIDIA_CONTAINER_RUNTIME_MODE": "cdi",
    "NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND": "management.nvidia.com/gpu",
}


def configured(root: Path, **environment: str) -> containerd.Containerd:
    """As if the toolkit's container had the node's own paths."""
    given = {
        "ROOT": str(root / "home/nvidia"),
        "RUNTIME_DROP_IN_CONFIG": str(root / containerd.DROP_IN),
        **environment,
    }
    written = toolkit.install(given)
    text = written.read_text().replace(str(root), "")
    written.write_text(text)
    return containerd.read(root)


def test_containerd_gets_three_runtimes(tmp_path: Path) -> None:
    assert containerd.read(tmp_path).runtimes == frozenset()
    found = configured(tmp_path, RUNTIME_CONFIG_SOURCE="file")
    assert found.runtimes == {"nvidia", "nvidia-cdi", "nvidia-legacy"}


@pytest.mark.parametrize(
    ("environment", "management"), [(CDI, True), ({}, False)], ids=["cdi", "legacy"]
)
def test_with_cdi_all_gpus_means_every_device_node(
    tmp_path: Path, environment: dict[str, str], management: bool
) -> None:
    assert configured(tmp_path, **environment).management is management


def test_unless_it_reads_the_file_it_replaces_the_clouds_network_plugin(tmp_path: Path) -> None:
    assert configured(tmp_path).network_plugins == "/opt/cni/bin"
    assert configured(tmp_path, RUNTIME_CONFIG_SOURCE="file").network_plugins is None


@pytest.mark.parametrize(("said", "default"), [({}, True), ({"SET": "false"}, False)])
def test_its_runtime_is_the_default_unless_the_operator_says_no(
    tmp_path: Path, said: dict[str, str], default: bool
) -> None:
    """With CDI it says no. Source: NVIDIA/nvidia-container-toolkit, --set-as-default."""
    given = {f"NVIDIA_RUNTIME_{key}_AS_DEFAULT": value for key, value in said.items()}
    assert configured(tmp_path, **given).nvidia_by_default is default


@pytest.mark.parametrize(
    ("environment", "variable", "mounts"),
    [
        ({}, True, False),
        ({"ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED": "false"}, False, False),
        ({"ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS": "true"}, True, True),
    ],
    ids=["default", "no variable", "mounts"],
)
def test_the_installers_variables_say_how_a_container_may_name_devices(
    tmp_path: Path, environment: dict[str, str], variable: bool, mounts: bool
) -> None:
    """Source: NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer/toolkit."""
    found = configured(tmp_path, **environment)
    assert (found.variable_counts, found.mounts_count) == (variable, mounts)


def test_a_node_without_the_operators_toolkit_takes_the_variable_only(tmp_path: Path) -> None:
    found = containerd.read(tmp_path)
    assert (found.variable_counts, found.mounts_count) == (True, False)

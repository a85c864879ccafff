"""Which device nodes a container has, by its runtime and by what it asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.node.container_runtime import (
    Container,
    Libraries,
    Mode,
    Refused,
    devices,
    libraries,
    mode_of,
)
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon

MODES: tuple[Mode, ...] = ("legacy", "cdi")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three GPUs: one with two MIG devices, one in MIG mode without any, one whole."""
    found = tmp_path / "state"
    state.create(found, "H100-80", 3, "580.65.06", "n1")
    state.repartition(found, 0, ["3g.40gb", "3g.40gb"])
    state.set_mig_mode(found, 1, enabled=True)
    return found


@pytest.fixture
def silicon(path: Path) -> NodeSilicon:
    return state.load(path)


def _asks(visible: str | None, *, privileged: bool = False, **more: str) -> Container:
    env = {"NVIDIA_VISIBLE_DEVICES": visible} if visible is not None else {}
    return Container(privileged=privileged, nvidia_runtime=True, env={**env, **more})


def _gpus(nodes: frozenset[str] | None) -> list[str]:
    assert nodes is not None
    return sorted(n for n in nodes if n.removeprefix("nvidia").isdigit())


def _capabilities(nodes: frozenset[str] | None) -> int:
    assert nodes is not None
    return sum(n.startswith("nvidia-caps/") for n in nodes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("visible", [None, "", "void", "none"])
def test_who_asks_for_nothing_gets_nothing(
    silicon: NodeSilicon, mode: Mode, visible: str | None
) -> None:
    assert devices(_asks(visible), silicon, mode) == frozenset()


@pytest.mark.parametrize("mode", MODES)
def test_legacy_image_gets_all_gpus_unless_the_variable_is_void(
    silicon: NodeSilicon, mode: Mode
) -> None:
    before = {"CUDA_VERSION": "9.0"}
    everything = devices(_asks("all"), silicon, mode)
    assert devices(_asks(None, **before), silicon, mode) == everything
    assert devices(_asks("void", **before), silicon, mode) == frozenset()
    later = {**before, "NVIDIA_REQUIRE_CUDA": "cuda>=9.0"}
    assert devices(_asks(None, **later), silicon, mode) == frozenset()


NOTHING = Libraries(nvml=False, cuda=False)
NVML = Libraries(nvml=True, cuda=False)
CUDA = Libraries(nvml=False, cuda=True)
BOTH = Libraries(nvml=True, cuda=True)


@pytest.mark.parametrize(
    ("capabilities", "given"),
    [
        ("utility", NVML),
        ("compute", CUDA),
        ("compute,utility", BOTH),
        ("utility,graphics", NVML),
        ("video", NOTHING),
        ("all", BOTH),
        ("", BOTH),
        (None, BOTH),
    ],
)
def test_the_legacy_hook_gives_libraries_by_capabilities(
    silicon: NodeSilicon, capabilities: str | None, given: Libraries
) -> None:
    more = {} if capabilities is None else {"NVIDIA_DRIVER_CAPABILITIES": capabilities}
    container = _asks("all", **more)
    assert libraries(container, "legacy") == given
    nodes = devices(container, silicon, "legacy")
    assert nodes is not None
    # Only CUDA opens the memory manager.
    assert (nodes >= device_nodes.UVM) == given.cuda
    assert "nvidiactl" in nodes


def test_by_cdi_a_container_gets_every_library_and_node(silicon: NodeSilicon) -> None:
    container = _asks("all", NVIDIA_DRIVER_CAPABILITIES="utility")
    for mode in ("cdi", "management"):
        assert libraries(container, mode) == BOTH
        nodes = devices(container, silicon, mode)
        assert nodes is not None
        assert nodes >= device_nodes.UVM


@pytest.mark.parametrize("mode", MODES)
def test_who_asks_for_no_gpu_gets_no_library(mode: Mode) -> None:
    assert libraries(_asks("void", NVIDIA_DRIVER_CAPABILITIES="all"), mode) == NOTHING


@pytest.mark.parametrize("mode", MODES)
def test_a_container_of_another_runtime_gets_nothing(silicon: NodeSilicon, mode: Mode) -> None:
    env = {"NVIDIA_VISIBLE_DEVICES": "all"}
    other = Container(privileged=False, nvidia_runtime=False, env=env)
    assert devices(other, silicon, mode) == frozenset()


def test_legacy_all_is_every_gpu_and_every_mig_device(silicon: NodeSilicon) -> None:
    found = devices(_asks("all"), silicon, "legacy")
    assert _gpus(found) == ["nvidia0", "nvidia1", "nvidia2"]
    assert _capabilities(found) == 4


def test_cdi_all_leaves_out_a_gpu_in_mig_mode_without_instances(silicon: NodeSilicon) -> None:
    found = devices(_asks("all"), silicon, "cdi")
    assert _gpus(found) == ["nvidia0", "nvidia2"]
    assert _capabilities(found) == 4


@pytest.mark.parametrize("mode", MODES)
def test_device_files_that_a_plugin_allocates_need_no_runtime(
    silicon: NodeSilicon, mode: Mode
) -> None:
    """GKE's plugin names them; one that the node does not have is not made."""
    (capability, *_) = sorted(n for n in device_nodes.existing(silicon) if "nvidia-cap" in n)
    files = frozenset({"/dev/nvidia0", f"/dev/{capability}", "/dev/nvidia99"})
    gke = Container(privileged=False, nvidia_runtime=False, env={}, device_files=files)
    assert devices(gke, silicon, mode) == {"nvidia0", capability}


@pytest.mark.parametrize("mode", MODES)
def test_one_mig_device_is_its_gpu_and_two_capabilities(silicon: NodeSilicon, mode: Mode) -> None:
    uuid = silicon.gpus[0].instances[1].compute_instances[0].uuid
    for asked in (uuid, "0:1"):
        found = devices(_asks(asked), silicon, mode)
        assert (_gpus(found), _capabilities(found)) == (["nvidia0"], 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_privileged_container_has_what_the_node_had(
    path: Path, silicon: NodeSilicon, mode: Mode
) -> None:
    found = devices(_asks("void", privileged=True), silicon, mode)
    assert found == device_nodes.existing(silicon)
    later = state.repartition(path, 2, ["7g.80gb"])
    assert found < device_nodes.existing(later)


@pytest.mark.parametrize("mode", MODES)
def test_only_the_hosts_own_dev_follows_the_host_and_only_with_privileges(
    silicon: NodeSilicon, mode: Mode
) -> None:
    mounted = {"nvidia_runtime": False, "env": {}, "host_dev": True}
    assert devices(Container(privileged=True, **mounted), silicon, mode) is None  # type: ignore[arg-type]
    assert devices(Container(privileged=False, **mounted), silicon, mode) == frozenset()  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["MONITOR", "CONFIG"])
def test_the_legacy_hook_refuses_mig_capabilities_without_privileges(
    silicon: NodeSilicon, what: str
) -> None:
    asked = {f"NVIDIA_MIG_{what}_DEVICES": "all"}
    with pytest.raises(Refused, match=f"cannot set MIG_{what}_DEVICES in non privileged"):
        devices(_asks("all", **asked), silicon, "legacy")
    devices(_asks("all", privileged=True, **asked), silicon, "legacy")
    devices(_asks("all", **asked), silicon, "cdi")  # CDI does not read it


def test_the_mode_is_legacy_unless_asked_otherwise() -> None:
    assert mode_of({}) == "legacy"
    assert mode_of({"SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME": "cdi"}) == "cdi"
    with pytest.raises(ValueError, match="must be legacy or cdi"):
        mode_of({"SLICEWRIGHT_REHEARSAL_CONTAINER_RUNTIME": "docker"})


@pytest.mark.parametrize("mode", MODES)
def test_a_device_that_was_allocated_by_cdi_needs_no_runtime_class(
    silicon: NodeSilicon, mode: Mode
) -> None:
    device = silicon.gpus[0].instances[0].compute_instances[0].uuid
    kind = "k8s.device-plugin.nvidia.com/gpu="
    asks = Container(
        privileged=False,
        nvidia_runtime=False,
        env={"NVIDIA_VISIBLE_DEVICES": "all"},
        cdi_devices=frozenset({kind + device}),
    )
    assert asks.gets_driver
    nodes = devices(asks, silicon, mode)
    assert _gpus(nodes) == ["nvidia0"]
    assert _capabilities(nodes) == 2
    whole = replace(asks, cdi_devices=frozenset({kind + silicon.gpus[2].uuid}))
    assert _gpus(devices(whole, silicon, mode)) == ["nvidia2"]


@pytest.mark.parametrize(
    ("mode", "why"), [("legacy", "nvml error: driver not loaded"), ("cdi", "Driver Not Loaded")]
)
def test_nvidias_runtime_refuses_gpu_containers_without_a_driver(mode: Mode, why: str) -> None:
    for privileged in (False, True):
        with pytest.raises(Refused, match=why):
            devices(_asks("all", privileged=privileged), None, mode)
        assert devices(_asks(None, privileged=privileged), None, mode) == frozenset()


@pytest.mark.parametrize("mode", MODES)
def test_container_without_a_driver_has_only_mounted_device_nodes(
    mode: Mode,
) -> None:
    gke = Container(privileged=True, nvidia_runtime=False, env={})
    assert devices(gke, None, mode) == frozenset()
    assert devices(replace(gke, host_dev=True), None, mode) is None


def test_the_mode_is_nothing_to_a_container_that_nvidias_runtime_does_not_run(
    silicon: NodeSilicon,
) -> None:
    """As GKE's plugin and the agent on GKE: privileged, and without NVIDIA_VISIBLE_DEVICES."""
    gke = Container(privileged=True, nvidia_runtime=True, env={})
    assert devices(gke, silicon, "legacy") == devices(gke, silicon, "cdi")
    assert devices(gke, silicon, "cdi") == device_nodes.existing(silicon)


def _names(by_mount: str, *, variable: bool = False, privileged: bool = False) -> Container:
    """A container with the variable, whose mounts name `by_mount`."""
    asks = _asks("all", privileged=privileged)
    names = frozenset(by_mount.split())
    return replace(asks, by_mount=names, variable_counts=variable)


@pytest.mark.parametrize("mode", ["legacy", "cdi", "management"])
def test_a_runtime_that_ignores_the_variable_obeys_that_of_a_privileged_container(
    silicon: NodeSilicon, mode: Mode
) -> None:
    assert devices(_names(""), silicon, mode) == frozenset()
    old_image = replace(_names(""), env={"CUDA_VERSION": "9.0"})
    assert devices(old_image, silicon, mode) == frozenset()
    operand = _names("", privileged=True)
    assert operand.gets_driver
    assert devices(operand, silicon, mode) == device_nodes.existing(silicon)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variable", [False, True])
def test_a_mount_counts_more_than_the_variable(
    silicon: NodeSilicon, mode: Mode, variable: bool
) -> None:
    uuid = silicon.gpus[0].instances[1].compute_instances[0].uuid
    found = devices(_names(uuid, variable=variable), silicon, mode)
    assert (_gpus(found), _capabilities(found)) == (["nvidia0"], 2)
    everything = devices(_asks("all"), silicon, mode)
    assert devices(_names("all", variable=variable), silicon, mode) == everything


def test_the_specification_of_all_device_nodes_has_no_device_but_all(silicon: NodeSilicon) -> None:
    """So a device plugin that allocates by mounts does not go with the operator's CDI."""
    uuid = silicon.gpus[0].instances[1].compute_instances[0].uuid
    with pytest.raises(Refused, match=f"unresolvable CDI devices management.nvidia.com/gpu={uuid}"):
        devices(_names(uuid), silicon, "management")
    assert devices(_names("all"), silicon, "management") == device_nodes.existing(silicon)

"""The fake driver shows a process what its device nodes allow, as NVIDIA's does in a container."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import device_nodes, state
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon, Process

_root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs CAP_SYS_ADMIN to begin with")
Container = Callable[[Iterable[str]], Path]


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    """`container(nodes)`: this process sees those device nodes and no others."""

    def make(nodes: Iterable[str]) -> Path:
        dev = tmp_path / "dev"
        (dev / "nvidia-caps").mkdir(parents=True, exist_ok=True)
        dev.chmod(0o755)
        for name in nodes:
            (dev / name).touch()
        monkeypatch.setenv(device_nodes.VARIABLE, str(dev))
        return dev

    return make


@contextlib.contextmanager
def _without_sys_admin() -> Iterator[None]:
    """This thread as root in an ordinary container. The capability stays permitted, so that it can
    be taken back.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    fewer = (ctypes.c_uint32 * 6)(*sets)
    fewer[0] &= ~(1 << 21)
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, sets) == 0


def _mig_devices(n: Any, gpu: int = 0) -> int:
    handle = n.nvmlDeviceGetHandleByIndex(gpu)
    found = 0
    for index in range(n.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            n.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except n.NVMLError_NotFound:
            continue
        found += 1
    return found


def _halves(make_state: Any) -> tuple[Path, NodeSilicon]:
    path = make_state("H100-80", 2)
    return path, state.repartition(path, 0, ["3g.40gb", "3g.40gb"])


def test_without_the_control_node_there_is_no_driver(
    nvml: Any, make_state: Any, container: Container
) -> None:
    container(())
    with pytest.raises(nvml.module.NVMLError_DriverNotLoaded):
        nvml.on(make_state())


def test_gpus_without_a_node_are_not_counted_and_indices_have_no_holes(
    nvml: Any, make_state: Any, container: Container
) -> None:
    path = make_state("H100-80", 4)
    container({*device_nodes.CONTROL, "nvidia1", "nvidia3"})
    n = nvml.on(path)
    assert n.nvmlDeviceGetCount() == 2
    handles = [n.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    assert [n.nvmlDeviceGetMinorNumber(h) for h in handles] == [1, 3]
    assert [n.nvmlDeviceGetIndex(h) for h in handles] == [0, 1]
    hidden = state.load(path).gpus[0]
    with pytest.raises(n.NVMLError_NotFound):
        n.nvmlDeviceGetHandleByUUID(hidden.uuid)
    with pytest.raises(n.NVMLError_NotFound):
        n.nvmlDeviceGetHandleByPciBusId(hidden.pci)


def test_a_container_with_a_share_sees_its_part_of_the_memory(
    nvml: Any, make_state: Any, container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3-03: as HAMi-core answers, by the variables of the device plugin."""
    path = make_state("T4", 3)
    state.run_process(path, Process(gpu=1, pid=1, memory_mib=4096))
    container({*device_nodes.CONTROL, "nvidia1", "nvidia2"})
    monkeypatch.setenv("CUDA_DEVICE_MEMORY_LIMIT_0", "6144m")
    n = nvml.on(path)
    shared, whole = (n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(i)) for i in range(2))
    assert (shared.total, shared.used, shared.free) == (6144 << 20, 0, 6144 << 20)
    assert whole.total > 15000 << 20
    monkeypatch.setenv("CUDA_DEVICE_MEMORY_LIMIT", "2g")
    shared, other = (n.nvmlDeviceGetMemoryInfo(n.nvmlDeviceGetHandleByIndex(i)) for i in range(2))
    assert (shared.total, other.total) == (6144 << 20, 2 << 30)


def test_a_container_made_before_the_cut_sees_mig_mode_and_no_device(
    nvml: Any, make_state: Any, container: Container
) -> None:
    """What an agent sees that started before mig-manager (NVIDIA/nvidia-docker #1473)."""
    path = make_state("H100-80", 2)
    container(device_nodes.existing(state.load(path)))
    n = nvml.on(path)
    state.repartition(path, 0, ["3g.40gb", "3g.40gb"])
    assert n.nvmlDeviceGetMigMode(n.nvmlDeviceGetHandleByIndex(0)) == [1, 1]
    assert _mig_devices(n) == 0


def test_a_container_made_after_the_cut_sees_every_device(
    nvml: Any, make_state: Any, container: Container
) -> None:
    path, silicon = _halves(make_state)
    container(device_nodes.existing(silicon))
    n = nvml.on(path)
    assert _mig_devices(n) == 2
    (gi, _) = silicon.gpus[0].instances
    assert n.nvmlDeviceGetHandleByUUID(gi.compute_instances[0].uuid)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_mig_device_needs_both_its_capabilities(
    nvml: Any, make_state: Any, container: Container, missing: int
) -> None:
    path, silicon = _halves(make_state)
    gpu = silicon.gpus[0]
    gi = gpu.instances[0]
    needed = device_nodes.mig_device_nodes(silicon, gpu, gi, gi.compute_instances[0])
    container(device_nodes.existing(silicon) - {sorted(needed)[missing]})
    n = nvml.on(path)
    assert _mig_devices(n) == 1
    with pytest.raises(n.NVMLError_NotFound):
        n.nvmlDeviceGetHandleByUUID(gi.compute_instances[0].uuid)


def test_the_library_and_the_table_of_minors_agree(
    nvml: Any, make_state: Any, container: Container
) -> None:
    """On the second GPU, with compute instances smaller than their GPU instance."""
    path = make_state("A100-80", 2)
    silicon = state.repartition(path, 1, ["1c.3g.40gb", "1c.3g.40gb", "1g.10gb", "1g.10gb"])
    for gi in silicon.gpus[1].instances:
        for ci in gi.compute_instances:
            own = device_nodes.mig_device_nodes(silicon, silicon.gpus[1], gi, ci)
            dev = container({*device_nodes.CONTROL, "nvidia0", "nvidia1", *own})
            n = nvml.on(path)
            assert n.nvmlDeviceGetHandleByUUID(ci.uuid)
            assert _mig_devices(n, 1) == 1
            for name in own:
                (dev / name).unlink()


@_root_only
def test_enumerating_gpu_instances_takes_monitor_config_or_sys_admin(
    nvml: Any, make_state: Any, container: Container
) -> None:
    path, silicon = _halves(make_state)
    both = {device_nodes.monitor_node(silicon), device_nodes.config_node(silicon)}
    dev = container(device_nodes.existing(silicon) - both)
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    profile = n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, n.NVML_GPU_INSTANCE_PROFILE_3_SLICE).id

    def instances() -> int:
        room = (n.c_nvmlGpuInstance_t * 8)()
        count = n.c_uint(0)
        answer = n._nvmlGetFunctionPointer("nvmlDeviceGetGpuInstances")(
            gpu, profile, room, n.byref(count)
        )
        n._nvmlCheckReturn(answer)
        return int(count.value)

    assert instances() == 2, "this process has CAP_SYS_ADMIN"
    with _without_sys_admin():
        with pytest.raises(n.NVMLError_NoPermission):
            instances()
        with pytest.raises(n.NVMLError_NoPermission):
            n.nvmlDeviceGetMemoryInfo(gpu)
        for name in sorted(both):
            (dev / name).touch()
            assert instances() == 2
            assert n.nvmlDeviceGetMemoryInfo(gpu).total
            (dev / name).unlink()


@_root_only
def test_privileged_pod_sees_new_partitions_in_its_dev(
    nvml: Any, make_state: Any, container: Container
) -> None:
    path = make_state("H100-80", 1)
    dev = container(device_nodes.existing(state.load(path)))
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    n.nvmlDeviceSetMigMode(gpu, 1)
    instance = n.nvmlDeviceCreateGpuInstance(gpu, 9)
    n.nvmlGpuInstanceCreateComputeInstance(instance, 2)
    assert _mig_devices(n) == 1
    made = {str(p.relative_to(dev)) for p in dev.rglob("nvidia*") if p.is_file()}
    assert made == device_nodes.existing(state.load(path))

"""The stand-in for GKE's partitioner and device plugin: partitions become `nvidia.com/gpu`."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.node import launcher, root
from slicewright.rehearsal.cluster.node.launcher import Bind, LaunchSpec
from slicewright.rehearsal.cluster.node.machine import Machine
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.rehearsal.cluster.node.stub_kubelet import StubKubelet

_GPU = "nvidia.com/gpu"


class GkeNode:
    """One GKE node; `start` runs the plugin on it as GKE's DaemonSet does, with the driver's
    directory mounted.
    """

    def __init__(self, directory: Path, toolchain: Toolchain, machine: Machine) -> None:
        self.files = root.build(directory, machine, toolchain)
        self._toolchain = toolchain
        self._log = directory / "log"
        self.processes: list[Any] = []

    def start(self, **env: str) -> Any:
        return self.run(str(self._toolchain.gke_device_plugin), **env)

    def run(self, *argv: str, **env: str) -> Any:
        """Another program with the driver's directory."""
        self.processes.append(
            launcher.start(
                LaunchSpec(
                    argv=argv,
                    env={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", **env},
                    node_root=self.files.root,
                    log=self._log,
                    binds=(
                        Bind(
                            source=self.files.root / "home/kubernetes/bin/nvidia",
                            target=Path("/usr/local/nvidia"),
                        ),
                    ),
                )
            )
        )
        return self.processes[-1]

    def fails(self, **env: str) -> str:
        """Its log, after it has ended with 1."""
        assert self.start(**env).wait(timeout=180) == 1, self.log
        return self.log

    def says(self, text: str) -> None:
        """Waits for it in the log."""
        deadline = time.monotonic() + 60
        while text not in self._log.read_text():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def requests_to_init(self) -> int:
        """The end of the pipe from which the node's init reads; to be closed."""
        pipe = self.files.root / reboots.PIPE
        os.mkfifo(pipe)
        return os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def profiles(self) -> list[dict[str, int]]:
        return [dict(Counter(gpu.profiles)) for gpu in state.load(self.files.silicon).gpus]


MakeNode = Callable[..., GkeNode]


@pytest.fixture
def make_node(tmp_path: Path, toolchain: Toolchain) -> Iterator[MakeNode]:
    if reason := launcher.why_not():
        pytest.skip(reason)
    made: list[GkeNode] = []

    def make(
        size: str | None,
        model: str = "H100-80",
        count: int = 8,
        sharing: dict[str, Any] | None = None,
    ) -> GkeNode:
        config = {"GPUPartitionSize": size or "", "GPUSharingConfig": sharing}
        machine = Machine(
            cloud="gke",
            gpu_model=model,
            gpu_count=count,
            driver_version="550.90.07",
            gke_gpu_config=config,
        )
        made.append(GkeNode(tmp_path / f"node{len(made)}", toolchain, machine))
        return made[-1]

    yield make
    for node in made:
        for process in node.processes:
            launcher.stop(process, grace_s=5)


@pytest.mark.parametrize(
    ("size", "model", "per_gpu"),
    [
        ("3g.40gb", "H100-80", 2),
        ("1g.10gb", "H100-80", 7),
        ("1g.20gb", "H100-80", 4),
        ("7g.80gb", "H100-80", 1),
        ("1g.35gb", "H200", 4),
        ("4g.90gb", "B200", 1),
        ("1g.24gb-me", "RTX-PRO-6000", 4),
    ],
)
def test_every_gpu_is_filled_with_one_size(
    make_node: MakeNode, size: str, model: str, per_gpu: int
) -> None:
    node = make_node(size, model)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        offered = kubelet.devices(_GPU, 8 * per_gpu, healthy=8 * per_gpu)
    assert node.profiles == [{size: per_gpu}] * 8
    instances = {
        f"nvidia{gpu.index}/gi{gi.id}"
        for gpu in state.load(node.files.silicon).gpus
        for gi in gpu.instances
    }
    assert set(offered) == instances


def test_a_partition_is_its_gpus_file_and_those_of_two_capabilities(make_node: MakeNode) -> None:
    """Without them a container sees a GPU in MIG mode and no partition of it."""
    node = make_node("3g.40gb", count=2)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        offered = sorted(kubelet.devices(_GPU, 4, healthy=4))
        answers = {id_: kubelet.allocate(_GPU, id_) for id_ in offered}
    silicon = state.load(node.files.silicon)
    for gpu in silicon.gpus:
        for gi in gpu.instances:
            answer = answers[f"nvidia{gpu.index}/gi{gi.id}"]
            (ci,) = gi.compute_instances
            own = device_nodes.mig_device_nodes(silicon, gpu, gi, ci)
            wanted = {device_nodes.gpu_node(gpu), *own, *device_nodes.CONTROL}
            assert {d.host_path for d in answer.devices} == {f"/dev/{name}" for name in wanted}
            assert [(m.container_path, m.host_path) for m in answer.mounts] == [
                ("/usr/local/nvidia", "/home/kubernetes/bin/nvidia")
            ]


def test_whole_gpus_are_offered_without_a_partition_size(make_node: MakeNode) -> None:
    node = make_node(None, "T4", 4)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        assert sorted(kubelet.devices(_GPU, 4)) == ["nvidia0", "nvidia1", "nvidia2", "nvidia3"]


@pytest.mark.parametrize(("size", "model"), [("3g.20gb", "A100-40"), ("3g.40gb", "A100-80")])
def test_an_a100_reboots_its_node_once_and_is_partitioned_after_that(
    make_node: MakeNode, size: str, model: str
) -> None:
    node = make_node(size, model, 2)
    requests = node.requests_to_init()
    assert "rebooting the node to enable MIG mode" in node.fails()
    assert os.read(requests, 100) == b"reboot\n"
    assert state.reboot_pending(node.files.silicon)
    state.reboot(node.files.silicon)
    assert not state.reboot_pending(node.files.silicon)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 4)
    assert node.profiles == [{size: 2}] * 2
    with pytest.raises(BlockingIOError):
        os.read(requests, 100)
    os.close(requests)


def test_a_request_to_reboot_that_nobody_hears_is_logged(make_node: MakeNode) -> None:
    assert "failed to trigger node reboot" in make_node("3g.20gb", "A100-40", 1).fails()


def test_an_a100_in_use_is_not_switched_by_the_reboot_that_its_neighbours_get(
    make_node: MakeNode,
) -> None:
    """The partitioner passes over it, and after the reboot looks at GPU 0 only."""
    node = make_node("3g.20gb", "A100-40", 2)
    node.fails()
    state.reboot(node.files.silicon)
    state.set_mig_mode(node.files.silicon, 1, enabled=False)
    assert "failed to clean up the GPU partitions of GPU 1" in node.fails()


def test_a_hopper_gpu_switches_without_a_reboot(make_node: MakeNode) -> None:
    node = make_node("3g.40gb", "H100-80", 1)
    requests = node.requests_to_init()
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 2)
    with pytest.raises(BlockingIOError):
        os.read(requests, 100)
    os.close(requests)


@pytest.mark.parametrize("model", ["A30", "B300", "H100-NVL"])
def test_a_gpu_that_the_partitioner_does_not_know_is_left_unpartitioned(
    make_node: MakeNode, model: str
) -> None:
    node = make_node("7g.80gb", model, 1)
    assert "is not a GPU type that the partitioner knows MIG of" in node.fails()
    assert node.profiles == [{}]


@pytest.mark.parametrize(
    ("size", "model"),
    [("3g.41gb", "H100-80"), ("4g.40gb", "H100-80"), ("4g.20gb", "A100-40")],
)
def test_sizes_that_gke_refuses(make_node: MakeNode, size: str, model: str) -> None:
    node = make_node(size, model, 1)
    if model == "A100-40":
        state.set_mig_mode(node.files.silicon, 0, enabled=True)
    assert f"{size} is not a valid GPU partition size" in node.fails()


def test_a_size_of_another_model_is_applied_as_its_profile_id_says(make_node: MakeNode) -> None:
    node = make_node("1g.10gb", "A100-40", 1)
    state.set_mig_mode(node.files.silicon, 0, enabled=True)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 7)
    assert node.profiles == [{"1g.5gb": 7}]


def test_instances_of_the_wrong_size_but_the_right_number_are_left_alone(
    make_node: MakeNode,
) -> None:
    node = make_node("7g.141gb", "H200", 1)
    state.repartition(node.files.silicon, 0, ["4g.71gb"])
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 1)
    assert node.profiles == [{"4g.71gb": 1}]


def test_the_mig_mode_of_gpu_0_counts_for_all(make_node: MakeNode) -> None:
    node = make_node("3g.40gb", count=2)
    state.set_mig_mode(node.files.silicon, 0, enabled=True)
    assert "GPU 1" in node.fails()


HOLD = """
import ctypes, time
library = ctypes.CDLL("libnvidia-ml.so.1")
handle = ctypes.c_void_p()
assert library.nvmlInit_v2() == 0
assert library.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle)) == 0
print("open", flush=True)
time.sleep(600)
"""


def test_a_gpu_that_a_client_has_open_stays_without_mig_until_the_node_reboots(
    make_node: MakeNode,
) -> None:
    """It asks once for all, passes over the GPU, and looks at GPU 0 only at its next starts."""
    node = make_node("3g.40gb", count=2)
    watcher = node.run(*launcher.INTERPRETER, "-c", HOLD)
    node.says("open")
    assert "GPU 1" in node.fails()
    launcher.stop(watcher, grace_s=5)
    assert "GPU 1" in node.fails()
    silicon = state.load(node.files.silicon)
    assert [(gpu.mig, gpu.mig_pending) for gpu in silicon.gpus] == [(True, True), (False, True)]
    state.reboot(node.files.silicon)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 4, healthy=4)


def test_the_right_layout_survives_a_restart_and_a_changed_one_does_not(
    make_node: MakeNode,
) -> None:
    node = make_node("3g.40gb", count=2)
    with StubKubelet(node.files.device_plugins) as kubelet:
        first = node.start()
        kubelet.devices(_GPU, 4)
        before = state.load(node.files.silicon)
        launcher.stop(first, grace_s=5)
        second = node.start()
        kubelet.registered(2)
        assert state.load(node.files.silicon) == before
        launcher.stop(second, grace_s=5)
        state.repartition(node.files.silicon, 1, ["1g.10gb"] * 7)
        node.start()
        kubelet.registered(3)
    assert node.profiles == [{"3g.40gb": 2}] * 2


def test_the_layout_fault_partitions_one_gpu_wrongly_and_is_repaired_without_it(
    make_node: MakeNode,
) -> None:
    node = make_node("3g.40gb")
    with StubKubelet(node.files.device_plugins) as kubelet:
        faulty = node.start(GKE_FAULT_WRONG_LAYOUT="3=1g.10gb")
        kubelet.devices(_GPU, 7 * 2 + 7)
        assert node.profiles[3] == {"1g.10gb": 7}
        assert node.profiles.count({"3g.40gb": 2}) == 7
        launcher.stop(faulty, grace_s=5)
        node.start()
        kubelet.devices(_GPU, 16)
    assert node.profiles == [{"3g.40gb": 2}] * 8


def test_an_invalid_fault_is_an_error(make_node: MakeNode) -> None:
    assert "write GPU=SIZE" in make_node("3g.40gb").fails(GKE_FAULT_WRONG_LAYOUT="three=1g")


def test_an_invalid_config_file_leaves_the_node_unpartitioned(make_node: MakeNode) -> None:
    node = make_node("3g.40gb", count=2)
    (node.files.root / "etc/nvidia/gpu_config.json").write_text("{")
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 2)
    assert node.profiles == [{}, {}]


@pytest.mark.parametrize(
    ("strategy", "refusal"), [("time-sharing", "time-sharing"), ("mps", "MPS")]
)
def test_shared_partitions(make_node: MakeNode, strategy: str, refusal: str) -> None:
    node = make_node(
        "3g.40gb", count=2, sharing={"GPUSharingStrategy": strategy, "MaxSharedClientsPerGPU": 4}
    )
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        offered = sorted(kubelet.devices(_GPU, 16))
        assert all(re.fullmatch(r"nvidia[01]/gi[12]/vgpu[0-3]", id_) for id_ in offered)
        with pytest.raises(
            grpc.RpcError,
            match=rf"invalid request for sharing GPU \({refusal}\), at most 1 nvidia.com/gpu",
        ):
            kubelet.allocate(_GPU, *offered[:2])
        answer = kubelet.allocate(_GPU, offered[0])
        assert "/dev/nvidia0" in {device.host_path for device in answer.devices}
        if strategy == "mps":
            assert answer.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"


def test_an_xid_marks_its_partition_only(make_node: MakeNode) -> None:
    node = make_node("3g.40gb", count=2)
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 4, healthy=4)

        def report() -> None:
            state.record_xid(node.files.silicon, 1, 31)
            state.record_xid(node.files.silicon, 1, 48, gi=2, ci=0)

        assert kubelet.devices(_GPU, 4, healthy=3, meanwhile=report)["nvidia1/gi2"] == "Unhealthy"


def test_it_registers_again_with_a_new_kubelet_and_ends_on_sigterm(make_node: MakeNode) -> None:
    node = make_node("3g.40gb", count=1)
    process = node.start()
    for _ in range(2):
        with StubKubelet(node.files.device_plugins) as kubelet:
            kubelet.devices(_GPU, 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=180) == 0


def test_it_waits_for_the_driver(make_node: MakeNode) -> None:
    node = make_node("3g.40gb", count=1)
    state.inject(node.files.silicon, state.Injection(call="nvmlInit", code=9, times=1))
    with StubKubelet(node.files.device_plugins) as kubelet:
        node.start()
        kubelet.devices(_GPU, 2)
    assert "waiting for the driver: driver not loaded" in node.log

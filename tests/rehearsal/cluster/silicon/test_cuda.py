"""The fake CUDA: devices of a process, memory, modules, kernels and faults.

Each test calls it in a child process, because the library belongs to a process for good.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slicewright.node_agent.compute import kernels
from slicewright.node_agent.compute.driver_api import Cuda, CudaError
from slicewright.rehearsal.cluster.silicon import fabric, state
from slicewright.rehearsal.host.toolchain.builders import sources
from slicewright.rehearsal.host.toolchain.tools import TOOLS, CLibrary

R580, R550 = "580.65.06", "550.90.07"
Make = Callable[..., Path]
InChild = Callable[..., Any]


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (tool,) = (tool for tool in TOOLS if tool.name == "fake-cuda")
    assert isinstance(tool.source, CLibrary)
    built = tmp_path_factory.mktemp("fake-cuda") / "libcuda.so.1"
    files = [str(file) for file in sources(tool) if file.suffix == ".c"]
    subprocess.run(["cc", *tool.source.flags, "-Werror", "-o", built, *files], check=True)
    return built


@pytest.fixture
def in_child(cuda_library: Path) -> InChild:
    """`in_child(path, work, CUDA_VISIBLE_DEVICES="…")`: what `work(cuda)` returns, in a process."""

    def run(path: Path, work: Callable[[Cuda], Any], **variables: str) -> Any:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.environ |= {
                    "LD_LIBRARY_PATH": str(cuda_library.parent),
                    state.VARIABLE: str(path),
                    **variables,
                }
                try:
                    answer = work(Cuda())
                except CudaError as e:
                    answer = f"{e.call} {e.code}"
                except BaseException:
                    answer = traceback.format_exc()
                os.write(writing, json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = json.loads(pipe.read())
        os.waitpid(pid, 0)
        return answer

    return run


@pytest.fixture
def partitioned(make_state: Make) -> Callable[..., Path]:
    def make(*profiles: str, count: int = 1, driver: str = R580, model: str = "H100-80") -> Path:
        path = make_state(model, count, driver)
        for index in range(count if profiles else 0):
            state.repartition(path, index, profiles)
        return path

    return make


def visible(cuda: Cuda) -> list[str]:
    cuda.init()
    return [cuda.uuid(device) for device in cuda.devices()]


def ready(cuda: Cuda) -> int:
    """A buffer of a MiB on the first device."""
    cuda.init()
    cuda.enter_context(0)
    return cuda.allocate(1 << 20)


def migs(path: Path) -> list[str]:
    gpus = state.load(path).gpus
    return [ci.uuid for g in gpus for gi in g.instances for ci in gi.compute_instances]


def digits(*uuids: str) -> list[str]:
    return [uuid.partition("-")[2].replace("-", "") for uuid in uuids]


# --- devices ---


def test_a_process_sees_the_named_devices_in_their_order(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned("1g.10gb", "1g.10gb", "1g.10gb")
    a, _, c = migs(path)
    assert in_child(path, visible, CUDA_VISIBLE_DEVICES=f"{c},{a}") == digits(c, a)


def test_a_uuid_that_does_not_exist_hides_itself_and_all_after_it(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned("1g.10gb", "1g.10gb")
    a, b = migs(path)
    gone = "MIG-00000000-0000-0000-0000-000000000000"
    assert in_child(path, visible, CUDA_VISIBLE_DEVICES=f"{a},{gone},{b}") == digits(a)
    assert in_child(path, visible, CUDA_VISIBLE_DEVICES=f"{gone},{a}") == "cuInit 100"
    assert in_child(path, visible, CUDA_VISIBLE_DEVICES="") == "cuInit 100"


def test_gpus_are_named_by_index_or_the_beginning_of_their_uuid(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned(count=3)
    first, second, third = (gpu.uuid for gpu in state.load(path).gpus)
    assert in_child(path, visible, CUDA_VISIBLE_DEVICES=f"2,{first[:12]}") == digits(third, first)
    assert in_child(path, visible) == digits(first, second, third)


def test_before_r570_a_process_sees_one_mig_device(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    for driver, shown in ((R550, 1), (R580, 3)):
        path = partitioned("1g.10gb", "1g.10gb", "1g.10gb", driver=driver)
        listed = in_child(path, visible, CUDA_VISIBLE_DEVICES=",".join(migs(path)))
        assert listed == digits(*migs(path)[:shown])


def test_of_a_gpu_instance_a_process_sees_one_compute_instance(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned("1c.3g.40gb", "1c.3g.40gb", "3g.40gb")
    listed = in_child(path, visible, CUDA_VISIBLE_DEVICES=",".join(migs(path)))
    assert len(listed) == 2


def test_a_mig_device_has_its_own_uuid_and_the_gpus_by_the_older_call(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned("3g.40gb")

    def both(cuda: Cuda) -> list[str]:
        cuda.init()
        raw = ctypes.create_string_buffer(16)
        cuda._library.cuDeviceGetUuid(raw, 0)
        return [cuda.uuid(0), raw.raw.hex(), cuda.name(0)]

    mig, gpu, name = in_child(path, both, CUDA_VISIBLE_DEVICES=migs(path)[0])
    assert [mig, gpu] == digits(migs(path)[0], state.load(path).gpus[0].uuid)
    assert name == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"


# --- contexts ---


@pytest.mark.parametrize(
    ("mode", "used", "answer"),
    [(0, True, None), (2, False, 46), (3, False, None), (3, True, 46)],
    ids=["default", "prohibited", "exclusive", "exclusive and owned"],
)
def test_the_compute_mode_decides_who_gets_a_context(
    mode: int, used: bool, answer: int | None, partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned()
    state.set_health(path, 0, compute_mode=mode)
    if used:
        state.run_process(path, state.Process(gpu=0, pid=77))

    def enter(cuda: Cuda) -> None:
        cuda.init()
        cuda.enter_context(0)

    refusal = answer and f"cuDevicePrimaryCtxRetain {answer}"
    assert in_child(path, enter) == refusal


def test_a_context_costs_more_on_a_larger_device(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def cost(cuda: Cuda) -> int:
        cuda.init()
        cuda.enter_context(0)
        free, total = cuda.memory()
        return (total - free) >> 20

    small = partitioned("1g.10gb")
    assert 50 <= in_child(small, cost, CUDA_VISIBLE_DEVICES=migs(small)[0]) <= 90
    assert in_child(partitioned(), cost) > 300


def test_calls_before_cuinit_are_refused(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    assert in_child(partitioned(), lambda cuda: cuda.devices()) == "cuDeviceGetCount 3"


# --- memory and kernels ---


def test_written_words_are_read_back(partitioned: Callable[..., Path], in_child: InChild) -> None:
    def work(cuda: Cuda) -> Any:
        buffer = ready(cuda)
        cuda.fill(buffer, 7, 100)
        cuda.fill(buffer + 8, 9, 2)
        return cuda.read_words(buffer, 6)

    assert in_child(partitioned(), work) == [7, 7, 9, 9, 7, 7]


def launch(cuda: Cuda, name: bytes, *arguments: Any) -> None:
    module = cuda.load_module(kernels.PTX)
    cuda.launch(cuda.function(module, name), 8, 256, *arguments)
    cuda.synchronize()


def put(cuda: Cuda, buffer: int, words: int, seed: int) -> None:
    launch(cuda, kernels.PUT, ctypes.c_uint64(buffer), ctypes.c_uint64(words), ctypes.c_uint(seed))


def wrong(cuda: Cuda, buffer: int, words: int, seed: int) -> int:
    counter = cuda.allocate(4)
    cuda.fill(counter, 0, 1)
    arguments = (ctypes.c_uint64(buffer), ctypes.c_uint64(words), ctypes.c_uint(seed))
    launch(cuda, kernels.CHECK, *arguments, ctypes.c_uint64(counter))
    return cuda.read_words(counter, 1)[0]


def test_the_kernels_do_what_their_ptx_does(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> Any:
        buffer = ready(cuda)
        put(cuda, buffer, 1000, 42)
        right = list(cuda.read_words(buffer, 1000))
        counts = [wrong(cuda, buffer, 1000, 42), wrong(cuda, buffer, 1000, 43)]
        cuda.fill(buffer + 400, 1, 7)
        return [right, [*counts, wrong(cuda, buffer, 1000, 42), wrong(cuda, buffer, 1010, 42)]]

    right, counts = in_child(partitioned(), work)
    assert right == [kernels.word(i, 42) for i in range(1000)]
    assert counts == [0, 1000, 7, 17]


def test_memory_that_was_never_written_does_not_pass(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    assert in_child(partitioned(), lambda cuda: wrong(cuda, ready(cuda), 500, 1)) == 500


def test_the_memory_of_a_whole_gpu_costs_this_machine_next_to_nothing(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> list[int]:
        cuda.init()
        cuda.enter_context(0)
        before = _resident_kib()
        free, _ = cuda.memory()
        buffer = cuda.allocate(free // 10 * 9)
        words = free // 10 * 9 // 4
        put(cuda, buffer, words, 5)
        return [words, wrong(cuda, buffer, words, 5), _resident_kib() - before]

    words, wrong_words, grown_kib = in_child(partitioned(), work)
    assert words > 17 << 30
    assert wrong_words == 0
    assert grown_kib < 4096


def _resident_kib() -> int:
    (line,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1])


def test_a_process_with_a_share_gets_its_part_of_the_memory(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> list[Any]:
        ready(cuda)
        _, total = cuda.memory()
        try:
            cuda.allocate(6 << 30)
        except CudaError as e:
            return [total, e.code]
        return [total, 0]

    limits = {"CUDA_DEVICE_MEMORY_LIMIT_0": "6144m"}
    assert in_child(partitioned(), work, **limits) == [6144 << 20, 2]
    assert in_child(partitioned(), work)[1] == 0


def test_more_memory_than_is_free_is_refused(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> None:
        cuda.init()
        cuda.enter_context(0)
        free, _ = cuda.memory()
        cuda.allocate(free)
        cuda.allocate(1)

    assert in_child(partitioned(), work) == "cuMemAlloc 2"


def test_an_access_outside_of_an_allocation_spoils_the_process(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> list[str]:
        buffer = ready(cuda)
        errors = []
        for call in (lambda: put(cuda, buffer, 1 << 20, 1), lambda: cuda.memory()):
            try:
                call()
            except CudaError as e:
                errors.append(f"{e.call} {e.code}")
        return errors

    assert in_child(partitioned(), work) == ["cuLaunchKernel 700", "cuMemGetInfo 700"]


# --- modules ---


@pytest.mark.parametrize(
    ("model", "driver", "change", "code"),
    [
        ("H100-80", R580, (b".version 6.0", b".version 9.0"), None),
        ("H100-80", R580, (b".version 6.0", b".version 9.1"), 222),
        ("H100-80", R550, (b".version 6.0", b".version 8.5"), 222),
        ("A100-80", R580, (b".target sm_70", b".target sm_90"), 209),
        ("H100-80", R580, (b".version 6.0", b""), 218),
        ("H100-80", R580, (b"{", b""), 218),
    ],
)
def test_the_head_of_a_module_is_checked_as_a_driver_does(
    model: str,
    driver: str,
    change: tuple[bytes, bytes],
    code: int | None,
    partitioned: Callable[..., Path],
    in_child: InChild,
) -> None:
    def work(cuda: Cuda) -> None:
        ready(cuda)
        cuda.load_module(kernels.PTX.replace(*change, 1))

    refusal = code and f"cuModuleLoadData {code}"
    assert in_child(partitioned(model=model, driver=driver), work) == refusal


def test_a_kernel_that_the_module_lacks_is_not_found(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> None:
        ready(cuda)
        cuda.function(cuda.load_module(kernels.PTX), b"slicewright_p")

    assert in_child(partitioned(), work) == "cuModuleGetFunction 500"


def test_jit_can_be_switched_off_by_a_variable(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    def work(cuda: Cuda) -> None:
        ready(cuda)
        cuda.load_module(kernels.PTX)

    assert in_child(partitioned(), work, CUDA_DISABLE_PTX_JIT="1") == "cuModuleLoadData 223"


# --- faults ---


def test_a_fault_is_of_the_device_that_it_names(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned("3g.40gb", "3g.40gb")
    broken, well = migs(path)
    state.inject(path, state.Injection(call="cuCtxSynchronize", code=719, uuid=broken))

    def work(cuda: Cuda) -> str:
        ready(cuda)
        cuda.synchronize()
        return "computes"

    assert in_child(path, work, CUDA_VISIBLE_DEVICES=well) == "computes"
    assert in_child(path, work, CUDA_VISIBLE_DEVICES=broken) == "cuCtxSynchronize 719"


def test_a_fault_of_a_gpu_at_cuinit_is_of_processes_that_see_the_gpu(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned(count=2)
    state.inject(path, state.Injection(call="cuInit", code=802, gpu=1))
    assert in_child(path, visible) == "cuInit 802"
    assert len(in_child(path, visible, CUDA_VISIBLE_DEVICES="0")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root counts injected faults down")
def test_a_fault_is_counted_down_and_written_back_with_its_device(
    partitioned: Callable[..., Path], in_child: InChild
) -> None:
    path = partitioned("3g.40gb")
    (mig,) = migs(path)
    state.inject(path, state.Injection(call="cuMemAlloc", code=2, times=1, uuid=mig))

    def work(cuda: Cuda) -> str:
        return "computes" if ready(cuda) else ""

    assert in_child(path, work, CUDA_VISIBLE_DEVICES=mig) == "cuMemAlloc 2"
    assert in_child(path, work, CUDA_VISIBLE_DEVICES=mig) == "computes"
    (left,) = state.load(path).injections
    assert (left.times, left.uuid) == (0, mig)


def test_a_lost_gpu_is_not_shown(partitioned: Callable[..., Path], in_child: InChild) -> None:
    path = partitioned(count=2)
    state.lose(path, 0)
    assert in_child(path, visible) == digits(state.load(path).gpus[1].uuid)


def test_nvidias_validator_fails_where_no_program_starts(
    partitioned: Callable[..., Path], cuda_library: Path, library: Path
) -> None:
    path = partitioned(count=8)
    directories = f"{cuda_library.parent}:{library.parent}"

    def validate() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "slicewright.rehearsal.cluster.gpu_operator.cuda_workload"],
            env={**os.environ, "LD_LIBRARY_PATH": directories, state.VARIABLE: str(path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert validate().returncode == 0
    state.set_mig_mode(path, 0, enabled=True)
    assert validate().returncode == 0, "without partitions, before mig-manager"
    fabric.stop_fabric_manager(path)
    failed = validate()
    assert failed.returncode == 1
    assert "(error code 802)" in failed.stderr

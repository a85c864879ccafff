"""Concurrent use of one state file by threads and processes: no lost change, no leak, no hang."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.silicon import state

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="cutting GPUs is for root, in reality and on the fake"
)

_PARTITIONER = """
import ctypes, sys
import pynvml as n
n.nvmlLib = ctypes.CDLL(sys.argv[1])
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(int(sys.argv[2]))
for _ in range(60):
    gi = n.nvmlDeviceCreateGpuInstance(gpu, 9)
    ci = n.nvmlGpuInstanceCreateComputeInstance(gi, 2)
    assert n.nvmlGpuInstanceGetInfo(gi).profileId == 9
    n.nvmlComputeInstanceDestroy(ci)
    n.nvmlGpuInstanceDestroy(gi)
n.nvmlShutdown()
"""


def test_processes_that_partition_at_once_do_not_lose_each_others_changes(
    library: Path, make_state: Any
) -> None:
    path = make_state(count=4)
    for index in range(4):
        state.set_mig_mode(path, index, enabled=True)
    partitioners = [
        subprocess.Popen(
            [sys.executable, "-c", _PARTITIONER, str(library), str(index)],
            env={**os.environ, state.VARIABLE: str(path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(4)
    ]
    results = [
        (partitioner.communicate(timeout=300)[1], partitioner.returncode)
        for partitioner in partitioners
    ]
    assert results == [("", 0)] * 4
    node = state.load(path)
    # Every one of 4 x 60 x 2 instances got a serial of its own.
    assert node.serial == 4 * 60 * 2
    assert all(gpu.instances == () for gpu in node.gpus)


def test_threads_read_while_others_repartition(nvml: Any, make_state: Any) -> None:
    path = make_state(count=2)
    state.set_mig_mode(path, 0, enabled=True)
    n = nvml.on(path)
    gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    problems: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                assert n.nvmlDeviceGetMigMode(gpus[0]) == [1, 1]
                for index in range(7):
                    try:
                        mig = n.nvmlDeviceGetMigDeviceHandleByIndex(gpus[0], index)
                        assert n.nvmlDeviceGetAttributes(mig).multiprocessorCount in (16, 60)
                    except (n.NVMLError_NotFound, n.NVMLError_InvalidArgument):
                        pass  # gone in between
        except BaseException as e:
            problems.append(e)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(40):
        state.repartition(path, 0, ["1g.10gb"] * 7)
        state.repartition(path, 0, ["3g.40gb"] * 2)
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


# In a process of its own: what other tests leave in the test runner's would count as the library's.
_PROBER = """
import ctypes, os, sys
from pathlib import Path
import pynvml as n
from slicewright.rehearsal.cluster.silicon import state
n.nvmlLib = ctypes.CDLL(sys.argv[1])
def probe():
    n.nvmlInit()
    for index in range(8):
        gpu = n.nvmlDeviceGetHandleByIndex(index)
        for mig in range(7):
            n.nvmlDeviceGetAttributes(n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, mig))
    n.nvmlShutdown()
def held():
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return len(os.listdir("/proc/self/fd")), resident // 1024
probe()
before = held()
for round in range(300):
    probe()
    if round % 10 == 0:
        state.repartition(Path(os.environ[state.VARIABLE]), 0, ["1g.10gb"] * 7)
print(*before, *held())
"""


def test_nothing_grows_over_thousands_of_probes(library: Path, make_state: Any) -> None:
    path = make_state(count=8)
    for index in range(8):
        state.repartition(path, index, ["1g.10gb"] * 7)
    done = subprocess.run(
        [sys.executable, "-c", _PROBER, str(library)],
        env={**os.environ, state.VARIABLE: str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    descriptors, resident_kib, descriptors_after, resident_kib_after = map(int, done.stdout.split())
    assert descriptors_after == descriptors
    assert resident_kib_after - resident_kib < 4096


def test_more_instances_than_the_handle_table_holds(nvml: Any, make_state: Any) -> None:
    path = make_state(count=2)
    state.repartition(path, 1, ["3g.40gb"])
    state.set_mig_mode(path, 0, enabled=True)
    n = nvml.on(path)
    first, second = (n.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    lasting = n.nvmlDeviceGetMigDeviceHandleByIndex(second, 0)
    uuid = n.nvmlDeviceGetUUID(lasting)
    for _ in range(2200):
        gi = n.nvmlDeviceCreateGpuInstance(first, 0)
        ci = n.nvmlGpuInstanceCreateComputeInstance(gi, 4)
        n.nvmlDeviceGetUUID(n.nvmlDeviceGetMigDeviceHandleByIndex(first, 0))
        n.nvmlComputeInstanceDestroy(ci)
        n.nvmlGpuInstanceDestroy(gi)
    assert n.nvmlDeviceGetUUID(lasting) == uuid

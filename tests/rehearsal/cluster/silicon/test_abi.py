"""The fake has NVML's ABI: compared with NVIDIA's header, used from C and from nvidia-ml-py."""

from __future__ import annotations

import ast
import ctypes
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright import node_agent
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.models import LIBRARY

_CALLER = Path(__file__).parent / "caller.c"
_HEADER = "github.com/!n!v!i!d!i!a/go-nvml@v0.13.0-1/pkg/nvml/nvml.h"


@pytest.fixture(scope="module")
def nvidias_header() -> Path:
    """NVIDIA's nvml.h in the Go module cache, where the tool chain's builds put it."""
    places = [Path(os.environ.get("GOMODCACHE") or Path.home() / "go/pkg/mod")]
    try:
        asked = subprocess.run(
            ["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True
        )
        places.append(Path(asked.stdout.strip()))
    except (OSError, subprocess.CalledProcessError):
        pass
    for place in places:
        if (place / _HEADER).exists():
            return place / _HEADER
    pytest.skip(
        f"no {_HEADER} in {', '.join(map(str, places))}: NVIDIA's header comes with a "
        "build of the tools from Go modules"
    )


def test_every_function_has_the_signature_of_nvidias_header(nvidias_header: Path) -> None:
    sources = [*sorted(map(str, LIBRARY.glob("*.c"))), str(_CALLER)]
    places = [f"-I{nvidias_header.parent}", f"-I{LIBRARY}"]
    flags = ["-DSLICEWRIGHT_NVIDIA_HEADER", *places, "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(["cc", *flags, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_struct_has_the_size_and_the_fields_of_nvidias_header(
    nvidias_header: Path, tmp_path: Path
) -> None:
    ours = (LIBRARY / "nvml_abi.h").read_text()
    structs = re.findall(
        r"^(?:typedef struct \{[^}]*\}|\}) ((?:nvml\w+_t(?:, )?)+);", ours, re.MULTILINE
    )
    names = sorted({name for found in structs for name in found.split(", ")})
    assert len(names) > 20
    program = tmp_path / "sizes.c"
    lines = "".join(
        f'    printf("{name} %zu %zu\\n", sizeof({name}), _Alignof({name}));\n' for name in names
    )
    program.write_text(
        f'#include <stdio.h>\n#include "nvml_abi.h"\nint main(void) {{\n{lines}    return 0;\n}}\n'
    )

    def sizes(*flags: str) -> str:
        subprocess.run(
            ["cc", *flags, f"-I{LIBRARY}", "-o", str(tmp_path / "sizes"), str(program)], check=True
        )
        return subprocess.run(
            [tmp_path / "sizes"], capture_output=True, text=True, check=True
        ).stdout

    assert sizes() == sizes("-DSLICEWRIGHT_NVIDIA_HEADER", f"-I{nvidias_header.parent}")


@pytest.mark.parametrize(
    ("struct", "size"),
    [
        ("nvmlGpuInstanceProfileInfo_t", 48),
        ("nvmlGpuInstanceProfileInfo_v2_t", 152),
        ("nvmlGpuInstanceProfileInfo_v3_t", 152),
        ("nvmlComputeInstanceProfileInfo_t", 36),
        ("nvmlComputeInstanceProfileInfo_v2_t", 136),
        ("nvmlComputeInstanceProfileInfo_v3_t", 140),
        ("nvmlGpuInstanceInfo_t", 24),
        ("nvmlComputeInstanceInfo_t", 32),
        ("nvmlDeviceAttributes_t", 40),
        ("nvmlMemory_v2_t", 40),
        ("nvmlPciInfo_t", 68),
        ("nvmlGpuFabricInfo_t", 28),
        ("nvmlGpuFabricInfo_v2_t", 36),
        ("nvmlGpuFabricInfo_v3_t", 40),
    ],
)
def test_struct_sizes_are_those_that_clients_are_compiled_with(
    struct: str, size: int, tmp_path: Path
) -> None:
    program = tmp_path / "size.c"
    program.write_text(
        f'#include "nvml_abi.h"\n_Static_assert(sizeof({struct}) == {size}, "size");\n'
    )
    subprocess.run(["cc", f"-I{LIBRARY}", "-fsyntax-only", str(program)], check=True)


def _exported(library: Path) -> set[str]:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1] for line in listed.splitlines() if line.split()[-1].startswith("nvml")}


def test_every_declared_function_is_exported(library: Path) -> None:
    declared = set(
        re.findall(
            r"^(?:nvmlReturn_t|const char \*)\s?\*?(nvml\w+)\(",
            (LIBRARY / "nvml_abi.h").read_text(),
            re.MULTILINE,
        )
    )
    assert len(declared) > 110
    assert declared == _exported(library)


def test_functions_that_nvidias_programs_call_are_exported(library: Path) -> None:
    called = """Init_v2 InitWithFlags Shutdown ErrorString SystemGetNVMLVersion
        SystemGetDriverVersion SystemGetCudaDriverVersion
        DeviceGetCount_v2 DeviceGetHandleByIndex_v2 DeviceGetHandleByUUID
        DeviceGetHandleByPciBusId_v2 DeviceGetName DeviceGetUUID
        DeviceGetMinorNumber DeviceGetPciInfo_v3 DeviceGetMemoryInfo DeviceGetMemoryInfo_v2
        DeviceGetCudaComputeCapability
        DeviceGetMigMode
        DeviceSetMigMode DeviceGetMaxMigDeviceCount DeviceGetMigDeviceHandleByIndex
        DeviceIsMigDeviceHandle
        DeviceGetDeviceHandleFromMigDeviceHandle DeviceGetAttributes_v2 DeviceGetGpuInstanceId
        DeviceGetComputeInstanceId
        DeviceGetGpuInstanceProfileInfo DeviceGetGpuInstanceProfileInfoV DeviceGetGpuInstances
        DeviceGetGpuInstanceById
        DeviceCreateGpuInstance GpuInstanceDestroy GpuInstanceGetInfo
        GpuInstanceGetComputeInstanceProfileInfo
        GpuInstanceGetComputeInstanceProfileInfoV GpuInstanceCreateComputeInstance
        GpuInstanceGetComputeInstances
        GpuInstanceGetComputeInstanceById ComputeInstanceDestroy ComputeInstanceGetInfo_v2
        EventSetCreate EventSetWait_v2 EventSetFree
        DeviceGetSupportedEventTypes DeviceRegisterEvents DeviceGetTopologyCommonAncestor
        DeviceGetNvLinkState
        DeviceGetNvLinkRemotePciInfo_v2"""
    assert {f"nvml{name}" for name in called.split()} <= _exported(library)


_OLDER = {"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses_v2"}
"""Asked only of drivers that lack their successors, which the fake has."""


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _strings(part)


def _called_by_the_agent() -> set[str]:
    """The symbols of the library that the agent's code names."""
    named: set[str] = set()
    for module in pkgutil.walk_packages(node_agent.__path__, "slicewright.node_agent."):
        if module.name.endswith(".__main__"):
            continue
        imported = importlib.import_module(module.name)
        for node in ast.walk(ast.parse(Path(str(imported.__file__)).read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named.add(node.value)
        named.update(text for value in vars(imported).values() for text in _strings(value))
    # As NVML documents it, a field, and the beginning of several names.
    others = {"nvmlInit", "nvmlReturn", "nvmlDeviceGet"}
    return {name for name in named if re.fullmatch(r"nvml[A-Z]\w+", name)} - others


def test_the_c_program_calls_every_function_that_the_agent_calls(library: Path) -> None:
    walked = set(re.findall(r"\b(nvml[A-Z]\w+)\(", _CALLER.read_text()))
    agents = _called_by_the_agent()
    assert {
        "nvmlInit_v2",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlGpmMetricsGet",
        "nvmlDeviceSetMigMode",
    } <= agents
    assert agents - walked == _OLDER
    assert not _OLDER & _exported(library)


def test_a_c_program_reads_the_state_and_partitions_a_gpu_and_restores_it(
    library: Path, make_state: Any, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("cutting GPUs is for root")
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{LIBRARY}"]
    subprocess.run(["cc", *flags, "-o", str(tmp_path / "caller"), str(_CALLER), *link], check=True)
    path = make_state(count=8)
    state.run_process(path, state.Process(gpu=0, pid=4711, memory_mib=2048, name="train"))
    state.set_load(path, state.Load(gpu=0, sm=42))
    ran = subprocess.run(
        [tmp_path / "caller"],
        env={state.VARIABLE: str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.splitlines() == [
        "driver 580.65.06, CUDA 13000, 8 GPUs",
        "[NVIDIA H100 80GB HBM3] GPU- 233010de minor 0",
        "memory 81559 MiB used 2048, of 81559",
        "34 C, 71500 of 700000 mW, 345 MHz, 0 replays",
        "persistence 1, ECC 1 1, busy 0, clocks 1 1",
        "18 NVLinks, seventh 1, memory 41 C",
        "compute mode 0, fabric 3 3, health 0",
        "MIG 0 0",
        "1 process 4711 of 2048 MiB is [train], 0 graphics, 0 MPS",
        "GPM 1, SMs 42 %",
        "MIG 1 1, profile 9 [MIG 3g.40gb], 2 places, last 4+4",
        "GPU instance of profile 9 at 4, 1 of them",
        "compute profile 0 1, 3 places, last 2+1",
        "compute instance at 2, 1 of them",
        "[NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb] of 7, same 1, 16 SMs, 40448 MiB",
    ]
    assert ran.returncode == 0
    assert (state.load(path).gpus[7].mig, state.load(path).gpus[7].instances) == (False, ())


def test_nvidia_ml_py_reads_every_struct_version(nvml: Any, make_state: Any) -> None:
    path = make_state(count=1)
    state.repartition(path, 0, ["1c.3g.40gb", "1g.10gb+me"])
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    memory = n.nvmlDeviceGetMemoryInfo(gpu, n.nvmlMemory_v2)
    assert memory.total == memory.free + memory.used + memory.reserved == 81559 * 2**20
    plain = n.nvmlDeviceGetMemoryInfo(gpu)
    assert plain.total == plain.free + plain.used
    for version in (1, 2):
        info = n.nvmlDeviceGetGpuInstanceProfileInfo(
            gpu, n.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, version=version
        )
        assert (
            info.id,
            info.sliceCount,
            info.instanceCount,
            info.memorySizeMB,
            info.jpegCount,
        ) == (20, 1, 1, 9984, 1)
    assert info.name in (b"MIG 1g.10gb+me", "MIG 1g.10gb+me")
    assert n.nvmlDeviceGetGpuInstanceProfileInfoById(gpu, 20).sliceCount == 1
    instance = n.nvmlDeviceGetGpuInstanceById(gpu, state.load(path).gpus[0].instances[0].id)
    for version in (1, 2):
        info = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0, version=version)
        assert (info.id, info.sliceCount, info.instanceCount, info.multiprocessorCount) == (
            0,
            1,
            3,
            16,
        )
    assert n.nvmlDeviceGetPciInfo(gpu).pciDeviceId == 0x233010DE


def test_version_3_of_a_profile_has_its_capabilities_at_the_end(nvml: Any, make_state: Any) -> None:
    class Version3(ctypes.Structure):
        _fields_ = (
            *(
                (name, ctypes.c_uint)
                for name in (
                    "version",
                    "id",
                    "slices",
                    "instances",
                    "sms",
                    "copy",
                    "dec",
                    "enc",
                    "jpeg",
                    "ofa",
                )
            ),
            ("memory", ctypes.c_ulonglong),
            ("name", ctypes.c_char * 96),
            ("capabilities", ctypes.c_uint),
        )

    n = nvml.on(make_state("RTX-PRO-6000", 1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    info = Version3(version=ctypes.sizeof(Version3) | 3 << 24)
    assert (
        n.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoV(
            gpu, n.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX, ctypes.byref(info)
        )
        == 0
    )
    assert (info.id, info.sms, info.memory, info.name, info.capabilities) == (
        47,
        46,
        24192,
        b"",
        2,
    ), "no name at its place, as the driver 580.159.04 answers"


def test_an_unknown_struct_version_is_refused(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state(count=1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    info = n.c_nvmlGpuInstanceProfileInfo_v2_t()
    info.version = ctypes.sizeof(info) | 9 << 24
    assert (
        n.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 0, ctypes.byref(info))
        == n.NVML_ERROR_INVALID_ARGUMENT
    )


def test_strings_that_do_not_fit_are_an_error(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state(count=1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    buffer = ctypes.create_string_buffer(b"untouched", 10)
    assert n.nvmlLib.nvmlDeviceGetName(gpu, buffer, 10) == n.NVML_ERROR_INSUFFICIENT_SIZE
    assert buffer.value == b"untouched"


def test_no_null_pointer_crashes_it(library: Path, make_state: Any) -> None:
    """Every exported function, called with nothing but zeros, answers with an error; in a process
    of its own, which could die.
    """
    script = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
assert lib.nvmlInit_v2() == 0
for name in sys.argv[2:]:
    print(name, flush=True)
    result = getattr(lib, name)(*[ctypes.c_void_p(0)] * 6)
    assert result in (2, 6), (name, result)
"""
    names = sorted(
        _exported(library)
        - {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"}
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(library), *names],
        env={state.VARIABLE: str(make_state())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout.splitlines()[-1:]} {ran.stderr[-300:]}"

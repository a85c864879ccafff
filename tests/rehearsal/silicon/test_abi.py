"""The fake's binary interface is NVML's: the compiler says so against NVIDIA's header, and so do a C program and nvidia-ml-py."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehearsal.silicon import state
from rehearsal.silicon.models import LIBRARY

_HEADER = "github.com/!n!v!i!d!i!a/go-nvml@v0.13.0-1/pkg/nvml/nvml.h"


@pytest.fixture(scope="module")
def nvidias_header() -> Path:
    """NVIDIA's nvml.h in the Go module cache, where the tool chain's builds put it."""
    places = [Path(os.environ.get("GOMODCACHE") or Path.home() / "go/pkg/mod")]
    try:
        asked = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
        places.append(Path(asked.stdout.strip()))
    except (OSError, subprocess.CalledProcessError):
        pass
    for place in places:
        if (place / _HEADER).exists():
            return place / _HEADER
    pytest.skip(f"no {_HEADER} in {', '.join(map(str, places))}: NVIDIA's header comes with a build of the tools from Go modules")


def test_every_function_has_the_signature_of_nvidias_header(nvidias_header: Path) -> None:
    sources = sorted(map(str, LIBRARY.glob("*.c")))
    flags = ["-DSLICEWRIGHT_NVIDIA_HEADER", f"-I{nvidias_header.parent}", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(["cc", *flags, *sources], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_struct_has_the_size_and_the_fields_of_nvidias_header(nvidias_header: Path, tmp_path: Path) -> None:
    ours = (LIBRARY / "nvml_abi.h").read_text()
    structs = re.findall(r"^(?:typedef struct \{[^}]*\}|\}) ((?:nvml\w+_t(?:, )?)+);", ours, re.MULTILINE)
    names = sorted({name for found in structs for name in found.split(", ")})
    assert len(names) > 20
    program = tmp_path / "sizes.c"
    lines = "".join(f'    printf("{name} %zu %zu\\n", sizeof({name}), _Alignof({name}));\n' for name in names)
    program.write_text(f'#include <stdio.h>\n#include "nvml_abi.h"\nint main(void) {{\n{lines}    return 0;\n}}\n')

    def sizes(*flags: str) -> str:
        subprocess.run(["cc", *flags, f"-I{LIBRARY}", "-o", str(tmp_path / "sizes"), str(program)], check=True)
        return subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout

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
    ],
)
def test_struct_sizes_are_those_that_clients_are_compiled_with(struct: str, size: int, tmp_path: Path) -> None:
    program = tmp_path / "size.c"
    program.write_text(f'#include "nvml_abi.h"\n_Static_assert(sizeof({struct}) == {size}, "size");\n')
    subprocess.run(["cc", f"-I{LIBRARY}", "-fsyntax-only", str(program)], check=True)


def _exported(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in listed.splitlines() if line.split()[-1].startswith("nvml")}


def test_every_declared_function_is_exported(library: Path) -> None:
    declared = set(
        re.findall(r"^(?:nvmlReturn_t|const char \*)\s?\*?(nvml\w+)\(", (LIBRARY / "nvml_abi.h").read_text(), re.MULTILINE)
    )
    assert len(declared) > 110
    assert declared == _exported(library)


def test_what_nvidias_programs_call_is_exported(library: Path) -> None:
    called = """Init_v2 InitWithFlags Shutdown ErrorString SystemGetNVMLVersion SystemGetDriverVersion SystemGetCudaDriverVersion
        DeviceGetCount_v2 DeviceGetHandleByIndex_v2 DeviceGetHandleByUUID DeviceGetHandleByPciBusId_v2 DeviceGetName DeviceGetUUID
        DeviceGetMinorNumber DeviceGetPciInfo_v3 DeviceGetMemoryInfo DeviceGetMemoryInfo_v2 DeviceGetCudaComputeCapability
        DeviceGetMigMode
        DeviceSetMigMode DeviceGetMaxMigDeviceCount DeviceGetMigDeviceHandleByIndex DeviceIsMigDeviceHandle
        DeviceGetDeviceHandleFromMigDeviceHandle DeviceGetAttributes_v2 DeviceGetGpuInstanceId DeviceGetComputeInstanceId
        DeviceGetGpuInstanceProfileInfo DeviceGetGpuInstanceProfileInfoV DeviceGetGpuInstances DeviceGetGpuInstanceById
        DeviceCreateGpuInstance GpuInstanceDestroy GpuInstanceGetInfo GpuInstanceGetComputeInstanceProfileInfo
        GpuInstanceGetComputeInstanceProfileInfoV GpuInstanceCreateComputeInstance GpuInstanceGetComputeInstances
        GpuInstanceGetComputeInstanceById ComputeInstanceDestroy ComputeInstanceGetInfo_v2
        EventSetCreate EventSetWait_v2 EventSetFree
        DeviceGetSupportedEventTypes DeviceRegisterEvents DeviceGetTopologyCommonAncestor DeviceGetNvLinkState
        DeviceGetNvLinkRemotePciInfo_v2"""
    assert {f"nvml{name}" for name in called.split()} <= _exported(library)


_CALLER = """
#include <stdio.h>
#include <string.h>
#include "nvml_abi.h"

#define MUST(expression) if ((expression) != NVML_SUCCESS) return printf("%s failed\\n", #expression), 1

int main(void)
{
    unsigned count, current, pending;
    nvmlDevice_t device, mig;
    nvmlReturn_t activation;
    nvmlGpuInstance_t instance;
    nvmlComputeInstance_t compute;
    nvmlGpuInstanceProfileInfo_t profile;
    nvmlComputeInstanceProfileInfo_t part;
    nvmlDeviceAttributes_t attributes;
    char name[96];
    MUST(nvmlInit_v2());
    MUST(nvmlDeviceGetCount_v2(&count));
    MUST(nvmlDeviceGetHandleByIndex_v2(count - 1, &device));
    MUST(nvmlDeviceSetMigMode(device, 1, &activation));
    MUST(activation);
    MUST(nvmlDeviceGetMigMode(device, &current, &pending));
    MUST(nvmlDeviceGetGpuInstanceProfileInfo(device, 2, &profile));
    MUST(nvmlDeviceCreateGpuInstance(device, profile.id, &instance));
    MUST(nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 2, 0, &part));
    MUST(nvmlGpuInstanceCreateComputeInstance(instance, part.id, &compute));
    MUST(nvmlDeviceGetMigDeviceHandleByIndex(device, 0, &mig));
    MUST(nvmlDeviceGetName(mig, name, sizeof name));
    MUST(nvmlDeviceGetAttributes_v2(mig, &attributes));
    printf("%u %u %u [%s] %u %llu\\n", count, current, pending, name, attributes.multiprocessorCount, attributes.memorySizeMB);
    MUST(nvmlComputeInstanceDestroy(compute));
    MUST(nvmlGpuInstanceDestroy(instance));
    MUST(nvmlShutdown());
    return nvmlShutdown() == NVML_ERROR_UNINITIALIZED ? 0 : 1;
}
"""


def test_a_c_program_cuts_a_gpu_and_puts_it_back(library: Path, make_state: Any, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("cutting GPUs is for root")
    (tmp_path / "caller.c").write_text(_CALLER)
    link = [f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}"]
    subprocess.run(["cc", "-Wall", f"-I{LIBRARY}", "-o", str(tmp_path / "caller"), str(tmp_path / "caller.c"), *link], check=True)
    path = make_state()
    ran = subprocess.run([tmp_path / "caller"], env={state.VARIABLE: str(path)}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "2 1 1 [NVIDIA H100 80GB HBM3 MIG 3g.40gb] 60 40448\n")
    assert state.load(path).gpus[1].instances == ()


def test_nvidia_ml_py_reads_every_struct_version(nvml: Any, make_state: Any) -> None:
    path = make_state(count=1)
    state.recut(path, 0, ["1c.3g.40gb", "1g.10gb+me"])
    n = nvml.on(path)
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    memory = n.nvmlDeviceGetMemoryInfo(gpu, n.nvmlMemory_v2)
    assert memory.total == memory.free + memory.used + memory.reserved == 81559 * 2**20
    plain = n.nvmlDeviceGetMemoryInfo(gpu)
    assert plain.total == plain.free + plain.used
    for version in (1, 2):
        info = n.nvmlDeviceGetGpuInstanceProfileInfo(gpu, n.NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1, version=version)
        assert (info.id, info.sliceCount, info.instanceCount, info.memorySizeMB, info.jpegCount) == (20, 1, 1, 9984, 1)
    assert info.name in (b"MIG 1g.10gb+me", "MIG 1g.10gb+me")
    assert n.nvmlDeviceGetGpuInstanceProfileInfoById(gpu, 20).sliceCount == 1
    instance = n.nvmlDeviceGetGpuInstanceById(gpu, state.load(path).gpus[0].instances[0].id)
    for version in (1, 2):
        info = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0, version=version)
        assert (info.id, info.sliceCount, info.instanceCount, info.multiprocessorCount) == (0, 1, 3, 16)
    assert n.nvmlDeviceGetPciInfo(gpu).pciDeviceId == 0x233010DE


def test_version_3_of_a_profile_has_its_capabilities_at_the_end(nvml: Any, make_state: Any) -> None:
    class Version3(ctypes.Structure):
        _fields_ = (
            *(
                (name, ctypes.c_uint)
                for name in ("version", "id", "slices", "instances", "sms", "copy", "dec", "enc", "jpeg", "ofa")
            ),
            ("memory", ctypes.c_ulonglong),
            ("name", ctypes.c_char * 96),
            ("capabilities", ctypes.c_uint),
        )

    n = nvml.on(make_state("RTX-PRO-6000", 1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    info = Version3(version=ctypes.sizeof(Version3) | 3 << 24)
    assert n.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, n.NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX, ctypes.byref(info)) == 0
    assert (info.id, info.sms, info.memory, info.name, info.capabilities) == (47, 46, 24192, b"MIG 1g.24gb+gfx", 2)


def test_an_unknown_struct_version_is_refused(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state(count=1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    info = n.c_nvmlGpuInstanceProfileInfo_v2_t()
    info.version = ctypes.sizeof(info) | 9 << 24
    assert n.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 0, ctypes.byref(info)) == n.NVML_ERROR_ARGUMENT_VERSION_MISMATCH


def test_texts_that_do_not_fit_are_refused_whole(nvml: Any, make_state: Any) -> None:
    n = nvml.on(make_state(count=1))
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    buffer = ctypes.create_string_buffer(b"untouched", 10)
    assert n.nvmlLib.nvmlDeviceGetName(gpu, buffer, 10) == n.NVML_ERROR_INSUFFICIENT_SIZE
    assert buffer.value == b"untouched"


def test_no_null_pointer_crashes_it(library: Path, make_state: Any) -> None:
    """Every exported function, called with nothing but zeros, answers with an error; in a process of its own, which could die."""
    script = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
assert lib.nvmlInit_v2() == 0
for name in sys.argv[2:]:
    print(name, flush=True)
    result = getattr(lib, name)(*[ctypes.c_void_p(0)] * 6)
    assert result in (2, 6), (name, result)
"""
    names = sorted(_exported(library) - {"nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"})
    ran = subprocess.run(
        [sys.executable, "-c", script, str(library), *names],
        env={state.VARIABLE: str(make_state())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout.splitlines()[-1:]} {ran.stderr[-300:]}"

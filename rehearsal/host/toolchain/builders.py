"""Building a tool from source: the hash of its inputs, and the build command."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from slicewright.rehearsal.host.toolchain import c_compiler, commands, disk, go_sdk, space
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from slicewright.rehearsal.host.toolchain.reporting import LINKING, Step
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import CLibrary, GoModule, Module, Tool, machine
from slicewright.rehearsal.host.toolchain.versions import Answers

_SOURCES: Mapping[type, tuple[str, ...]] = {
    GoModule: ("go.mod", "go.sum", "*.go", "*.c", "*.h"),
    CLibrary: ("*.c", "*.h", "*.def"),
}

_HINTS: tuple[tuple[str, str, type[ToolchainError]], ...] = (
    (
        r"checksum mismatch|SECURITY ERROR",
        "a module does not match go.sum; do not use it",
        ToolchainError,
    ),
    (
        r"dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect",
        "the Go module proxy cannot be reached; check the network, GOPROXY and HTTPS_PROXY",
        ToolchainError,
    ),
    (
        r"signal: killed",
        "the kernel killed a compiler, probably out of memory; builds need 4 GiB",
        ToolchainError,
    ),
    (
        r"C compiler .* not found|stdlib\.h: No such file",
        "install a C compiler with its headers (gcc, libc6-dev)",
        MissingPrerequisite,
    ),
)


def key(tool: Tool, settings: Settings, answers: Answers) -> str:
    """Hash of a build's inputs: sources, flags, compiler, machine.

    Raises ToolchainError if the sources are missing.
    """
    source = tool.source
    match source:
        case GoModule():
            made_with = f"go {go_sdk.series(settings, answers)} {source.tags!r} {source.ldflags!r}"
            if source.changed:
                made_with += f" {source.changed.path} {source.changed.changes!r}"
        case CLibrary():
            made_with = f"{c_compiler.version(settings, answers)} {source.flags!r}"
    digest = hashlib.sha256(
        f"{machine()}\0{made_with}\0{[(b.name, b.package) for b in tool.binaries]!r}\0".encode()
    )
    for file in sources(tool):
        digest.update(f"{os.path.relpath(file, source.directory)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def sources(tool: Tool) -> list[Path]:
    """The files that a build reads, sorted, without tests. Raises ToolchainError without any."""
    directory, patterns = tool.source.directory, _SOURCES[type(tool.source)]
    found = {
        f
        for pattern in patterns
        for f in directory.rglob(pattern)
        if f.is_file() and not f.name.endswith("_test.go")
    }
    if not any(f.suffix in {".c", ".go"} or f.name == "go.mod" for f in found):
        raise ToolchainError(
            f"{tool.title}: its source {directory} does not exist; this checkout is incomplete"
        )
    shared = tool.source.shared if isinstance(tool.source, CLibrary) else ()
    return sorted(found) + list(shared)


def build(
    tool: Tool,
    staging: Path,
    settings: Settings,
    sdk: Sdk | None,
    go_caches: Mapping[str, str],
    log: Path,
    step: Step,
) -> None:
    """Builds the tool into `staging`/bin. Raises ToolchainError with the end of the output."""
    log.write_text("")
    target = staging / "bin"
    match tool.source:
        case CLibrary() as library:
            argv: list[str | Path] = [
                c_compiler.find(settings),
                *library.flags,
                "-o",
                target / tool.binaries[0].name,
            ]
            argv += [f for f in sources(tool) if f.suffix == ".c"]
            environment = dict(settings.environment)
        case GoModule() as module:
            if sdk is None:
                raise AssertionError(f"{tool.title}: no Go was prepared")
            work = staging / "work"
            work.mkdir()
            environment = _go_environment(settings, sdk, work) | dict(go_caches)
            if settings.clear_go_cache:
                environment["GOFLAGS"] += " -modcacherw"  # so that they can be removed
            argv = [
                sdk.program,
                "build",
                "-v",
                "-trimpath",
                "-buildvcs=false",
                "-mod=readonly",
                f"-tags={module.tags}",
            ]
            if module.embedded:
                argv.append(f"-overlay={_overlay(tool, module, sdk, environment, work, log)}")
            if module.changed:
                changed = _with_changes(tool, module.changed, sdk, environment, work, log)
                argv.append(f"-modfile={changed}")
            # -o is a file for one package, and a directory for several.
            one = len(tool.binaries) == 1
            argv += [
                f"-ldflags={module.ldflags}",
                "-o",
                target / tool.binaries[0].name if one else f"{target}{os.sep}",
            ]
            argv += [b.package for b in tool.binaries]
    began = time.monotonic()
    code = commands.run(
        argv,
        environment=environment,
        directory=tool.source.directory,
        log=log,
        progress=lambda session: step.update(_state(session, log)),
        every_s=settings.progress_s,
    )
    if code != 0:
        raise _failure(tool, code, time.monotonic() - began, log, settings, go_caches)
    if missing := [b.name for b in tool.binaries if not (target / b.name).is_file()]:
        raise ToolchainError(
            f"{tool.title}: the build succeeded without making {', '.join(missing)}; its "
            f"output: {log}"
        )


def _go_environment(settings: Settings, sdk: Sdk, work: Path) -> dict[str, str]:
    environment = dict(settings.environment)
    # Settings that change what is built do not apply here; GOPROXY, GOPRIVATE and the like do.
    for name in (
        "GOOS",
        "GOARCH",
        "GOAMD64",
        "GOARM64",
        "GOEXPERIMENT",
        "GOFIPS140",
        "GO111MODULE",
        "GODEBUG",
    ):
        environment.pop(name, None)
    if sdk.from_wheel:
        environment.pop("GOROOT", None)
    environment |= {
        "GOFLAGS": "-buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "1",
        "GOTMPDIR": str(work),  # in staging, so that a killed build leaves nothing in /tmp
    }
    return environment


def _overlay(
    tool: Tool,
    module: GoModule,
    sdk: Sdk,
    environment: Mapping[str, str],
    work: Path,
    log: Path,
) -> Path:
    """What `go build` takes for the files that are embedded. Raises ToolchainError."""
    replaced = {
        str(module.directory / name): str(
            _downloaded(tool, path, module.directory, sdk, environment, log) / inner
        )
        for name, (path, inner) in module.embedded.items()
    }
    overlay = work / "overlay.json"
    overlay.write_text(json.dumps({"Replace": replaced}))
    return overlay


def _with_changes(
    tool: Tool,
    changed: Module,
    sdk: Sdk,
    environment: Mapping[str, str],
    work: Path,
    log: Path,
) -> Path:
    """A go.mod by which a copy of the module is built. Raises ToolchainError.

    Go refuses to overlay what is in its module cache. The module was verified by go.sum when it was
    downloaded.
    """
    own = tool.source.directory
    copy = work / "changed"
    found = _downloaded(tool, changed.path, own, sdk, environment, log)
    shutil.copytree(found, copy, ignore=shutil.ignore_patterns("*_test.go"))
    for directory in (copy, *(d for d in copy.rglob("*") if d.is_dir())):
        directory.chmod(0o755)  # those of the cache are read-only
    for name, before, after in changed.changes:
        file = copy / name
        text = file.read_text()
        if text.count(before) != 1:
            raise ToolchainError(
                f"{tool.title}: {changed.path} {name} has {before!r} {text.count(before)} times, "
                "where it is to be changed; see the table of tools"
            )
        file.chmod(0o644)
        file.write_text(text.replace(before, after))
    go_mod = work / "go.mod"
    shutil.copy(own / "go.mod", go_mod)
    # Not by writing a line: the module may be replaced already, by another version.
    subprocess.run(
        [sdk.program, "mod", "edit", f"-replace={changed.path}={copy}", go_mod],
        env=environment,
        check=True,
    )
    shutil.copy(own / "go.sum", work / "go.sum")
    return go_mod


def _downloaded(
    tool: Tool, path: str, directory: Path, sdk: Sdk, environment: Mapping[str, str], log: Path
) -> Path:
    """Where a module of `directory`'s go.mod is in Go's cache. Raises ToolchainError."""
    asked = subprocess.run(
        [sdk.program, "mod", "download", "-json", path],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        log.write_text(asked.stdout + asked.stderr)
        raise ToolchainError(f"{tool.title}: Go module {path} cannot be downloaded: see {log}")
    return Path(json.loads(asked.stdout)["Dir"])


def _state(session: int, log: Path) -> str:
    """What a builder is doing, from its processes and its output."""
    # `go build` prints nothing while it links, which takes a minute or more for large programs.
    running = commands.names(session)
    if "link" in running and "compile" not in running:
        return LINKING
    lines = log.read_text(errors="replace").splitlines()
    compiled = sum(not line.startswith("go: ") for line in lines)
    if compiled:
        return f"compiling, {compiled} packages so far"
    fetched = sum(line.startswith("go: downloading ") for line in lines)
    return f"downloading modules, {fetched} so far" if fetched else "starting"


def _failure(
    tool: Tool,
    code: int,
    seconds: float,
    log: Path,
    settings: Settings,
    go_caches: Mapping[str, str],
) -> ToolchainError:
    output = [line for line in commands.tail(log, 400) if not line.startswith("go: downloading")]
    text = "\n".join(output)
    shown = "".join(f"\n    {line[:300]}" for line in output[-12:])
    log_end = f"\n  end of {log}:{shown}" if shown else ""
    # The log may be on the full disk too, and so lack the reason.
    if disk.says_full(text) or space.is_used_up(settings.cache, go_caches):
        reason = space.full((tool,), settings.cache, go_caches)
        return MissingPrerequisite(f"{tool.title} cannot be built: {reason}{log_end}")
    hint, kind = next(
        ((hint, kind) for pattern, hint, kind in _HINTS if re.search(pattern, text)),
        ("the whole output is in the log", ToolchainError),
    )
    return kind(
        f"{tool.title} could not be built (exit code {code} after {seconds:.0f} s): {hint}{log_end}"
    )

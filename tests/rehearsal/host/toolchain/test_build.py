from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import cache as caching
from slicewright.rehearsal.host.toolchain import disk, go_sdk, reporting
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.tools import Binary, CLibrary, GoModule, Module

# Another process of the same user that obtains the same tool. Prints its report; exits like the
# command.
OTHER = """
    import sys
    from pathlib import Path
    from slicewright.rehearsal.host.toolchain.acquisition import obtain
    from slicewright.rehearsal.host.toolchain.errors import ToolchainError
    from slicewright.rehearsal.host.toolchain.settings import Settings
    from slicewright.rehearsal.host.toolchain.tools import Binary, GoModule, Tool
    root = Path(sys.argv[1])
    tool = Tool(name="tool", version="1.2.3", expected_s=1,
        source=GoModule(directory=root / "source"),
                binaries=(Binary(field="tool", name="tool", package="example.test/tool",
                    ask=("--version",)),))
    settings = Settings(cache=root / "cache", environment={"PATH": f"{root}/bin:/usr/bin:/bin",
        "HOME": str(root)},
                        download=False, progress_s=0.2)
    try:
        (found,) = obtain((tool,), settings, lambda line: print(line, flush=True))
        print("fresh" if found.fresh else "cached", found.paths["tool"], flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.fixture
def other(bench: Any) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts such a process. None of them, and no builder of theirs, outlives the test."""
    running: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", textwrap.dedent(OTHER), str(bench.root)]
        running.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    with suppress(OSError):
        builder = int((bench.bin / "started").read_text())
        if str(bench.root) in Path(f"/proc/{builder}/cmdline").read_text():
            os.killpg(builder, signal.SIGKILL)


def wait_for(what: Callable[[], Any], seconds: float = 180) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if got := what():
            return got
        time.sleep(0.01)
    raise AssertionError("did not happen in time")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(bench: Any) -> int:
    """Process number of the builder, once it has written half of the program."""
    wait_for((bench.bin / "started").exists)
    return int((bench.bin / "started").read_text())


def test_a_build_is_reported_with_reason_estimate_duration_and_directory(bench: Any) -> None:
    (found,) = bench.get()
    assert (found.origin, found.fresh) == ("built", True)
    assert subprocess.check_output([found.paths["tool"]], text=True) == "tool v1.2.3\n"
    assert bench.lines[0] == (
        "tool v1.2.3: tool is not on PATH; it has no official release with a digest; building it, "
        "about 1 s on 2 cores"
    )
    assert len(bench.lines) == 2
    assert re.search(
        rf"built in \d+ s, 0\.0 MB -> {re.escape(str(found.paths['tool'].parent))}", bench.said()
    )


def test_a_log_says_how_many_packages_a_long_build_has_compiled(
    bench: Any, write_script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting.LogReporter.__init__, "__kwdefaults__", {"every_s": 0.3})
    go = (bench.bin / "go").read_text()
    write_script(
        bench.bin / "go",
        go.replace(
            "printf '#!/", "echo 'go: downloading x v1'; echo pkg/a; sleep 0.5\nprintf '#!/", 1
        ),
    )
    bench.get()
    lines = [line for line in bench.lines if "compiling" in line]
    assert lines
    for line in lines:  # more than one where the machine is slow
        assert re.fullmatch(r"tool v1\.2\.3: \d+ s .*, compiling, 1 packages so far", line)


def test_linking_is_reported_at_once(bench: Any) -> None:
    (bench.bin / "links").touch()
    bench.get()
    assert len([line for line in bench.lines if line.endswith("linking")]) == 1


def test_a_built_tool_is_found_again_without_starting_any_process(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = bench.get()
    bench.lines.clear()
    monkeypatch.setattr(
        go_sdk, "series", lambda *_: "1.26"
    )  # the fake go is a script, which is asked every time
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    (again,) = bench.get()
    assert (again.paths, again.fresh, bench.builds(), bench.lines) == (first.paths, False, 1, [])


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "main.go", "sub/other.go", "bridge.c"])
def test_a_changed_source_is_built_again(bench: Any, file: str) -> None:
    (before,) = bench.get()
    (bench.source / file).parent.mkdir(exist_ok=True)
    (bench.source / file).write_text("changed\n")
    (after,) = bench.get()
    assert (after.fresh, bench.builds()) == (True, 2)
    assert before.paths["tool"].exists(), "an environment that is still there may run it"


def test_changed_flags_are_built_again_and_changed_tests_are_not(bench: Any) -> None:
    bench.get()
    (bench.source / "main_test.go").write_text("package main\n")
    bench.get()
    assert bench.builds() == 1
    bench.get(bench.tool(source=GoModule(directory=bench.source, ldflags="-s")))
    assert bench.builds() == 2


def test_another_go_series_builds_again_and_another_patch_does_not(
    bench: Any, write_script: Any
) -> None:
    go = (bench.bin / "go").read_text()
    bench.get()
    write_script(bench.bin / "go", go.replace("go1.26.8", "go1.26.9"))
    bench.get()
    assert bench.builds() == 1
    write_script(bench.bin / "go", go.replace("go1.26.8", "go1.27.1"))
    bench.get()
    assert bench.builds() == 2


def test_a_damaged_entry_is_replaced(bench: Any) -> None:
    (found,) = bench.get()
    found.paths["tool"].write_text("#!/bin/sh\n")
    (again,) = bench.get()
    assert (again.fresh, again.paths) == (True, found.paths)
    assert subprocess.check_output([again.paths["tool"]], text=True) == "tool v1.2.3\n"
    assert bench.staged() == []


def test_entries_unused_for_a_month_are_deleted(bench: Any) -> None:
    (old,) = bench.get()
    directory = old.paths["tool"].parent.parent
    long_ago = time.time() - 31 * 24 * 3600
    os.utime(directory, (long_ago, long_ago))
    (bench.source / "go.sum").write_text("changed\n")
    (new,) = bench.get()
    assert (directory.exists(), new.paths["tool"].exists()) == (False, True)


def test_a_killed_build_leaves_no_tool_and_no_process_and_the_next_run_cleans_up(
    bench: Any, other: Any
) -> None:
    (bench.bin / "slow").touch()
    victim = other()
    builder = started(bench)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    wait_for(lambda: not alive(builder))
    assert bench.entries() == []
    assert len(bench.staged()) == 1
    (bench.bin / "slow").unlink()
    (found,) = bench.get()
    assert (found.fresh, bench.staged()) == (True, [])


def test_any_later_run_cleans_up_after_a_killed_one(bench: Any, other: Any) -> None:
    (bench.bin / "slow").touch()
    victim = other()
    started(bench)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    (bench.bin / "slow").unlink()
    bench.get(bench.tool("another"))
    assert bench.staged() == []


def test_an_interrupted_build_leaves_nothing(bench: Any, other: Any) -> None:
    (bench.bin / "slow").touch()
    run = other()
    builder = started(bench)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=180)
    assert run.returncode == 130
    assert (alive(builder), bench.entries(), bench.staged()) == (False, [], [])


def test_two_runs_at_once_build_once(bench: Any, write_script: Any, other: Any) -> None:
    go = (bench.bin / "go").read_text()
    hold = 'while [ ! -e "$here/go-on" ]; do sleep 0.02; done'
    write_script(bench.bin / "go", go.replace("sleep 60", hold))
    (bench.bin / "slow").touch()
    first = other()
    started(bench)
    second = other()
    assert second.stdout is not None
    overdue = threading.Timer(180, second.kill)  # ends the reading below
    overdue.start()
    waiting = next(
        (line for line in iter(second.stdout.readline, "") if "waiting" in line), "it did not wait"
    )
    overdue.cancel()
    assert f"tool: waiting for another run, process {first.pid}, which is obtaining it" in waiting
    (bench.bin / "go-on").touch()
    assert "fresh" in first.communicate(timeout=180)[0]
    assert "cached" in second.communicate(timeout=180)[0]
    assert bench.builds() == 1


def test_build_of_another_run_is_not_deleted(bench: Any, other: Any) -> None:
    (bench.bin / "slow").touch()
    run = other()
    started(bench)
    caching.Cache(bench.settings.cache).sweep()
    assert len(bench.staged()) == 1
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=180)


def test_a_failing_build_shows_the_end_of_its_output_once(bench: Any) -> None:
    (bench.bin / "fail").write_text("main.go:3: undefined: x\n")
    with pytest.raises(ToolchainError) as raised:
        bench.get()
    message = str(raised.value)
    assert re.match(r"tool v1\.2\.3 could not be built \(exit code 1 after \d+ s\)", message)
    assert "    main.go:3: undefined: x" in message
    assert "downloading" not in message
    assert (raised.value.exit_code, bench.entries(), bench.staged()) == (1, [], [])


@pytest.mark.parametrize(
    ("output", "hint", "exit_code"),
    [
        ("write /x: no space left on device", "cannot be built: the disk is full: /", 3),
        (
            "Get https://proxy.golang.org/: dial tcp: lookup proxy.golang.org: no such host",
            "module proxy cannot be reached",
            1,
        ),
        ("verifying x@v1: checksum mismatch\nSECURITY ERROR", "does not match go.sum", 1),
        ("compile: signal: killed", "the kernel killed a compiler", 1),
    ],
)
def test_the_usual_reasons_for_a_failing_build_are_named(
    bench: Any, output: str, hint: str, exit_code: int
) -> None:
    (bench.bin / "fail").write_text(output + "\n")
    with pytest.raises(ToolchainError, match=hint) as raised:
        bench.get()
    assert raised.value.exit_code == exit_code


def test_a_build_that_makes_another_version_is_refused(bench: Any) -> None:
    (bench.source / "VERSION").write_text("1.2.2")
    with pytest.raises(ToolchainError, match=r"tool reports version 'tool v1\.2\.2'"):
        bench.get()
    assert bench.entries() == []


def test_a_full_disk_is_named_with_what_is_needed(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/cache/x")

    monkeypatch.setattr(caching.Cache, "publish", full)
    monkeypatch.setattr(disk, "free", lambda _: 3_000_000)
    with pytest.raises(MissingPrerequisite) as raised:
        bench.get(bench.tool(expected_s=2))
    assert str(raised.value).startswith(
        f"the disk is full: {bench.settings.cache} has 3 MB free, building tool needs 2 MB; delete"
    )
    assert raised.value.exit_code == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a tmpfs")
    yield directory
    subprocess.run(["umount", directory], check=True)


def test_a_build_that_fills_a_real_disk_is_a_missing_prerequisite(
    bench: Any, small_disk: Path, write_script: Any
) -> None:
    go = (bench.bin / "go").read_text()
    big = 'dd if=/dev/zero of="$target" bs=1M count=2 || exit 1\n'
    write_script(bench.bin / "go", go.replace("printf '#!/", f"{big}printf '#!/", 1))
    with pytest.raises(MissingPrerequisite, match=rf"cannot be built: .* {small_disk}/cache has"):
        bench.get(settings=replace(bench.settings, cache=small_disk / "cache"))


def test_a_tool_that_does_not_fit_a_real_disk_is_a_missing_prerequisite(
    bench: Any, small_disk: Path
) -> None:
    filler = small_disk / "filler"
    with suppress(OSError):
        filler.write_bytes(bytes(1 << 20))
    with pytest.raises(MissingPrerequisite, match=f"disk is full: {small_disk}/cache has 0 MB"):
        bench.get(
            bench.tool(expected_s=0), settings=replace(bench.settings, cache=small_disk / "cache")
        )


def test_too_little_space_is_an_error_before_anything_is_built(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free", lambda _: 5_000_000_000)
    go_caches = {"GOCACHE": str(tmp_path / "go-build"), "GOMODCACHE": str(tmp_path / "modules")}
    settings = replace(bench.settings, environment={**bench.settings.environment, **go_caches})
    with pytest.raises(MissingPrerequisite) as raised:
        bench.get(bench.tool(expected_s=1000), settings=settings)
    assert str(raised.value) == (
        f"{tmp_path / 'go-build'} has 5.0 GB free, building tool needs 8.4 GB; delete files there, "
        "or set XDG_CACHE_HOME (the tools), GOCACHE and GOMODCACHE (what Go keeps) to directories "
        "on a larger disk"
    )
    assert (raised.value.exit_code, bench.builds()) == (3, 0)


def test_modules_in_gos_cache_need_no_more_space(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free", lambda _: 100_000_000)
    monkeypatch.setattr(disk, "used", lambda _, *, up_to: up_to)
    go_caches = {"GOCACHE": str(tmp_path / "go-build"), "GOMODCACHE": str(tmp_path / "modules")}
    settings = replace(bench.settings, environment={**bench.settings.environment, **go_caches})
    bench.get(bench.tool(expected_s=100), settings=settings)
    assert bench.builds() == 1


def test_a_cache_that_is_not_writable_is_an_error_with_a_remedy(bench: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ToolchainError, match="set XDG_CACHE_HOME to a writable directory"):
        bench.get(settings=replace(bench.settings, cache=tmp_path / "file" / "cache"))


def test_without_a_c_compiler_nothing_is_started(bench: Any, tmp_path: Path) -> None:
    settings = replace(bench.settings, environment={"PATH": str(bench.bin), "HOME": str(tmp_path)})
    with pytest.raises(
        MissingPrerequisite, match="neither cc, gcc nor clang is on PATH; install one"
    ):
        bench.get(settings=settings)
    with pytest.raises(MissingPrerequisite, match="CC=/no/such/cc does not exist"):
        bench.get(
            settings=replace(settings, environment={**settings.environment, "CC": "/no/such/cc"})
        )
    assert bench.builds() == 0


def test_a_missing_source_is_an_incomplete_checkout(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no-such does not exist; this checkout is incomplete"):
        bench.get(bench.tool(source=GoModule(directory=tmp_path / "no-such")))


def test_a_developers_go_settings_do_not_reach_the_build(bench: Any) -> None:
    environment = {
        **bench.settings.environment,
        "GOFLAGS": "-mod=vendor -race",
        "GOOS": "plan9",
        "GOWORK": "/x/go.work",
    }
    bench.get(settings=replace(bench.settings, environment=environment))
    assert (bench.bin / "calls").read_text() == "-buildvcs=false|local|off||\n"


def test_go_caches_of_its_own_are_gone_after_the_build(bench: Any) -> None:
    bench.get(settings=replace(bench.settings, clear_go_cache=True))
    flags, *_, go_cache = (bench.bin / "calls").read_text().strip().split("|")
    assert flags == "-buildvcs=false -modcacherw"
    assert Path(go_cache).is_relative_to(bench.settings.cache / "staging")
    assert bench.staged() == []


def test_a_c_library_is_built_by_the_c_compiler_and_can_be_loaded(
    bench: Any, tmp_path: Path
) -> None:
    sources = tmp_path / "c"
    sources.mkdir()
    (sources / "one.c").write_text('#include "both.h"\nint seven(void) { return SEVEN; }\n')
    (sources / "two.c").write_text('#include "both.h"\nint eight(void) { return SEVEN + 1; }\n')
    (sources / "both.h").write_text("#define SEVEN 7\n")
    library = bench.tool(
        version="own",
        binaries=(Binary(field="tool", name="libx.so.1"),),
        source=CLibrary(directory=sources, flags=("-shared", "-fPIC")),
    )
    (found,) = bench.get(library)
    assert ctypes.CDLL(str(found.paths["tool"])).eight() == 8
    assert list(found.paths["tool"].parent.iterdir()) == [found.paths["tool"]]
    (sources / "both.h").write_text("#define SEVEN 70\n")
    (again,) = bench.get(library)
    assert again.fresh


@pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")
def test_the_real_go_builds_a_module_with_its_version(bench: Any, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    (module / "go.mod").write_text("module example.test/tool\n\ngo 1.26\n")
    (module / "main.go").write_text(
        'package main\n\nimport "os"\n\nvar v string\n\nfunc main() { os.Stdout.WriteString(v) }\n'
    )
    environment = {**os.environ, "GOFLAGS": "-mod=vendor"}
    binary = Binary(field="tool", name="tool", package=".", ask=("--version",))
    tool = bench.tool(
        binaries=(binary,), source=GoModule(directory=module, ldflags="-s -w -X main.v=v1.2.3")
    )
    (found,) = bench.get(tool, settings=replace(bench.settings, environment=environment))
    assert subprocess.check_output([found.paths["tool"]], text=True) == "v1.2.3"
    assert bench.staged() == []


def module_that_needs(tmp_path: Path, files: dict[str, str]) -> tuple[Path, dict[str, str]]:
    """A directory with a go.mod that requires example.test/dep v1.0.0, which has these files, and
    an environment in which Go finds that.
    """
    module, versions = tmp_path / "module", tmp_path / "proxy" / "example.test" / "dep" / "@v"
    module.mkdir()
    versions.mkdir(parents=True)
    (versions / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (versions / "v1.0.0.mod").write_text("module example.test/dep\n")
    with zipfile.ZipFile(versions / "v1.0.0.zip", "w") as archive:
        for name, text in {"go.mod": "module example.test/dep\n", **files}.items():
            archive.writestr(f"example.test/dep@v1.0.0/{name}", text)
    (module / "go.mod").write_text(
        "module example.test/tool\n\ngo 1.26\n\nrequire example.test/dep v1.0.0\n"
    )
    return module, {
        **os.environ,
        "GOPROXY": (tmp_path / "proxy").as_uri(),
        "GOSUMDB": "off",
        "GOMODCACHE": str(tmp_path / "modules"),
        "GOFLAGS": "-modcacherw",
    }


PRINTS = 'package main\n\nimport (\n\t"os"\n\n\t"example.test/dep"\n)\n\n'
PRINTS += "func main() { os.Stdout.WriteString(dep.Said) }\n"


@pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")
def test_a_module_is_built_with_the_changes_of_the_table_and_stays_as_it_is(
    bench: Any, tmp_path: Path
) -> None:
    files = {"dep.go": 'package dep\n\nconst Said = "as published"\n'}
    module, environment = module_that_needs(tmp_path, files)
    (module / "main.go").write_text(PRINTS)
    subprocess.run(["go", "mod", "tidy"], cwd=module, env=environment, check=True)
    settings = replace(bench.settings, environment=environment)

    def built(*changes: tuple[str, str, str]) -> str:
        changed = Module(path="example.test/dep", changes=changes) if changes else None
        tool = bench.tool(
            binaries=(Binary(field="tool", name="tool", package="."),),
            source=GoModule(directory=module, changed=changed),
        )
        (found,) = bench.get(tool, settings=settings)
        return subprocess.check_output([found.paths["tool"]], text=True)

    assert built(("dep.go", "published", "changed")) == "as changed"
    assert built() == "as published"
    with pytest.raises(ToolchainError, match="has 'nowhere' 0 times, where it is to be changed"):
        built(("dep.go", "nowhere", "changed"))
    replaced = "\nreplace example.test/dep => example.test/dep v1.0.0\n"
    (module / "go.mod").write_text((module / "go.mod").read_text() + replaced)
    assert built(("dep.go", "published", "changed again")) == "as changed again"


@pytest.mark.skipif(shutil.which("go") is None, reason="no go on PATH")
def test_a_file_that_is_embedded_comes_from_the_module_that_has_it(
    bench: Any, tmp_path: Path
) -> None:
    files = {"dep.go": "package dep\n", "cmd/data.txt": "from the module"}
    module, environment = module_that_needs(tmp_path, files)
    (module / "main.go").write_text(
        'package main\n\nimport (\n\t_ "embed"\n\t"os"\n\n\t_ "example.test/dep"\n)\n\n'
        "//go:embed data.txt\nvar v string\n\nfunc main() { os.Stdout.WriteString(v) }\n"
    )
    subprocess.run(["go", "mod", "tidy"], cwd=module, env=environment, check=True)
    tool = bench.tool(
        binaries=(Binary(field="tool", name="tool", package="."),),
        source=GoModule(
            directory=module, embedded={"data.txt": ("example.test/dep", "cmd/data.txt")}
        ),
    )
    (found,) = bench.get(tool, settings=replace(bench.settings, environment=environment))
    assert subprocess.check_output([found.paths["tool"]], text=True) == "from the module"
    assert not (module / "data.txt").exists()

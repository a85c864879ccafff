"""Files that a Go module publishes: checked by its sum, or by the go.sum of a module of ours."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

from slicewright.rehearsal.host.toolchain.go_sdk import Sdk


def files(
    go: tuple[Sdk, dict[str, str]], directory: Path, module: str, *, checksum: str, within: str
) -> list[bytes]:
    """Of `module@version`, those whose path begins with `within`. directory: without a module."""
    sdk, environment = go
    done = subprocess.run(
        # A Go older than the module asks for says so, and downloads it all the same.
        [str(sdk.program), "mod", "download", "-json", module],
        cwd=directory,
        env={**environment, "GOFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout or "{}")
    assert found.get("Sum") == checksum, done.stdout + done.stderr
    with zipfile.ZipFile(found["Zip"]) as archive:
        begins = f"{module}/{within}"
        return [archive.read(name) for name in archive.namelist() if name.startswith(begins)]


def directory(go: tuple[Sdk, dict[str, str]], of: Path, module: str) -> Path:
    """Where a module is that the go.mod in `of` requires; its go.sum is what it is checked by."""
    sdk, environment = go
    done = subprocess.run(
        [str(sdk.program), "mod", "download", "-json", module],
        cwd=of,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(json.loads(done.stdout)["Dir"])

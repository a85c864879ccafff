"""Small tools to obtain, with a fake `go` that does not compile, in a directory per test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain.acquisition import obtain
from slicewright.rehearsal.host.toolchain.found import Found
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import Binary, GoModule, Release, Tool

FAKE_GO = """#!/bin/sh
# A fake Go: "builds" a script that prints the version in the module's file VERSION.
here="$(dirname "$0")"
if [ "$1" = version ]; then echo "go version go1.26.8 linux/amd64"; exit 0; fi
if [ "$1" = env ]; then echo "$GOCACHE"; echo "$GOMODCACHE"; exit 0; fi
echo "$GOFLAGS|$GOTOOLCHAIN|$GOWORK|$GOOS|$GOCACHE" >> "$here/calls"
while [ "$1" != -o ]; do shift; done
target="$2"
case "$target" in */) target="$target/tool" ;; esac
if [ -e "$here/fail" ]; then echo "go: downloading x v1"; cat "$here/fail"; exit 1; fi
printf '#!/bin/sh\\n' > "$target"
if [ -e "$here/links" ]; then cp /bin/sleep "$here/link"; "$here/link" 1; fi
if [ -e "$here/slow" ]; then
  echo $$ > "$here/started.new"; mv "$here/started.new" "$here/started"; sleep 60
fi
printf 'echo tool v%s\\n' "$(cat VERSION)" >> "$target"
chmod +x "$target"
"""


@dataclass
class Bench:
    """One test's tool, settings and reports."""

    root: Path
    settings: Settings
    lines: list[str] = field(default_factory=list)

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def source(self) -> Path:
        return self.root / "source"

    def tool(self, name: str = "tool", *, release: Release | None = None, **changes: Any) -> Tool:
        binary = Binary(field=name, name="tool", package="example.test/tool", ask=("--version",))
        given: dict[str, Any] = {
            "name": name,
            "version": "1.2.3",
            "binaries": (binary,),
            "expected_s": 1,
            "release": release,
        }
        return Tool(**{**given, "source": GoModule(directory=self.source), **changes})

    def get(self, *tools: Tool, settings: Settings | None = None) -> tuple[Found, ...]:
        return obtain(tools or (self.tool(),), settings or self.settings, self.lines.append)

    def builds(self) -> int:
        calls = self.bin / "calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    def entries(self) -> list[str]:
        """The entries that a later run would use."""
        return sorted(p.name for p in self.settings.cache.iterdir() if (p / "stamp.json").exists())

    def staged(self) -> list[Path]:
        return sorted((self.settings.cache / "staging").glob("*"))

    def said(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    for name in ("bin", "source", "home"):
        (tmp_path / name).mkdir()
    script(tmp_path / "bin" / "go", FAKE_GO)
    (tmp_path / "source" / "go.mod").write_text("module example.test/tool\n")
    (tmp_path / "source" / "main.go").write_text("package main\n")
    (tmp_path / "source" / "VERSION").write_text("1.2.3")
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    return Bench(
        tmp_path,
        Settings(
            cache=tmp_path / "cache",
            environment=environment,
            progress_s=0.2,
            stall_s=2,
            download=False,
        ),
    )


def script(path: Path, text: str) -> Path:
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.chmod(0o755)
    return beside.replace(path)


@pytest.fixture
def write_script() -> Callable[[Path, str], Path]:
    return script

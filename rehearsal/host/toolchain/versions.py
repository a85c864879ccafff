"""The versions of programs, as they report them; cached while their files do not change."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TIMEOUT_S = 20.0


def parse(text: str) -> tuple[int, int, int] | None:
    """The first version number in `text`, such as `go version go1.26.8 linux/amd64`."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def serves(found: tuple[int, int, int], wanted: tuple[int, int, int]) -> bool:
    """Whether `found` has the wanted major and minor version, and its patch or a later one."""
    return found[:2] == wanted[:2] and found[2] >= wanted[2]


class Answers:
    """The versions that programs have reported, cached in one file.

    A program is asked again when its file, or the file's size or time, changes. A script, or a link
    to a program of another name, is asked every time: version managers (asdf, mise, pyenv) answer
    differently by directory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = {}
        try:
            read = json.loads(path.read_text())
            if isinstance(read, dict):
                self._known = {k: v for k, v in read.items() if isinstance(v, dict)}
        except (OSError, ValueError):
            pass  # without the cache, each program is asked once

    def ask(self, program: Path, arguments: Sequence[str]) -> str | None:
        """What `program` prints (stdout and stderr) with `arguments`; None if it fails or hangs."""
        state = _state(program)
        key = " ".join([str(program), *arguments])
        if (
            state is not None
            and (known := self._known.get(key)) is not None
            and known.get("state") == state
        ):
            answer = known.get("answer")
            return answer if isinstance(answer, str) else None
        answer = run(program, arguments)
        if state is not None and answer is not None:
            self._known[key] = {"state": state, "answer": answer}
            self._keep()
        return answer

    def _keep(self) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(self._known, indent=1))
            beside.replace(self._path)
        except OSError:
            beside.unlink(missing_ok=True)  # it works without the cache


def _state(program: Path) -> list[Any] | None:
    """What must not change for a cached answer to be valid; None if it must not be cached."""
    try:
        real = program.resolve(strict=True)
        status = real.stat()
        with real.open("rb") as file:
            script = file.read(2) == b"#!"
    except OSError:
        return None
    if script or program.name not in real.name:
        return None
    return [str(real), status.st_ino, status.st_size, status.st_mtime_ns]


def run(program: Path, arguments: Sequence[str]) -> str | None:
    """What `program` prints now; None if it fails, cannot be run, or takes more than 20 s."""
    # PULUMI_SKIP_UPDATE_CHECK: `pulumi version` would look for a newer one on the internet.
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true", "GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace")[:2000] if done.returncode == 0 else None

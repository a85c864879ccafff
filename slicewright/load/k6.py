"""k6: where it is, and one run of it with a script of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slicewright.load.asked import Load, as_json

SCRIPTS: Final = Path(__file__).parent / "scripts"
_INSTALL: Final = "https://grafana.com/docs/k6/latest/set-up/install-k6/"
_PROGRESS: Final = re.compile(r"^running \((?P<time>[^)]*)\), (?P<rest>.*)$")
"""Once a second, where k6 writes to no terminal."""
_RUN_ENDED_EARLY: Final = 105
"""k6's exit code after SIGINT. Source: grafana/k6, errext/exitcodes."""
_SCRIPT_EXCEPTION: Final = 107
"""Its setup failed: no request was sent."""
_WORDS: Final = re.compile(r' (?P<key>error|msg)="(?P<text>(?:[^"\\]|\\.)*)"')
"""Of a line of its log."""


class NoK6(Exception):
    """There is none, or it does not run; the message says what to do."""


class K6Failed(Exception):
    """It sent no request; the message has its own last words."""


@dataclass(frozen=True)
class Ran:
    summary: Mapping[str, Any]
    interrupted: bool
    """By Ctrl-C: the summary is of what was done by then."""
    complaints: tuple[str, ...]
    """Why requests failed, each once."""


def found(named: str | None) -> Path:
    """The program of that name or path, by default k6 of PATH. Raises NoK6."""
    program = shutil.which(named or "k6")
    if program is None:
        what = f"--k6 {named}: there is no such program" if named else "k6 is not on PATH"
        raise NoK6(f"{what}. It makes the load: install it ({_INSTALL}), or name it with --k6")
    return Path(program)


def script(load: Load) -> Path:
    return SCRIPTS / f"{load.api}.js"


def run(program: Path, load: Load, progress: Callable[[str], None]) -> Ran:
    """progress: called about once a second with how far it is. Raises NoK6, K6Failed."""
    with tempfile.TemporaryDirectory(prefix="slicewright-load-") as made:
        # Of this user only, as the directory is: it has the key.
        asked, summary = Path(made) / "load.json", Path(made) / "summary.json"
        asked.write_text(as_json(load), encoding="utf-8")
        code, said = _run(program, load, asked, summary, progress)
        try:
            read = json.loads(summary.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            read = None
    complaints = tuple(dict.fromkeys(said))
    if read is None or code == _SCRIPT_EXCEPTION:
        last = "\n".join(complaints[-5:]) or f"exit code {code}"
        raise K6Failed(f"k6 could not begin: {last}")
    return Ran(read, interrupted=code == _RUN_ENDED_EARLY, complaints=complaints)


def _run(
    program: Path, load: Load, asked: Path, summary: Path, progress: Callable[[str], None]
) -> tuple[int, list[str]]:
    command = [str(program), "run", "--no-usage-report", "--no-color", str(script(load))]
    environment = {
        # Not K6_…: variables of the user's own would change the run.
        **{name: value for name, value in os.environ.items() if not name.startswith("K6_")},
        "SLICEWRIGHT_LOAD": str(asked),
        "SLICEWRIGHT_SUMMARY": str(summary),
    }
    said: list[str] = []
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # Ctrl-C reaches it once, from here: a second one would end it without a summary.
            start_new_session=True,
        )
    except OSError as e:
        raise NoK6(f"{program}: {e.strerror}") from None
    with process:
        try:
            _follow(process, said, progress)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            _follow(process, said, progress)
        except BaseException:
            process.kill()
            raise
        return process.wait(), said


def _follow(
    process: subprocess.Popen[str], said: list[str], progress: Callable[[str], None]
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        matched = _PROGRESS.match(line)
        if matched is not None:
            progress(f"{matched['time'].strip()}: {matched['rest'].strip()}")
        elif "level=error" in line or "level=warning" in line:
            said.append(_words(line.strip()))


def _words(line: str) -> str:
    """What an entry of k6's log says: its error, which names more than its message, or that."""
    quoted = {match["key"]: match["text"] for match in _WORDS.finditer(line)}
    text = quoted.get("error") or quoted.get("msg") or line
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text

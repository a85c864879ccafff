"""What happens before vLLM serves: the model is found or downloaded, loaded, and warmed up.

vLLM listens only after that, so that probes find no server meanwhile.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from slicewright.rehearsal.cluster.model_server.flags import Flags

_DOWNLOAD_S: Final = 1.0
_LOAD_S: Final = 0.5
_WARM_UP_S: Final = 0.5
"""Minutes in reality. Chosen so that they differ, not measured."""
_AGAIN_S: Final = 0.2
_MARK: Final = "simulated.json"


@dataclass(frozen=True)
class Phase:
    """One line of the log, and how long what it announces takes."""

    text: str
    """Empty: the one before goes on."""
    seconds: float


def phases(flags: Flags, hugging_face_home: Path) -> Iterator[Phase]:
    """In order. A model that is not in the cache is there once its phase is over.

    Raises OSError where the cache cannot be written, and FileNotFoundError where the model is a
    directory that is not there.
    """
    if flags.model.startswith("/"):
        if not Path(flags.model).is_dir():
            raise FileNotFoundError(f"{flags.model} is not a directory with a model")
    else:
        hub = Path(flags.download_dir) if flags.download_dir else hugging_face_home / "hub"
        yield from _fetched(flags.model, hub)
    yield Phase(f"simulated: Starting to load model {flags.model}...", _LOAD_S)
    yield Phase("simulated: Capturing the model for CUDA graphs.", _WARM_UP_S)


def _fetched(model: str, hub: Path) -> Iterator[Phase]:
    """As the Hub's client: of several servers with one cache, one downloads at a time, and the
    others then find the model. Its lock goes with a process that is killed. Source:
    huggingface_hub, src/huggingface_hub/file_download.py.
    """
    folder = f"models--{model.replace('/', '--')}"
    mark = hub / folder / _MARK
    locks = hub / ".locks" / folder
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / "download.lock").open("w") as lock:
        text = f"simulated: another server downloads {model} to {hub}"
        while not _locked(lock):
            yield Phase(text, _AGAIN_S)
            text = ""
        downloaded = mark.exists()
        if not downloaded:
            yield Phase(f"simulated: downloading {model} to {hub}", _DOWNLOAD_S)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.write_text(json.dumps({"simulated": "no weights were downloaded"}))
    if downloaded:
        yield Phase(f"simulated: {model} is in the cache {hub}", 0.0)


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""What happens before vLLM serves: the model is found or downloaded, loaded, and warmed up.

vLLM listens only after that, so that probes find no server meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rehearsal.cluster.model_server.flags import Flags

_DOWNLOAD_S: Final = 1.0
_LOAD_S: Final = 0.5
_WARM_UP_S: Final = 0.5
"""Minutes in reality. Chosen to be told apart, not measured."""
_MARK: Final = "simulated.json"


@dataclass(frozen=True)
class Phase:
    """One line of the log, and how long what it announces takes."""

    text: str
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
        there = hub / f"models--{flags.model.replace('/', '--')}"
        if (there / _MARK).exists():
            yield Phase(f"simulated: {flags.model} is in the cache {hub}", 0.0)
        else:
            yield Phase(f"simulated: downloading {flags.model} to {hub}", _DOWNLOAD_S)
            there.mkdir(parents=True, exist_ok=True)
            (there / _MARK).write_text(json.dumps({"simulated": "no weights were downloaded"}))
    yield Phase(f"simulated: Starting to load model {flags.model}...", _LOAD_S)
    yield Phase("simulated: Capturing the model for CUDA graphs.", _WARM_UP_S)

"""The shared memory of the agent's containers on this node: the times and causes of their ends.

It is a small file on a volume of the pod (an emptyDir), which outlives a container.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slicewright.telemetry import log

DIRECTORY: Final = Path("/run/slicewright")
"""The mount path of the volume in the pod."""
_FILE: Final = "restarts.json"
_MOST_ENDS, _MOST_SIGNS = 16, 64
_MOST_TIMES: Final = 64
_LARGEST: Final = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Past:
    """The intended ends of the agent in a boot of the node, in all containers of its pod."""

    boot_id: str = ""
    ends: tuple[float, ...] = ()
    """Times in seconds on the machine's monotonic clock, oldest first."""
    in_vain: tuple[tuple[str, int], ...] = ()
    """Digest of the signs -> number of ends since a container last saw enough."""

    def times_in_vain(self, digest: str) -> int:
        return dict(self.in_vain).get(digest, 0)

    def add_end(self, digest: str, at: float) -> Past:
        times = {**dict(self.in_vain), digest: self.times_in_vain(digest) + 1}
        return replace(
            self,
            ends=(*self.ends, at)[-_MOST_ENDS:],
            in_vain=tuple(times.items())[-_MOST_SIGNS:],
        )


class RestartMemory:
    """Stores a `Past`. Without a directory, as in an old pod, it lasts only for the process."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self._path = directory / _FILE
        self._past: Past | None = None

    def past_of(self, boot_id: str, now: float) -> Past:
        """The past of this boot, empty after a reboot. now: on the machine's monotonic clock."""
        past = self._past or self._load()
        if past.boot_id != boot_id or any(end > now for end in past.ends):
            # The clock restarts with each boot, before the Node shows its new boot id.
            past = Past(boot_id=boot_id)
        self._past = past
        return past

    def save(self, past: Past) -> None:
        """Saves the past. Never raises: without the file, the next container starts without it."""
        if past == self._past:
            return
        self._past = past
        if not self._path.parent.is_dir():
            return
        new = self._path.with_suffix(".new")
        try:
            new.write_text(json.dumps(vars(past)), encoding="utf-8")
            new.replace(self._path)
        except OSError as e:
            log.warning("restarts not recorded", file=str(self._path), error=str(e))

    def _load(self) -> Past:
        try:
            with self._path.open(encoding="utf-8") as file:
                text = file.read(_LARGEST + 1)
            if len(text) > _LARGEST:
                raise ValueError(f"longer than {_LARGEST} characters")
            raw = json.loads(text)
            return Past(
                boot_id=str(raw["boot_id"]),
                ends=tuple(_finite(end) for end in raw["ends"])[-_MOST_ENDS:],
                in_vain=tuple((str(digest), _limit(times)) for digest, times in raw["in_vain"])[
                    -_MOST_SIGNS:
                ],
            )
        except FileNotFoundError:
            return Past()
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as e:
            log.warning("restarts not read", file=str(self._path), error=f"{type(e).__name__}: {e}")
            return Past()


def _finite(value: Any) -> float:
    """A finite number. Raises ValueError, TypeError or OverflowError."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a time is not finite")
    return number


def _limit(value: Any) -> int:
    """A limited number of ends in vain, because it is the exponent of a pause."""
    return max(0, min(int(value), _MOST_TIMES))

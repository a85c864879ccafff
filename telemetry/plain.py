"""Text without characters that a terminal or a log would obey instead of showing.

Names, errors and log lines come from drivers, kernels and other people's objects. An escape
sequence in one of them could rewrite a terminal's lines, a newline could forge a log line, and a
bidirectional override could make text read as something else (CVE-2021-42574).
"""

from __future__ import annotations

import io
from typing import TextIO, cast


def plain(text: str) -> str:
    """The text, with every character that is not printable as an escape: `\\x1b`, `\\u202e`, `\\n`.

    Not printable is what Unicode calls Other or Separator, but the space: control characters (C0,
    DEL, C1), bidirectional overrides and other formats, surrogates, line separators.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def shortened(text: str, longest: int) -> str:
    """At most so many characters of the text, as `plain` shows them; `…` stands for the rest."""
    shown = plain(text[: longest + 1])
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def plain_lines(text: str) -> str:
    """The same for text of several lines."""
    return "\n".join(map(plain, text.split("\n")))


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def plain_stream(stream: TextIO) -> TextIO:
    """A stream that writes `plain_lines` to another one."""
    return cast("TextIO", _PlainStream(stream))


class _PlainStream(io.TextIOBase):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def write(self, text: str) -> int:
        self._stream.write(plain_lines(text))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

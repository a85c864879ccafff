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

    Unicode's categories Other and Separator, except the space, are not printable: control
    characters (C0, DEL, C1), bidirectional overrides and other formats, surrogates, and
    line separators.
    """
    return text if text.isprintable() else "".join(map(_escape, text))


def shortened(text: str, longest: int) -> str:
    """The text as `plain` shows it, in at most `longest` characters. `…` replaces the rest."""
    escaped = plain(text[: longest + 1])
    return escaped if len(escaped) <= longest else f"{escaped[: longest - 1]}…"


def plain_lines(text: str) -> str:
    """The text of several lines, each as `plain` shows it."""
    return "\n".join(map(plain, text.split("\n")))


def _escape(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def plain_stream(stream: TextIO) -> TextIO:
    """A stream that writes `plain_lines` of its text to `stream`."""
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

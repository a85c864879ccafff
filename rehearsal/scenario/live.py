"""Lines that are printed as things happen, wrapped between words on a terminal."""

from __future__ import annotations

import textwrap
import time
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text


@dataclass(frozen=True)
class LiveLines:
    """Writes to `console`; in a file or a pipe a line stays one line, so that grep finds it."""

    console: Console

    def say(self, text: str) -> None:
        """What the rehearsal itself does, with the time of day."""
        self._write(f"{time.strftime('%H:%M:%S')} ", "cyan", " " * 9, text)

    def of_pulumi(self, text: str) -> None:
        """A line of the engine's output."""
        self._write("pulumi │ ", "dim", "pulumi │ ", text)

    def to_copy(self, text: str) -> None:
        """For the shell: never wrapped, so that it can be copied."""
        self.console.print(Text(text), soft_wrap=True)

    def _write(self, first: str, style: str, later: str, text: str) -> None:
        for n, part in enumerate(self._wrapped(text, len(first))):
            self.console.print(Text.assemble((later if n else first, style), part), soft_wrap=True)

    def _wrapped(self, text: str, taken: int) -> list[str]:
        if not self.console.is_terminal:
            return [text]
        indent = " " * (len(text) - len(text.lstrip(" ")))
        return textwrap.wrap(
            text.strip(" "),
            max(self.console.width - taken, 20),
            initial_indent=indent,
            subsequent_indent=f"{indent}    ",
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]

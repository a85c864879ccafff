"""Which lines of `pulumi` are worth showing live."""

from __future__ import annotations

import re

# Pulumi prints a line when a step begins and another when it has ended; the second one, errors and
# warnings are enough.
_NOISE = re.compile(
    # A pool has no conditions in its first second; the environment is deleted with its stack. An
    # engine that has a language host of its own warns of the rehearsal's.
    r"from \$PATH at|Has no \.status\.conditions$|pulumi stack rm|history and "
    r"configuration associated|"
    r"^@ |^ +[-+~ ]+ +\S+ \S+ "
    r"(creating|updating|deleting|reading|refreshing|running)\b(?!.*(error|warning))"
)
_WARNINGS_COUNTED = re.compile(r" \d+ warnings?$")
"""Of the stack; it counts warnings that are not shown."""
_SECTION = "Diagnostics:"
_RESOURCE = re.compile(r"^  \S.*:$")


class OutputFilter:
    """Filters one command's output line by line; a heading is shown only with a line under it."""

    def __init__(self) -> None:
        self._headings: list[str] = []
        """Of the section, then of the resource; not shown yet."""
        self._in_diagnostics = False

    def of(self, line: str) -> list[str]:
        """What to show now: nothing, the line, or the line after its pending headings."""
        line = _WARNINGS_COUNTED.sub("", line)
        if not line.strip() or _NOISE.search(line):
            return []
        if line == _SECTION:
            self._in_diagnostics, self._headings = True, [line]
            return []
        if not line.startswith(" "):
            self._in_diagnostics, self._headings = False, []
            return [line]
        if self._in_diagnostics and _RESOURCE.match(line):
            self._headings = [*(h for h in self._headings if h == _SECTION), line]
            return []
        shown, self._headings = [*self._headings, line], []
        return shown

"""Which lines of `pulumi` a person who watches wants to see."""

from __future__ import annotations

import re

# Pulumi prints a line when a step begins and another when it has ended; the second one, errors and
# warnings are enough. And it warns of every plugin that it finds on PATH, where all of the
# rehearsal's are.
_NOISE = re.compile(
    # A pool has no conditions in its first second; the environment is deleted with its stack.
    r"from \$PATH at|Has no \.status\.conditions$|pulumi stack rm|history and "
    r"configuration associated|"
    r"^@ |^ +[-+~ ]+ +\S+ \S+ "
    r"(creating|updating|deleting|reading|refreshing|running)\b(?!.*(error|warning))"
)
_COUNTED = re.compile(r" \d+ warnings?$")
"""Of the stack: nearly all of them are those of plugins on PATH, which are not shown."""
_SECTION = "Diagnostics:"
_RESOURCE = re.compile(r"^  \S.*:$")


class Shown:
    """Of one command's output, line by line, what is worth showing: no noise, and no heading under
    which nothing is left.
    """

    def __init__(self) -> None:
        self._headings: list[str] = []
        """Of the section, then of the resource; not shown yet."""
        self._inside = False

    def of(self, line: str) -> list[str]:
        """What to show now that this line has come: nothing, the line, or the headings that it was
        waited for with.
        """
        line = _COUNTED.sub("", line)
        if not line.strip() or _NOISE.search(line):
            return []
        if line == _SECTION:
            self._inside, self._headings = True, [line]
            return []
        if not line.startswith(" "):
            self._inside, self._headings = False, []
            return [line]
        if self._inside and _RESOURCE.match(line):
            self._headings = [*(h for h in self._headings if h == _SECTION), line]
            return []
        shown, self._headings = [*self._headings, line], []
        return shown

"""Which flag an argument of a server is, in every form that the server's own parser takes."""

from __future__ import annotations

from collections.abc import Iterable


def meant(argument: str, flags: Iterable[str]) -> str | None:
    """The flag of `flags` that the argument sets, or begins. None: none of them.

    `--flag=value` and `--flag` with the value behind it count, and every beginning of a flag:
    argparse and getopt_long complete it if it is unambiguous. Sources: Python docs, argparse,
    allow_abbrev; GNU C library manual, parsing long options.
    """
    written = argument.partition("=")[0]
    if not written.startswith("-") or not written.strip("-"):
        return None
    candidates = [flag for flag in flags if flag.startswith(written)]
    return written if written in candidates else next(iter(candidates), None)

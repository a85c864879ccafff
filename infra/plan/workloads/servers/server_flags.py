"""Which flag an argument of a server is, in every form that the server's own parser takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A flag among a workload's `extra_args`."""

    index: int
    flag: str
    """The text that the user wrote: `--load-model`, or the beginning of a flag."""
    value: str
    """The text after '=', else the next argument. Empty for a flag without a value."""


def flags_of(arguments: Sequence[str]) -> Iterator[Argument]:
    """The flags, each with its value. Arguments without a leading '-' are values."""
    for index, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if not flag.startswith("-") or _is_number(argument):
            continue
        if not equals and index + 1 < len(arguments) and not arguments[index + 1].startswith("-"):
            value = arguments[index + 1]
        yield Argument(index=index, flag=flag, value=value)


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


def unknown_flags(arguments: Sequence[str], flag_catalog: Collection[str]) -> list[str]:
    """Flags that are not in the catalog, and begin no flag of it."""
    return [
        argument.flag
        for argument in flags_of(arguments)
        if not any(_is_meant(flag, normal_form(argument.flag)) for flag in flag_catalog)
    ]


def _is_meant(flag: str, written: str) -> bool:
    """True for a beginning of the flag, and for a short flag with its value attached: `-O3`."""
    is_short = len(flag) == 2
    return flag.startswith(written) or (is_short and written.startswith(flag))


def normal_form(flag: str) -> str:
    """`--no_enable_x.key` -> `--enable-x`, as vLLM's parser reads it.

    Source: vLLM, utils/argparse_utils.py: FlexibleArgumentParser.
    """
    flag = flag.partition(".")[0].replace("_", "-")
    return f"--{flag.removeprefix('--no-')}" if flag.startswith("--no-") else flag


def _is_number(argument: str) -> bool:
    """True for a negative number, which is a value."""
    return argument[1:].replace(".", "", 1).isdigit()


@rule("server-flag")
def check_form(arguments: Sequence[str], path: stack_file.Path, *, server: str) -> Checked[None]:
    """Refuses arguments that are no flags. server: the program's name in the message."""
    if arguments and not arguments[0].startswith("-"):
        yield refuse(
            (*path, 0),
            f"{arguments[0]} is no flag: {server} takes no other arguments",
            "write flags, each with its value behind it",
        )
    for j, argument in enumerate(arguments):
        if argument == "--":
            yield refuse((*path, j), "-- ends the flags", "leave it out")

"""`slicewright completion`: prints a script that makes a shell complete commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console

from slicewright.commands import whole_parser
from slicewright.exit_codes import VERIFIED

SHELLS: Final = ("bash", "zsh", "fish")

_BASH_AND_ZSH: Final = r"""
_slicewright_stack_names() {
  local directory=$PWD stacks=stacks file
  while [ -n "$directory" ] && [ ! -f "$directory/Pulumi.yaml" ]; do directory=${directory%/*}; done
  if [ -f "$directory/Pulumi.yaml" ]; then
    stacks=$(command sed -n \
      "s/^stackConfigDir:[[:space:]]*['\"]\{0,1\}\([^'\"#]*[^'\"#[:space:]]\).*/\1/p" \
      "$directory/Pulumi.yaml")
    stacks=${stacks:-.}
  else
    directory=$PWD
  fi
  case $stacks in /*) ;; *) stacks=$directory/$stacks ;; esac
  command find "$stacks" -maxdepth 1 -name 'Pulumi.?*.yaml' 2>/dev/null |
    while IFS= read -r file; do
      file=${file##*/Pulumi.}
      printf '%s\n' "${file%.yaml}"
    done
}
"""
"""Finds the stacks where `-s` does: in the project around the current directory."""
_BASH: Final = """\
_slicewright_stacks() {
  local IFS=$'\\n'
  compgen -W "$(_slicewright_stack_names)" -- "$1"
}
"""
_ZSH: Final = """\
_slicewright_stacks() {
  local -a names
  names=("${(@f)$(_slicewright_stack_names)}")
  compadd -a names
}
"""
_FISH: Final = r"""
function _slicewright_stacks
  set -l directory $PWD
  set -l stacks stacks
  while test -n "$directory"; and not test -f "$directory/Pulumi.yaml"
    set directory (string replace -r '/[^/]*$' '' -- $directory)
  end
  if test -f "$directory/Pulumi.yaml"
    set stacks (string replace -rf '^stackConfigDir:\s*["\']?([^"\'#]*[^"\'#\s]).*$' '$1' \
      < "$directory/Pulumi.yaml")
    test -n "$stacks"; or set stacks .
  else
    set directory $PWD
  end
  string match -q '/*' -- $stacks; or set stacks $directory/$stacks
  for file in $stacks/Pulumi.?*.yaml
    string replace -r '^.*/Pulumi\.(.+)\.yaml$' '$1' -- $file
  end
end
"""
_STACKS: Final = {
    "bash": "_slicewright_stacks",
    "zsh": "_slicewright_stacks",
    "fish": "(_slicewright_stacks)",
    "preamble": {"bash": _BASH_AND_ZSH + _BASH, "zsh": _BASH_AND_ZSH + _ZSH, "fish": _FISH},
}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "completion",
        description="Prints a script for bash, zsh or fish. With it, the shell completes commands, "
        "options, files, and the names of stacks after -s (docs/reference/completion.md).",
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    # Imported here: reading the options of this command needs no generator of scripts.
    import shtab

    parser = whole_parser()
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):
            # Shells show a description on one line, which is too short for the whole one.
            for choice in action._choices_actions:
                action.choices[choice.dest].description = choice.help
        if completed := _completed(action):
            action.complete = completed  # type: ignore[attr-defined]
    print(shtab.complete(parser, parsed.shell))
    return VERIFIED


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the options and arguments of all commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)


def _completed(action: argparse.Action) -> dict[str, Any] | None:
    """Returns what completes the action's value: stacks or files, by the name in its help."""
    import shtab

    if "--stack" in action.option_strings or action.metavar == ("A", "B"):
        return _STACKS
    if action.metavar in ("FILE", "PREVIEW"):
        return shtab.FILE
    if action.metavar == "DIR" or "--directory" in action.option_strings:
        return shtab.DIRECTORY
    return None

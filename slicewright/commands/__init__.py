"""The subcommands of `slicewright`: each is a module that adds its parser, and runs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from slicewright.apis.version import VERSION

COMMANDS: Final[Mapping[str, str]] = {
    "init": "write a project directory of your own, with a first fleet",
    "check": "validate stack files and report every problem in them",
    "plan": "show a stack file's partitions, allocatable resources and cost, or a change",
    "optimise": "plan the least fleet that serves the demand of a stack file, with a proof",
    "schema": "print the JSON schema of stack files, for editors",
    "preview-report": "report a `pulumi preview` as Markdown for a pull request; fail if it ends "
    "pods or deletes data without an acknowledgement in the stack file",
    "deployed": "the commit and the stack file of the last `pulumi up` that succeeded",
    "rights": "the rights that a stack needs: an AWS policy, or a Google custom role",
    "doctor": "check that the cloud account, or the existing cluster, would accept a stack",
    "status": "show the pools of a cluster: slices, progress, blockers and next steps",
    "rollout": "show the progress of a pool's layout change; pause, resume, abort or undo it",
    "load": "load-test a workload's servers: throughput and latency, replica by replica",
    "drift": "compare the declared stack with the state, the cloud, the GPUs and the operator",
    "import-file": "write a file for `pulumi import --file` that adopts existing node pools",
    "unlock": "remove the lock of a killed `pulumi`, if that process has provably ended",
    "recover": "adopt the resources that a killed `pulumi up` was creating",
    "destroy": "destroy a stack in order, and verify that nothing of it is left",
    "rehearse": "run the real engine and a real API server here; clouds and GPUs are simulated",
    "completion": "print a script that makes a shell complete commands, options and stacks",
}
"""Command -> its line in the help, in this order. Each is a module here or in `state`, with _ for
-.

The help shows these lines without importing the modules: that would take seven times as long.
"""


_OF_STATE: Final = frozenset({"deployed", "import-file", "recover", "unlock"})


def parser_of(command: str | None) -> argparse.ArgumentParser:
    """Returns a parser with the options of one command.

    None: a parser that knows the names of all commands only, for the help and for errors.
    """
    parser, commands = _program()
    if command is not None:
        _add(command, commands)
    else:
        for name, summary in COMMANDS.items():
            commands.add_parser(name, help=summary)
    return parser


def whole_parser() -> argparse.ArgumentParser:
    """Returns a parser with the options of every command, whose modules it imports."""
    parser, commands = _program()
    for name in COMMANDS:
        _add(name, commands)
    return parser


def module_of(command: str) -> Any:
    """Returns the module of a command, imported."""
    room = "slicewright.commands.state" if command in _OF_STATE else "slicewright.commands"
    return import_module(f"{room}.{command.replace('-', '_')}")


def _program() -> tuple[argparse.ArgumentParser, Any]:
    parser = argparse.ArgumentParser(
        prog="slicewright",
        description="Fleets of partitioned GPUs on GKE and EKS, verified on every node.",
        epilog="`slicewright COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    return parser, parser.add_subparsers(dest="command", metavar="COMMAND")


def _add(command: str, commands: Any) -> None:
    module_of(command).add_parser(_Summarised(commands))


class _Summarised:
    """Subparsers whose commands have their line of the help from COMMANDS."""

    def __init__(self, commands: Any) -> None:
        self._commands = commands

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = self._commands.add_parser(
            name, **{"help": COMMANDS[name], **options}
        )
        return parser

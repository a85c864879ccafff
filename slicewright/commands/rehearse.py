"""`slicewright rehearse`: its actions, their options, and their exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import slicewright
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.options.ranges import whole

if TYPE_CHECKING:
    from slicewright.rehearsal.scenario.selection import Selection

_EVERY = "an environment; may be given more than once (default: all in the directory)"
_SINGLE = "the environment (default: from the shell's exports, else the only running one)"
_DEFAULT_STACKS = ("gke-h100", "eks-a100")
_LATER = "wrong-layout"
_MOST_GPUS = 16
"""The most GPUs of a machine in the catalog."""
_FAULTS = {
    "xid": "a double-bit memory error, Xid 48, after which the driver asks for a reset of the GPU",
    "lost-gpu": "the GPU falls off the bus",
    "repartition": "the GPU is partitioned into --profile instances without the partitioner",
    "fabric": "Fabric Manager ends while it sets up the NVLink fabric of eight whole GPUs",
    "compute-mode": "a whole GPU is left in exclusive process mode, as by an MPS daemon",
    "reboot": "the node reboots",
    "spot-preemption": "the cloud takes the machine away and gives the pool another",
}
"""Faults of a running node. The help page does not load the rehearsal's table."""


@dataclass(frozen=True)
class _Action:
    help: str
    description: str
    stack: str
    """Help of --stack."""
    run: Callable[[argparse.Namespace, Selection, Console], int]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda _: None


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "rehearse",
        description="Brings stacks up on this machine, verifies every partition, and destroys "
        "them again. The Pulumi engine and the Kubernetes API server are real; clouds, nodes and "
        "GPUs are simulated. Works for any stack file in stacks/: `slicewright rehearse --stack "
        "NAME` for stacks/Pulumi.NAME.yaml (docs/how-to/rehearse-your-own-stack.md).",
        epilog="Default action: run. `slicewright rehearse ACTION --help` explains an action.",
    )
    # Options of an action may also stand before it, or without one.
    _add_common(parser, _ACTIONS["run"].stack)
    _add_keep(parser, False)
    _add_force(parser, False, hidden=True)
    _add_fault(parser, hidden=True)
    parser.set_defaults(run=_run, action="run", more_stacks=None)
    actions = parser.add_subparsers(dest="action", title="actions", metavar="[ACTION]")
    for name, action in _ACTIONS.items():
        subparser = actions.add_parser(
            name,
            help=action.help,
            description=action.description,
            # An option that is absent here keeps the value from before the action.
            argument_default=argparse.SUPPRESS,
        )
        _add_common(subparser, action.stack, stack="more_stacks", directory=argparse.SUPPRESS)
        action.add_options(subparser)


def _add_common(
    parser: argparse.ArgumentParser,
    help_of_stack: str,
    *,
    stack: str = "stack",
    directory: Any = None,
) -> None:
    parser.add_argument("--stack", dest=stack, action="append", metavar="NAME", help=help_of_stack)
    parser.add_argument(
        "--directory",
        type=Path,
        default=directory,
        help="directory of the environments (default: from the shell's exports, else .rehearsal)",
    )


def _add_keep(parser: argparse.ArgumentParser, default: Any = argparse.SUPPRESS) -> None:
    parser.add_argument(
        "--keep",
        action="store_true",
        default=default,
        help="leave the environment running, even if `up` failed, and print its exports",
    )


def _add_force(
    parser: argparse.ArgumentParser, default: Any = argparse.SUPPRESS, *, hidden: bool = False
) -> None:
    text = "end the processes and delete the directory without `pulumi destroy`"
    parser.add_argument(
        "--force",
        action="store_true",
        default=default,
        help=argparse.SUPPRESS if hidden else text,
    )


def _add_fault(parser: argparse.ArgumentParser, *, hidden: bool = False) -> None:
    for name, kind, default, text in (
        ("--pool", str, "", "for wrong-layout: the pool; optional if the stack has a single pool"),
        (
            "--node",
            str,
            "",
            "the node's name; for wrong-layout the index of the node in the pool, in order of "
            "creation, from 0 (default: 0)",
        ),
        ("--gpu", whole(0, _MOST_GPUS - 1), 0, "index of the GPU in the node, from 0 (default: 0)"),
        (
            "--profile",
            str,
            "1g.10gb",
            "for wrong-layout and repartition: the MIG profile of the GPU (default: 1g.10gb)",
        ),
    ):
        parser.add_argument(
            name,
            type=kind,
            default=default if hidden else argparse.SUPPRESS,
            help=argparse.SUPPRESS if hidden else text,
        )
    parser.add_argument(
        "--fault",
        choices=(_LATER, *_FAULTS),
        default=_LATER if hidden else argparse.SUPPRESS,
        help=argparse.SUPPRESS
        if hidden
        else "for a node that is created later: wrong-layout (the default); for the running node "
        "--node: " + "; ".join(f"{name}: {text}" for name, text in _FAULTS.items()),
    )


def _run(parsed: argparse.Namespace, console: Console) -> int:
    if not _is_clone():
        print(
            "slicewright rehearse: the rehearsal runs in a clone of slicewright, and this is an "
            "installed package; clone slicewright, copy the stack file into its stacks/, and run "
            "`make rehearse STACK=NAME` there (docs/how-to/rehearse-your-own-stack.md)",
            file=sys.stderr,
        )
        return CANNOT_RUN
    return _run_in_clone(parsed, console)


def _is_clone() -> bool:
    """True if the command's own files are those of a clone, with the program that is rehearsed."""
    root = Path(slicewright.__file__).resolve().parents[1]
    return (root / "Pulumi.yaml").is_file() and (root / "infra").is_dir()


def _run_in_clone(parsed: argparse.Namespace, console: Console) -> int:
    # Imported here: `check` and `plan` must not pay for, or depend on, the rehearsal's libraries.
    from slicewright.infra import stack_file
    from slicewright.kubeapi import ApiError, Unreachable
    from slicewright.rehearsal.cluster import control_plane
    from slicewright.rehearsal.host import processes, toolchain
    from slicewright.rehearsal.scenario.errors import RehearsalError, WrongUse
    from slicewright.rehearsal.scenario.selection import Selection

    selection = Selection.of(parsed.directory, [*(parsed.stack or ()), *(parsed.more_stacks or ())])
    try:
        return _ACTIONS[parsed.action or "run"].run(parsed, selection, console)
    except (stack_file.SpecError, WrongUse) as e:
        code, message = BAD_INPUT, str(e)
    except OSError as e:
        code, message = CANNOT_RUN, f"{e.filename or selection.directory}: {e.strerror}"
    except (
        RehearsalError,
        toolchain.ToolchainError,
        control_plane.ControlPlaneError,
        processes.ProcessError,
        ApiError,
        Unreachable,
    ) as e:
        code, message = CANNOT_RUN, str(e)
    # Not on stdout, which `eval "$(slicewright rehearse env)"` evaluates.
    print(f"slicewright rehearse: {message}", file=sys.stderr)
    return code


def _bring_up(parsed: argparse.Namespace, selection: Selection, console: Console) -> int:
    from slicewright.rehearsal.scenario.rehearse import Rehearsal

    proven = Rehearsal(selection.directory, console).run(
        selection.named or _DEFAULT_STACKS, keep=parsed.keep
    )
    return VERIFIED if proven else NOT_VERIFIED


def _env(parsed: argparse.Namespace, selection: Selection, console: Console) -> int:
    environment = selection.one()
    environment.require_running()
    print(environment.exports())
    return VERIFIED


def _break(parsed: argparse.Namespace, selection: Selection, console: Console) -> int:
    from slicewright.rehearsal.scenario import broken_nodes, faults
    from slicewright.rehearsal.scenario.errors import NoSuchFault

    if parsed.fault != _LATER:
        broken = broken_nodes.Broken(
            fault=parsed.fault, node=parsed.node, gpu=parsed.gpu, profile=parsed.profile
        )
        record_event = broken_nodes.inject(selection.one(), broken)
        console.print(f"node {broken.node}: {record_event}", highlight=False)
        return VERIFIED
    environment = selection.one()
    environment.require_running()
    if not (parsed.node or "0").isdecimal():
        raise NoSuchFault(
            f"--node {parsed.node}: {_LATER} takes the index of a node that is created later, "
            f"from 0; for a running node add --fault {', '.join(_FAULTS)}"
        )
    fault = faults.WrongLayout(
        pool=parsed.pool, node=int(parsed.node or 0), gpu=parsed.gpu, profile=parsed.profile
    )
    fault = faults.inject_resolved(environment, fault)
    console.print(
        f"node {fault.node} of {fault.pool}, once it is created: GPU {fault.gpu} gets "
        f"{fault.profile} instances",
        highlight=False,
    )
    return VERIFIED


def _repair(parsed: argparse.Namespace, selection: Selection, console: Console) -> int:
    from slicewright.rehearsal.scenario import broken_nodes, faults

    environment = selection.one()
    environment.require_running()
    partitioned = faults.repair(environment)
    rebooted = broken_nodes.repair(environment)
    done = (("partitioned again", partitioned), ("GPUs fixed and node rebooted", rebooted))
    for action, names in done:
        if names:
            console.print(f"{action}: {', '.join(names)}", highlight=False)
    if not partitioned and not rebooted:
        console.print("no node had a fault", highlight=False)
    return VERIFIED


def _stop(parsed: argparse.Namespace, selection: Selection, console: Console) -> int:
    from slicewright.rehearsal.scenario.environment import stop

    for environment in selection.every():
        ended = stop(environment)
        console.print(
            f"{environment.stack}: ended {', '.join(ended) or 'nothing: nothing was running'}",
            highlight=False,
        )
    return VERIFIED


def _destroy(parsed: argparse.Namespace, selection: Selection, console: Console) -> int:
    from slicewright.rehearsal.scenario.rehearse import Rehearsal

    destroyed = Rehearsal(selection.directory, console).destroy(
        selection.every(), force=parsed.force
    )
    return VERIFIED if destroyed else NOT_VERIFIED


_ACTIONS = {
    "run": _Action(
        help="bring stacks up, verify every node, and destroy them (the default)",
        description="Runs `pulumi preview`, `up` and `destroy` for each stack in a separate "
        "environment, and verifies in between that every node has the partitions of its stack "
        "file.",
        stack="stacks/Pulumi.NAME.yaml; may be repeated (default: gke-h100 and eks-a100)",
        run=_bring_up,
        add_options=_add_keep,
    ),
    "env": _Action(
        help="print shell exports for a running environment",
        description='Prints exports for a running environment: eval "$(slicewright rehearse '
        'env)". Afterwards plain pulumi, kubectl and slicewright work on that environment.',
        stack=_SINGLE,
        run=_env,
    ),
    "break": _Action(
        help="break a running node, or a node that is created later",
        description="With --fault and --node, breaks a running node. Without --fault, gives one "
        "GPU of a node that the simulated cloud creates from now on the wrong partitions; edit "
        "the environment's stack file first, because it decides which nodes are created.",
        stack=_SINGLE,
        run=_break,
        add_options=_add_fault,
    ),
    "repair": _Action(
        help="remove all faults, and fix the nodes that had one",
        description="Removes all faults, partitions again the nodes that were created with wrong "
        "partitions, and fixes and reboots nodes whose GPUs were broken while they ran.",
        stack=_SINGLE,
        run=_repair,
    ),
    "stop": _Action(
        help="end the processes; the files stay",
        description="Ends the environments' processes without `pulumi destroy`. The files stay, "
        "so that you can read the logs; `destroy` or the next run removes them.",
        stack=_EVERY,
        run=_stop,
    ),
    "destroy": _Action(
        help="destroy environments that --keep left running",
        description="Runs `pulumi destroy`, shows that the simulated cloud is empty, and deletes "
        "the environment.",
        stack=_EVERY,
        run=_destroy,
        add_options=_add_force,
    ),
}

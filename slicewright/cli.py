"""`slicewright`: the commands, their arguments, and their exit codes.

0 done and proven · 1 done, but something was not proven · 2 wrong use or bad input · 3 this host
cannot run it · 130 interrupted · 141 nobody reads the output. docs/reference/exit-codes.md has
them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from infra import plan, spec
from node_agent import VERSION

PROVEN, NOT_PROVEN, BAD_INPUT, CANNOT_RUN, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 3, 130, 141


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if sys.stdout is None:
        print(
            "slicewright: stdout is closed: nobody could read the answer; open it, or send "
            "it to /dev/null",
            file=sys.stderr,
        )
        return CANNOT_RUN
    try:
        try:
            return _run(arguments)
        finally:
            # Not left to the end of the process, where Python answers what goes wrong with a code
            # of its own.
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return CLOSED_PIPE
    except OSError as e:
        # Commands answer for the files that they read and make; what is left is the output, which
        # has no name.
        _drop_output()
        print(
            f"slicewright: {e.filename or 'the output cannot be written'}: {e.strerror}",
            file=sys.stderr,
        )
        return CANNOT_RUN


def _run(arguments: list[str] | None) -> int:
    parsed = _parser().parse_args(arguments)
    # Where there is no terminal (CI, a file) nothing says how wide a line may be; eighty columns
    # would fold every table.
    console = _Console() if sys.stdout.isatty() else _Console(width=140)
    try:
        code: int = parsed.run(parsed, console)
    except KeyboardInterrupt:
        console.print("interrupted", style="yellow")
        return INTERRUPTED
    return code


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """The reader had enough (`| head`). rich would end the process with 1, which says that
        something was not proven.
        """
        self.quiet = True  # what is cleaned up on the way out may still want to tell
        _drop_output()
        raise SystemExit(CLOSED_PIPE)


def _drop_output() -> None:
    """Python would complain once more when it closes stdout with something left in it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check(parsed: argparse.Namespace, console: Console) -> int:
    from slicewright import shown

    failed = False
    for path in parsed.files:
        try:
            fleet = plan.read_file(path)
        except spec.SpecError as e:
            failed = True
            console.print(str(e), markup=False, highlight=False, soft_wrap=True)
        else:
            console.print(
                f"{path}: ok, {len(fleet.pools)} pool(s)",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            shown.show_notes(fleet, console)
    return BAD_INPUT if failed else PROVEN


def _plan(parsed: argparse.Namespace, console: Console) -> int:
    from slicewright import plan_json, shown

    named = [*(parsed.diff or ()), *parsed.files, *([parsed.stack] if parsed.stack else [])]
    if len(named) != (2 if parsed.diff else 1):
        return _wrong_use("name one stack (-s s0) or one FILE; or two with --diff A B")
    fleets = []
    for name in named:
        fleet = _read_plan(name, console)
        if fleet is None:
            return BAD_INPUT
        fleets.append(fleet)
    if parsed.diff:
        change = plan.compare(*fleets)
        if parsed.json:
            print(json.dumps(plan_json.change_json(change), indent=2))
        else:
            shown.show_changes(change, console)
    elif parsed.json:
        print(json.dumps(plan_json.as_json(fleets[0]), indent=2))
    else:
        shown.show_plan(Path(named[0]).name, fleets[0], console)
    return PROVEN


def _read_plan(name: str, console: Console) -> plan.FleetPlan | None:
    """The plan of a stack or of a stack file; None after its problems have been shown."""
    file = Path(name)
    if not file.suffix and len(file.parts) == 1 and not _exists(file):
        file = _stacks() / f"Pulumi.{name}.yaml"
    try:
        return plan.read_file(file, name=_short(file))
    except spec.SpecError as e:
        print(e, file=sys.stderr)
        return None


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # too long, or out of reach: reading it says which
        return True


def _stacks() -> Path:
    """`stacks/` of the project that the current directory is in."""
    here = Path.cwd()
    project = next((at for at in (here, *here.parents) if (at / "Pulumi.yaml").is_file()), here)
    return project / "stacks"


def _short(file: Path) -> str:
    try:
        return str(file.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def _wrong_use(why: str) -> int:
    print(f"slicewright plan: {why}", file=sys.stderr)
    return BAD_INPUT


def _rehearse(parsed: argparse.Namespace, console: Console) -> int:
    # Imported here: `slicewright check` must not pay for, or depend on, the rehearsal's libraries.
    from rehearsal.cluster import control_plane
    from rehearsal.host import processes, toolchain
    from rehearsal.scenario import environment, faults, rehearse

    # Ended politely (a CI job that is cancelled), it cleans up as for Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job = rehearse.Rehearsal(parsed.directory, console)
    stacks = tuple(
        parsed.stack
        or sorted(p.name for p in parsed.directory.glob("*") if (p / "processes").is_dir())
    )
    try:
        match parsed.action:
            case "run":
                return (
                    PROVEN
                    if job.run(tuple(parsed.stack or ("s0", "s1")), keep=parsed.keep)
                    else NOT_PROVEN
                )
            case "destroy":
                return PROVEN if job.destroy(stacks, force=parsed.force) else NOT_PROVEN
            case "stop":
                for stack in stacks:
                    ended = environment.stop(job.at(stack))
                    console.print(
                        f"{stack}: ended {', '.join(ended) or 'nothing: nothing was running'}",
                        highlight=False,
                    )
                return PROVEN
            case "env":
                at = job.at(_one(stacks))
                _ = at.toolchain  # refuses a directory that is no environment
                print(at.exports())
                return PROVEN
            case "break":
                at = job.at(_one(stacks))
                fault = faults.WrongLayout(
                    pool=parsed.pool, node=parsed.node, gpu=parsed.gpu, profile=parsed.profile
                )
                _ = at.toolchain
                fault = faults.aimed(fault, plan.read_file(at.stack_file(_one(stacks))))
                faults.inject(at, fault)
                console.print(
                    f"node {fault.node} of {fault.pool}, when it is made: GPU {fault.gpu} "
                    f"is cut into {fault.profile}",
                    highlight=False,
                )
                return PROVEN
            case _:
                at = job.at(_one(stacks))
                _ = at.toolchain
                console.print(
                    f"cut anew: {', '.join(faults.repair(at)) or 'no node had a fault'}",
                    highlight=False,
                )
                return PROVEN
    except spec.SpecError as e:
        console.print(str(e), markup=False, highlight=False, soft_wrap=True)
        return BAD_INPUT
    except (rehearse.NoSuchStack, faults.NoSuchFault) as e:
        console.print(f"slicewright rehearse: {e}", markup=False, highlight=False, soft_wrap=True)
        return BAD_INPUT
    except OSError as e:
        console.print(
            f"slicewright rehearse: {e.filename or parsed.directory}: {e.strerror}",
            markup=False,
            highlight=False,
        )
        return CANNOT_RUN
    except (
        environment.RehearsalError,
        toolchain.ToolchainError,
        control_plane.ControlPlaneError,
        processes.ProcessError,
    ) as e:
        console.print(f"slicewright rehearse: {e}", markup=False, highlight=False, soft_wrap=True)
        return CANNOT_RUN


def _one(stacks: Sequence[str]) -> str:
    """The stack that is named, or the only one that is there."""
    if len(stacks) != 1:
        there = f"there are {', '.join(stacks)}" if stacks else "none was left running by --keep"
        print(
            f"slicewright rehearse: name one stack, for example --stack s0; {there}",
            file=sys.stderr,
        )
        raise SystemExit(BAD_INPUT)
    return stacks[0]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slicewright", description="Fleets of partitioned GPUs, proven on the silicon."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check", help="read stack files and name everything that is wrong in them"
    )
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    check.set_defaults(run=_check)
    planned = commands.add_parser(
        "plan", help="what a stack file makes: partitions, allocatable, cost; or what would change"
    )
    planned.add_argument("files", nargs="*", metavar="FILE", help="a stack file")
    planned.add_argument("-s", "--stack", help="a stack of stacks/")
    planned.add_argument(
        "--json", action="store_true", help="for machines (docs/reference/plan-json.md)"
    )
    planned.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="two stacks or files: what would change, and how",
    )
    planned.set_defaults(run=_plan)
    rehearse = commands.add_parser(
        "rehearse",
        help="the real engine and a real API server on this machine; clouds and GPUs simulated",
    )
    rehearse.add_argument(
        "action",
        nargs="?",
        default="run",
        choices=("run", "destroy", "stop", "env", "break", "repair"),
        help="run (default): stack file to proven fleet and back · destroy: what --keep left · "
        "stop: end its processes · "
        "env: shell exports · break: one GPU of a node made later is cut wrongly · repair: "
        "take the faults away",
    )
    rehearse.add_argument(
        "--stack",
        action="append",
        help="a stack of stacks/; may be given more than once (default: s0 s1)",
    )
    rehearse.add_argument("--keep", action="store_true", help="leave the environment running")
    rehearse.add_argument(
        "--force", action="store_true", help="destroy: end and delete without asking Pulumi"
    )
    rehearse.add_argument(
        "--directory",
        type=Path,
        default=Path(".rehearsal"),
        help="where environments lie (default: .rehearsal)",
    )
    fault = rehearse.add_argument_group("break")
    fault.add_argument("--pool", default="", help="may be left out where the stack has one")
    fault.add_argument("--node", type=int, default=0, help="which node of the pool, from 0")
    fault.add_argument("--gpu", type=int, default=0)
    fault.add_argument(
        "--profile", default="1g.10gb", help="the profile that the GPU is cut with instead"
    )
    rehearse.set_defaults(run=_rehearse)
    return parser


if __name__ == "__main__":
    sys.exit(main())

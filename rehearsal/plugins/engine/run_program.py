"""Runs one Pulumi program: the child of the language host, in the project's own Python.

Started by path, and imports only `pulumi`: the project's environment may not have the rehearsal.
Exit status: 0 succeeded; 32 failed, and the reason is already in the engine's log; 1 failed. A
RunError is a 1 although its reason is logged, as in the official pulumi-language-python-exec
v3.259.0: there too the engine adds a line with the exit code.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPORTED = 32


def main(argv: Sequence[str]) -> int:
    """The exit status; what the program raises goes to the engine's log."""
    # The engine interrupts the whole process group when it stops; a KeyboardInterrupt traceback
    # would look like a fault of the program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # This file's own directory must not hide the project's modules.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    options = _parse(argv)
    try:
        import pulumi
        import pulumi.runtime
    except ImportError as e:
        print(
            f"{sys.executable} cannot import the Pulumi SDK ({e}); install the project's "
            "dependencies into that environment",
            file=sys.stderr,
        )
        return REPORTED

    pulumi.runtime.set_all_config(
        pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env()
    )
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=options.project,
            stack=options.stack,
            monitor=options.monitor,
            engine=options.engine,
            parallel=options.parallel,
            dry_run=options.dry_run == "true",
            organization=options.organization,
            root_directory=options.root_directory,
        )
    )
    sys.argv = [options.program, *options.arguments]
    os.chdir(options.pwd)

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    # A failed resource leaves futures that are never awaited; asyncio's warnings about them would
    # only hide the reason.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    status = 1
    with ThreadPoolExecutor(max_workers=4 * max(options.parallel, 1)) as executor:
        loop.set_default_executor(executor)
        try:
            loop.run_until_complete(pulumi.runtime.run_in_stack(lambda: _run(options.program)))
            status = 0
        except pulumi.RunError as e:
            pulumi.log.error(str(e))
        except Exception:  # noqa: BLE001 - every error of the program is shown to the user
            pulumi.log.error(
                "Program failed with an unhandled exception:\n" + _traceback_from(options.program)
            )
            status = REPORTED
    loop.close()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _run(program: str) -> None:
    path = Path(program)
    if path.is_dir() and not (path / "__main__.py").exists():
        import pulumi

        raise pulumi.RunError(
            f"{path} is not a Pulumi program: it has no __main__.py; set `main` in Pulumi.yaml to "
            "the program's directory"
        )
    runpy.run_path(program, run_name="__main__")


def _traceback_from(program: str) -> str:
    """The current traceback, from the program's own first frame on."""
    main_file = Path(program) / "__main__.py" if Path(program).is_dir() else Path(program)
    frames = traceback.extract_tb(sys.exc_info()[2])
    for index, frame in enumerate(frames):
        if Path(frame.filename).resolve() == main_file.resolve():
            return traceback.format_exc(limit=index - len(frames))
    return traceback.format_exc()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Run one Pulumi program; started by the language host."
    )
    for name in (
        "project",
        "stack",
        "dry_run",
        "monitor",
        "engine",
        "pwd",
        "organization",
        "root_directory",
    ):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--parallel", type=int, required=True)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs="*")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The layout or the desired state that a command line names, read from its file."""

from __future__ import annotations

import argparse
import errno
from pathlib import Path

from slicewright.apis import desired_state
from slicewright.apis.desired_state import Desired
from slicewright.apis.layout import Layout, parse
from slicewright.node_agent.commands.exit_codes import WrongUse


def read_layout(options: argparse.Namespace) -> Layout:
    """Returns the layout of LAYOUT or --file. Raises WrongUse and LayoutError."""
    if bool(options.layout) == bool(options.file):
        raise WrongUse(
            f"{options.command}: give either LAYOUT (for example 2:3g.20gb@0,3g.20gb@4) or "
            "--file FILE"
        )
    if options.layout:
        return parse(options.layout)
    return parse([_read_text("--file", options.file)], source=str(options.file))


def read_desired(path: Path) -> Desired:
    """Returns the desired state of --desired. Raises WrongUse and DesiredError."""
    return desired_state.parse(_read_text("--desired", path), source=str(path))


def _read_text(option: str, path: Path) -> str:
    """Returns the text of a user's file. Raises WrongUse, also for a file that is too large."""
    try:
        with path.open("rb") as file:
            text = file.read(desired_state.LARGEST + 1)
        if len(text) > desired_state.LARGEST:
            raise OSError(errno.EFBIG, f"is larger than {desired_state.LARGEST} bytes")
        return text.decode()
    except OSError as e:
        raise WrongUse(f"{option} {path}: {e.strerror or e}") from None
    except UnicodeDecodeError as e:
        raise WrongUse(f"{option} {path}: is not UTF-8 text: {e.reason}") from None

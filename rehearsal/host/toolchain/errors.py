"""What can keep the toolchain from being there."""

from __future__ import annotations


class ToolchainError(Exception):
    """A tool cannot be had. The message says which, why, and what would help; `exit_code` is for a
    command's exit status.
    """

    exit_code = 1


class MissingPrerequisite(ToolchainError):
    """The machine lacks something that this package cannot bring: a C compiler, room on disk, Go
    and every way to get Go.
    """

    exit_code = 3
